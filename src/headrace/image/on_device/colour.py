"""Colours of images on a device changed, in float32 as on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.types import DType, TorchTensor
from headrace.device.arithmetic import cast, torch_dtype
from headrace.device.columns import numpy_dtype_of
from headrace.device.pixels import DeviceValue, Pixels
from headrace.image import colour
from headrace.image.convert import convert_image_dtype, convert_values, scaling_dtype
from headrace.image.on_device.form import image_form
from headrace.image.operation import each_row
from headrace.plan.dtypes import numpy_dtype

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

UINT8 = np.dtype(np.uint8)
FLOAT = np.dtype(np.float32)


def converted(machine: Machine, x: object, dtype: DType, *, saturate: bool = False) -> DeviceValue:
    """Return pixels in another dtype, by the rules of `convert_image_dtype`."""
    torch, have = machine.torch, numpy_dtype_of(x)
    if have == dtype:
        return x
    if have.kind == "f" and dtype.kind == "f":
        return cast(machine, x, dtype)
    if dtype.kind == "f":
        within = scaling_dtype(dtype, have)
        return cast(machine, cast(machine, x, within) * _number(machine, 1.0 / np.iinfo(have).max, within), dtype)
    if have.kind != "f":
        return _between_integers(machine, x, have, dtype, saturate=saturate)
    within = scaling_dtype(have, dtype)
    limits = np.iinfo(dtype)
    scaled = cast(machine, x, within) * _number(machine, limits.max + 0.5, within)
    if not saturate:
        return scaled.to(torch.int64).to(torch_dtype(machine, dtype))
    high = within.type(limits.max)
    if int(high) > limits.max:
        high = np.nextafter(high, within.type(0))
    return torch.nan_to_num(scaled.clamp(float(limits.min), float(high))).to(torch_dtype(machine, dtype))


def _number(machine: Machine, value: float, dtype: DType) -> DeviceValue:
    return machine.torch.tensor(np.array(value, dtype).item(), dtype=torch_dtype(machine, dtype))


def _between_integers(machine: Machine, x: TorchTensor, have: DType, wanted: DType, *, saturate: bool) -> DeviceValue:
    torch, limits = machine.torch, np.iinfo(wanted)
    largest, other = int(np.iinfo(have).max), int(limits.max)
    wide = x.to(torch.int64)
    if largest > other:
        wide = torch.div(wide, (largest + 1) // (other + 1), rounding_mode="floor")
        wide = wide.clamp(limits.min, limits.max) if saturate else wide
        return wide.to(torch_dtype(machine, wanted))
    wide = wide.clamp(limits.min, limits.max) if saturate else wide
    return (wide * ((other + 1) // (largest + 1))).to(torch_dtype(machine, wanted))


def _unit(machine: Machine, x: object) -> DeviceValue:
    """Return pixels in float32, integers from 0 to 1."""
    return converted(machine, x, FLOAT)


def _back(machine: Machine, x: TorchTensor, dtype: DType) -> DeviceValue:
    if dtype == UINT8:
        return (x * 255.5).clamp(0, 255).nan_to_num(0).to(machine.torch.uint8)
    return converted(machine, x, dtype, saturate=True)


def _factors(
    machine: Machine, pixels: Pixels, value: object, part: slice, dtype: DTypeLike = np.float32
) -> DeviceValue:
    factors = each_row(value, len(pixels), dtype)
    if factors.ndim != 1:
        raise ValueError(f"one number is needed for an image, not {factors.shape[1:]}")
    return machine.put(factors[part])[:, None, None, None]


@image_form(colour.adjust_brightness, each=("delta",))
def _brightness(machine: Machine, pixels: Pixels, delta: DeviceValue) -> DeviceValue:
    def change(x: TorchTensor, part: slice) -> DeviceValue:
        if x.dtype == machine.torch.float16:
            return x + _factors(machine, pixels, delta, part).to(x.dtype)
        return _back(machine, _unit(machine, x) + _factors(machine, pixels, delta, part), numpy_dtype_of(x))

    return pixels.each(machine, change)


@image_form(colour.adjust_contrast, each=("contrast_factor",))
def _contrast(machine: Machine, pixels: Pixels, contrast_factor: object) -> DeviceValue:
    torch = machine.torch

    def change(x: TorchTensor, part: slice) -> DeviceValue:
        count = x.shape[1] * x.shape[2]
        if x.dtype == torch.uint8:
            mean = (x.to(torch.int64).sum((1, 2), keepdim=True).to(torch.float64) / max(1, count) / 255.0).float()
        else:
            mean = (_unit(machine, x).to(torch.float64).sum((1, 2), keepdim=True) / max(1, count)).float()
        made = (_unit(machine, x) - mean) * _factors(machine, pixels, contrast_factor, part) + mean
        return _back(machine, made, numpy_dtype_of(x))

    return pixels.each(machine, change)


def _need_colours(pixels: Pixels, what: str) -> None:
    if (pixels.shapes[:, 2] != 3).any():
        raise ValueError(f"{what} needs images of three channels, red, green and blue")


@image_form(colour.adjust_saturation, each=("saturation_factor",))
def _saturation(machine: Machine, pixels: Pixels, saturation_factor: object) -> DeviceValue:
    _need_colours(pixels, "saturation")
    torch = machine.torch

    def change(x: object, part: slice) -> DeviceValue:
        own = _unit(machine, x)
        value, low = own.amax(3, keepdim=True), own.amin(3, keepdim=True)
        span = value - low
        zero = torch.zeros_like(value)
        saturation = torch.where(value > 0, span / value, zero)
        wanted = (saturation * _factors(machine, pixels, saturation_factor, part)).clamp(0, 1) * value
        scale = torch.where(span > 0, wanted / span, zero)
        return _back(machine, value - (value - own) * scale, numpy_dtype_of(x))

    return pixels.each(machine, change)


@image_form(colour.adjust_hue, each=("delta",))
def _hue(machine: Machine, pixels: Pixels, delta: object) -> DeviceValue:
    _need_colours(pixels, "hue")
    if not (np.abs(each_row(delta, len(pixels), np.float32)) <= 1).all():
        raise ValueError("delta must be between -1 and 1")
    torch = machine.torch

    def change(x: object, part: slice) -> DeviceValue:
        own = _unit(machine, x)
        r, g, b = own[..., :1], own[..., 1:2], own[..., 2:]
        value, low = own.amax(3, keepdim=True), own.amin(3, keepdim=True)
        span = value - low
        one = torch.where(span > 0, 1.0 / span, torch.zeros_like(span))
        hue = torch.where(r == value, (g - b) * one, torch.where(g == value, (b - r) * one + 2.0, (r - g) * one + 4.0))
        hue = hue + _factors(machine, pixels, delta, part) * 6.0
        for _ in range(2):
            hue = torch.where(hue < 0, hue + 6.0, hue)
        hue = torch.where(hue >= 6.0, hue - 6.0, hue)
        parts = ((hue - 3.0).abs() - 1.0, 2.0 - (hue - 2.0).abs(), 2.0 - (hue - 4.0).abs())
        return _back(machine, torch.cat([low + span * p.clamp(0, 1) for p in parts], 3), numpy_dtype_of(x))

    return pixels.each(machine, change)


@image_form(colour.adjust_gamma, each=("gamma", "gain"))
def _gamma(machine: Machine, pixels: Pixels, gamma: object, gain: object) -> DeviceValue:
    powers, times = (each_row(value, len(pixels), np.float32) for value in (gamma, gain))
    if not (powers >= 0).all():
        raise ValueError("gamma must not be negative")

    def change(x: TorchTensor, part: slice) -> DeviceValue:
        if x.dtype == machine.torch.uint8:
            every = convert_values(np.arange(256, dtype=np.uint8), np.float32)
            made = [t * every**p for t, p in zip(times[part], powers[part], strict=True)]
            table = machine.put(np.stack([convert_values(m, np.uint8, saturate=True) for m in made]))
            return machine.torch.gather(table, 1, x.reshape(len(x), -1).to(machine.torch.int64)).reshape(x.shape)
        power, scale = (machine.put(v[part])[:, None, None, None] for v in (powers, times))
        if x.dtype == machine.torch.float16:
            return scale.to(x.dtype) * x ** power.to(x.dtype)
        return _back(machine, scale * _unit(machine, x) ** power, numpy_dtype_of(x))

    return pixels.each(machine, change)


@image_form(colour.per_image_standardization)
def _standardise(machine: Machine, pixels: Pixels) -> DeviceValue:
    torch = machine.torch

    def change(x: TorchTensor, part: slice) -> DeviceValue:  # noqa: ARG001
        own = x.to(torch.float32)
        least = 1.0 / np.sqrt(np.float32(max(1, own[0].numel())))
        mean = own.mean((1, 2, 3), keepdim=True)
        spread = own.std((1, 2, 3), correction=0, keepdim=True).clamp(min=float(least))
        return (own - mean) / spread

    return pixels.each(machine, change)


@image_form(colour.rgb_to_grayscale)
def _grey(machine: Machine, pixels: Pixels) -> DeviceValue:
    _need_colours(pixels, "rgb_to_grayscale")

    def change(x: object, part: slice) -> DeviceValue:  # noqa: ARG001
        known = _unit(machine, x)
        red, green, blue = (known[..., i : i + 1] * float(np.float32(w)) for i, w in enumerate(colour.GREY))
        return converted(machine, (red + green) + blue, numpy_dtype_of(x))

    return pixels.each(machine, change)


@image_form(colour.grayscale_to_rgb)
def _from_grey(machine: Machine, pixels: Pixels) -> DeviceValue:
    if (pixels.shapes[:, 2] != 1).any():
        raise ValueError("grayscale_to_rgb needs images of one channel")
    return pixels.each(machine, lambda x, _: x.expand(*x.shape[:3], 3).contiguous())


def _need_floats(pixels: Pixels, what: str) -> None:
    _need_colours(pixels, what)
    if not pixels.flat.dtype.is_floating_point:
        dtype = str(pixels.flat.dtype).removeprefix("torch.")
        raise TypeError(f"{what} works on floats from 0 to 1, not {dtype}: convert_image_dtype makes them")


@image_form(colour.rgb_to_hsv)
def _hsv(machine: Machine, pixels: Pixels) -> DeviceValue:
    _need_floats(pixels, "rgb_to_hsv")
    torch = machine.torch

    def change(x: TorchTensor, part: slice) -> DeviceValue:  # noqa: ARG001
        r, g, b = x[..., 0], x[..., 1], x[..., 2]
        value = x.amax(3)
        span = value - x.amin(3)
        zero = torch.zeros_like(value)
        saturation = torch.where(value > 0, span / value, zero)
        norm = torch.where(span > 0, 1 / (6 * span), zero)
        third = 1 / 3
        hue = torch.where(g == value, norm * (b - r) + third, norm * (r - g) + 2 * third)
        hue = torch.where(r == value, norm * (g - b), hue)
        hue = torch.where(span > 0, torch.where(hue < 0, hue + 1, hue), zero)
        return torch.stack([hue, saturation, value], 3)

    return pixels.each(machine, change)


@image_form(colour.hsv_to_rgb)
def _rgb(machine: Machine, pixels: Pixels) -> DeviceValue:
    _need_floats(pixels, "hsv_to_rgb")

    def change(x: TorchTensor, part: slice) -> DeviceValue:  # noqa: ARG001
        six, saturation, value = x[..., 0] * 6, x[..., 1], x[..., 2]
        parts = ((six - 3).abs() - 1, 2 - (six - 2).abs(), 2 - (six - 4).abs())
        return machine.torch.stack([(1 - saturation + saturation * p.clamp(0, 1)) * value for p in parts], 3)

    return pixels.each(machine, change)


@image_form(convert_image_dtype)
def _convert(machine: Machine, pixels: Pixels, dtype: DTypeLike, saturate: bool) -> DeviceValue:
    made = converted(machine, pixels.flat, numpy_dtype(dtype), saturate=saturate)
    return Pixels(made, pixels.shapes, pixels.starts, pixels.strides)
