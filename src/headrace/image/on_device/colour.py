"""Colours of images on a device changed, in float32 as on the CPU: arithmetic that chains of operations do at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.types import DType, TorchTensor
from headrace.device.columns import numpy_dtype_of
from headrace.device.evaluate import evaluate
from headrace.device.expression import Expression, number, pixel, stack, where
from headrace.device.lazy_pixels import LazyPixels
from headrace.device.pixels import DeviceValue, Pixels
from headrace.image import colour
from headrace.image.convert import convert_image_dtype, convert_values, scaling_dtype
from headrace.image.on_device.form import image_form, pixel_form
from headrace.image.operation import each_row
from headrace.plan.dtypes import numpy_dtype

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

UINT8 = np.dtype(np.uint8)
FLOAT = np.dtype(np.float32)


def converted(x: Expression, dtype: DType, *, saturate: bool = False) -> Expression:
    """Return pixels in another dtype, by the rules of `convert_image_dtype`."""
    have = x.dtype
    if have == dtype or have.kind == dtype.kind == "f":
        return x.cast(dtype)
    if dtype.kind == "f":
        return (x.cast(scaling_dtype(dtype, have)) * (1.0 / np.iinfo(have).max)).cast(dtype)
    if have.kind != "f":
        return _between_integers(x, dtype, saturate=saturate)
    within = scaling_dtype(have, dtype)
    limits = np.iinfo(dtype)
    scaled = x.cast(within) * (limits.max + 0.5)
    if not saturate:
        return scaled.cast(np.int64).cast(dtype)
    high = within.type(limits.max)
    if int(high) > limits.max:
        high = np.nextafter(high, within.type(0))
    return scaled.clamp(float(limits.min), float(high)).nan_to_zero().cast(dtype)


def _between_integers(x: Expression, wanted: DType, *, saturate: bool) -> Expression:
    limits = np.iinfo(wanted)
    largest, other = int(np.iinfo(x.dtype).max), int(limits.max)
    wide = x.cast(np.int64)
    if largest > other:
        wide = wide.shifted(((largest + 1) // (other + 1)).bit_length() - 1)
        return (wide.clamp(limits.min, other) if saturate else wide).cast(wanted)
    wide = wide.clamp(limits.min, other) if saturate else wide
    return (wide * ((other + 1) // (largest + 1))).cast(wanted)


def _unit(x: Expression) -> Expression:
    """Return pixels in float32, integers from 0 to 1."""
    return converted(x, FLOAT)


def _back(x: Expression, dtype: DType) -> Expression:
    if dtype == UINT8:
        return (x * 255.5).clamp(0.0, 255.0).nan_to_zero().cast(dtype)
    return converted(x, dtype, saturate=True)


def _factors(images: LazyPixels, value: object) -> Expression:
    factors = each_row(value, len(images), np.float32)
    if factors.ndim != 1:
        raise ValueError(f"one number is needed for an image, not {factors.shape[1:]}")
    return images.table(factors[:, None])


@pixel_form(colour.adjust_brightness, each=("delta",))
def _brightness(images: LazyPixels, delta: DeviceValue) -> LazyPixels:
    x, deltas = images.expression, _factors(images, delta)
    if x.dtype == np.float16:
        return images.then(x + deltas.cast(x.dtype))
    return images.then(_back(_unit(x) + deltas, x.dtype))


@pixel_form(colour.adjust_contrast, each=("contrast_factor",))
def _contrast(images: LazyPixels, contrast_factor: object) -> LazyPixels:
    images = images.settled()
    x = images.expression
    own = _unit(x)
    sums = images.table(images.sums(x if x.dtype == UINT8 else own)).cast(np.float64)
    sizes = images.source.pixels.shapes[:, :2].prod(1)
    mean = sums / images.table(np.maximum(sizes, 1).astype(np.float64)[:, None])
    mean = (mean / 255.0 if x.dtype == UINT8 else mean).cast(FLOAT)
    return images.then(_back((own - mean) * _factors(images, contrast_factor) + mean, x.dtype))


def _need_colours(images: LazyPixels, what: str) -> None:
    if images.expression.channels != 3:
        raise ValueError(f"{what} needs images of three channels, red, green and blue")


@pixel_form(colour.adjust_saturation, each=("saturation_factor",))
def _saturation(images: LazyPixels, saturation_factor: object) -> LazyPixels:
    _need_colours(images, "saturation")
    own = _unit(images.expression)
    value = own.highest()
    span = value - own.lowest()
    saturation = where(value > 0, span / value, 0)
    wanted = (saturation * _factors(images, saturation_factor)).clamp(0.0, 1.0) * value
    scale = where(span > 0, wanted / span, 0)
    return images.then(_back(value - (value - own) * scale, images.expression.dtype))


@pixel_form(colour.adjust_hue, each=("delta",))
def _hue(images: LazyPixels, delta: object) -> LazyPixels:
    _need_colours(images, "hue")
    if not (np.abs(each_row(delta, len(images), np.float32)) <= 1).all():
        raise ValueError("delta must be between -1 and 1")
    own = _unit(images.expression)
    r, g, b = map(own.channel, range(3))
    value, low = own.highest(), own.lowest()
    span = value - low
    one = where(span > 0, number(1, FLOAT) / span, 0)
    hue = where(
        r.binary("eq", value), (g - b) * one, where(g.binary("eq", value), (b - r) * one + 2, (r - g) * one + 4)
    )
    hue = hue + _factors(images, delta) * 6
    for _ in range(2):
        hue = where(hue.binary("lt", 0), hue + 6, hue)
    hue = where(hue.binary("ge", 6), hue - 6, hue)
    parts = [low + span * part.clamp(0.0, 1.0) for part in _of_hue(hue)]
    return images.then(_back(stack(parts), images.expression.dtype))


def _of_hue(six: Expression) -> tuple[Expression, Expression, Expression]:
    """Return how much of red, green and blue is in a hue from 0 to 6, beyond the limits of 0 and 1."""
    two = number(2, six.dtype)
    return (six - 3).unary("abs") - 1, two - (six - 2).unary("abs"), two - (six - 4).unary("abs")


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
        own, channels = numpy_dtype_of(x), x.shape[3]
        made = scale * evaluate(machine, _unit(pixel(own, channels)), x, []) ** power
        return evaluate(machine, _back(pixel(FLOAT, channels), own), made, [])

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


@pixel_form(colour.rgb_to_grayscale)
def _grey(images: LazyPixels) -> LazyPixels:
    _need_colours(images, "rgb_to_grayscale")
    own = _unit(images.expression)
    red, green, blue = (own.channel(i) * weight for i, weight in enumerate(colour.GREY))
    return images.then(converted((red + green) + blue, images.expression.dtype))


@pixel_form(colour.grayscale_to_rgb)
def _from_grey(images: LazyPixels) -> LazyPixels:
    if images.expression.channels != 1:
        raise ValueError("grayscale_to_rgb needs images of one channel")
    return images.then(stack([images.expression] * 3))


def _need_floats(images: LazyPixels, what: str) -> None:
    _need_colours(images, what)
    dtype = images.expression.dtype
    if dtype.kind != "f":
        raise TypeError(f"{what} works on floats from 0 to 1, not {dtype}: convert_image_dtype makes them")


@pixel_form(colour.rgb_to_hsv)
def _hsv(images: LazyPixels) -> LazyPixels:
    _need_floats(images, "rgb_to_hsv")
    x = images.expression
    r, g, b = map(x.channel, range(3))
    value = x.highest()
    span = value - x.lowest()
    saturation = where(value > 0, span / value, 0)
    norm = where(span > 0, number(1, x.dtype) / (span * 6), 0)
    hue = where(g.binary("eq", value), norm * (b - r) + 1 / 3, norm * (r - g) + 2 / 3)
    hue = where(r.binary("eq", value), norm * (g - b), hue)
    hue = where(span > 0, where(hue.binary("lt", 0), hue + 1, hue), 0)
    return images.then(stack([hue, saturation, value]))


@pixel_form(colour.hsv_to_rgb)
def _rgb(images: LazyPixels) -> LazyPixels:
    _need_floats(images, "hsv_to_rgb")
    hue, saturation, value = map(images.expression.channel, range(3))
    grey = number(1, hue.dtype) - saturation
    return images.then(stack([(grey + saturation * part.clamp(0.0, 1.0)) * value for part in _of_hue(hue * 6)]))


@pixel_form(convert_image_dtype)
def _convert(images: LazyPixels, dtype: DTypeLike, saturate: bool) -> LazyPixels:
    return images.then(converted(images.expression, numpy_dtype(dtype), saturate=saturate))
