"""Colours of images changed by JAX, in float32 as on the CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.types import DType, Library
from headrace.device.forms import UnsupportedError
from headrace.device.on_jax.arithmetic import cast
from headrace.device.on_jax.forms import JaxArray, Prepared
from headrace.image import colour
from headrace.image.convert import convert_image_dtype, convert_values
from headrace.image.on_jax.form import Sizes, amounts, jax_image_form
from headrace.image.operation import each_row
from headrace.plan.dtypes import numpy_dtype
from headrace.plan.spec import TensorSpec

UINT8 = np.dtype(np.uint8)
FLOAT = np.dtype(np.float32)
LARGEST_EXACT_PIXELS = (2**32 - 1) // 255
"""The sum of this many bytes fits into 32 bits."""


def converted(jax: Library, x: JaxArray, dtype: DType, *, saturate: bool = False) -> JaxArray:
    """Return pixels in another dtype, by the rules of `convert_image_dtype`."""
    jnp, have = jax.numpy, np.dtype(x.dtype)
    if have == dtype or (have.kind == "f" and dtype.kind == "f"):
        return cast(jax, x, dtype)
    if dtype.kind == "f":
        return cast(jax, x.astype(FLOAT) * np.float32(1.0 / np.iinfo(have).max), dtype)
    limits = np.iinfo(dtype)
    if have.kind == "f":
        scaled = x.astype(FLOAT) * np.float32(limits.max + 0.5)
        scaled = jnp.nan_to_num(scaled.clip(limits.min, limits.max)) if saturate else scaled
        return scaled.astype(np.int32).astype(dtype)
    largest, wide = int(np.iinfo(have).max), x.astype(np.int32)
    if largest > limits.max:
        wide = wide // ((largest + 1) // (int(limits.max) + 1))
        return (wide.clip(limits.min, limits.max) if saturate else wide).astype(dtype)
    wide = wide.clip(limits.min, limits.max) if saturate else wide
    return (wide * ((int(limits.max) + 1) // (largest + 1))).astype(dtype)


def _unit(jax: Library, x: JaxArray) -> JaxArray:
    """Return pixels in float32, integers from 0 to 1."""
    return converted(jax, x, FLOAT)


def _back(jax: Library, x: JaxArray, dtype: DType) -> JaxArray:
    if dtype == UINT8:
        return jax.numpy.nan_to_num((x * np.float32(255.5)).clip(0, 255)).astype(np.uint8)
    return converted(jax, x, dtype, saturate=True)


def _narrow(*specs: object, **named: object) -> str | None:
    """Refuse integers that float32 and int32 do not hold."""
    found = [s for s in (*specs, *named.values()) if isinstance(s, TensorSpec)]
    dtypes = [s.dtype for s in found[:1] if s.dtype is not None]
    dtypes += [numpy_dtype(named["dtype"])] if "dtype" in named else []
    wide = next((d for d in dtypes if d.kind not in "f" and (d.kind not in "iu" or d.itemsize > 2)), None)
    if wide is None:
        return None
    return f"images of {wide} have no form by JAX: use convert_image_dtype in a map without device= before this one"


@jax_image_form(colour.adjust_brightness, each=("delta",), check=_narrow)
def _brightness(jax: Library, image: JaxArray, delta: JaxArray) -> JaxArray:
    return _back(jax, _unit(jax, image) + delta, np.dtype(image.dtype))


@jax_image_form(colour.adjust_contrast, each=("contrast_factor",), check=_narrow)
def _contrast(jax: Library, image: JaxArray, contrast_factor: JaxArray) -> JaxArray:
    count = max(1, image.shape[0] * image.shape[1])
    own = _unit(jax, image)
    if image.dtype == np.uint8 and count <= LARGEST_EXACT_PIXELS:
        mean = image.astype(np.uint32).sum((0, 1), keepdims=True) / np.float32(count) / np.float32(255)
    else:
        mean = own.mean((0, 1), keepdims=True)
    return _back(jax, (own - mean) * contrast_factor + mean, np.dtype(image.dtype))


def _need_colours(image: JaxArray, what: str) -> None:
    if image.shape[2] != 3:
        raise UnsupportedError(f"{what} needs images of three channels, red, green and blue")


@jax_image_form(colour.adjust_saturation, each=("saturation_factor",), check=_narrow)
def _saturation(jax: Library, image: JaxArray, saturation_factor: JaxArray) -> JaxArray:
    _need_colours(image, "saturation")
    jnp, own = jax.numpy, _unit(jax, image)
    value, low = own.max(2, keepdims=True), own.min(2, keepdims=True)
    span = value - low
    saturation = jnp.where(value > 0, span / jnp.where(value > 0, value, 1), 0)
    wanted = (saturation * saturation_factor).clip(0, 1) * value
    scale = jnp.where(span > 0, wanted / jnp.where(span > 0, span, 1), 0)
    return _back(jax, value - (value - own) * scale, np.dtype(image.dtype))


def _turns(images: Sizes, delta: object) -> Prepared:
    if not (np.abs(each_row(delta, len(images), np.float32)) <= 1).all():
        raise ValueError("delta must be between -1 and 1")
    return amounts(images, delta=delta)


@jax_image_form(colour.adjust_hue, each=("delta",), prepare=_turns, check=_narrow)
def _hue(jax: Library, image: JaxArray, delta: JaxArray) -> JaxArray:
    _need_colours(image, "hue")
    jnp, own = jax.numpy, _unit(jax, image)
    r, g, b = own[..., :1], own[..., 1:2], own[..., 2:]
    value, low = own.max(2, keepdims=True), own.min(2, keepdims=True)
    span = value - low
    one = jnp.where(span > 0, 1 / jnp.where(span > 0, span, 1), 0)
    hue = jnp.where(r == value, (g - b) * one, jnp.where(g == value, (b - r) * one + 2, (r - g) * one + 4))
    hue = hue + delta * np.float32(6)
    for _ in range(2):
        hue = jnp.where(hue < 0, hue + 6, hue)
    hue = jnp.where(hue >= 6, hue - 6, hue)
    parts = (jnp.abs(hue - 3) - 1, 2 - jnp.abs(hue - 2), 2 - jnp.abs(hue - 4))
    return _back(jax, jnp.concatenate([low + span * p.clip(0, 1) for p in parts], 2), np.dtype(image.dtype))


def _powers(images: Sizes, gamma: object, gain: object) -> Prepared:
    made = amounts(images, gamma=gamma, gain=gain)
    if not (made["gamma"] >= 0).all():
        raise ValueError("gamma must not be negative")
    every = convert_values(np.arange(256, dtype=np.uint8), np.float32)
    tables = [t * every**p for t, p in zip(made["gain"], made["gamma"], strict=True)]
    return {**made, "table": np.stack([convert_values(m, np.uint8, saturate=True) for m in tables])}


@jax_image_form(colour.adjust_gamma, each=("gamma", "gain"), prepare=_powers, check=_narrow)
def _gamma(jax: Library, image: JaxArray, gamma: JaxArray, gain: JaxArray, table: JaxArray) -> JaxArray:
    if image.dtype == np.uint8:
        return table[image.astype(np.int32)]
    return _back(jax, gain * _unit(jax, image) ** gamma, np.dtype(image.dtype))


@jax_image_form(colour.per_image_standardization)
def _standardise(jax: Library, image: JaxArray) -> JaxArray:
    own = image.astype(np.float32)
    least = np.float32(1.0) / np.sqrt(np.float32(max(1, own.size)))
    return (own - own.mean()) / jax.numpy.maximum(own.std(), least)


@jax_image_form(colour.rgb_to_grayscale, check=_narrow)
def _grey(jax: Library, image: JaxArray) -> JaxArray:
    _need_colours(image, "rgb_to_grayscale")
    known = _unit(jax, image)
    red, green, blue = (known[..., i : i + 1] * np.float32(w) for i, w in enumerate(colour.GREY))
    return converted(jax, (red + green) + blue, np.dtype(image.dtype))


@jax_image_form(colour.grayscale_to_rgb)
def _from_grey(jax: Library, image: JaxArray) -> JaxArray:
    if image.shape[2] != 1:
        raise UnsupportedError("grayscale_to_rgb needs images of one channel")
    return jax.numpy.broadcast_to(image, (*image.shape[:2], 3))


def _need_floats(image: JaxArray, what: str) -> None:
    _need_colours(image, what)
    if np.dtype(image.dtype).kind != "f":
        raise UnsupportedError(f"{what} works on floats from 0 to 1, not {image.dtype}: convert_image_dtype makes them")


@jax_image_form(colour.rgb_to_hsv)
def _hsv(jax: Library, image: JaxArray) -> JaxArray:
    _need_floats(image, "rgb_to_hsv")
    jnp = jax.numpy
    r, g, b = image[..., 0], image[..., 1], image[..., 2]
    value = image.max(2)
    span = value - image.min(2)
    saturation = jnp.where(value > 0, span / jnp.where(value > 0, value, 1), 0)
    norm = jnp.where(span > 0, 1 / (6 * jnp.where(span > 0, span, 1)), 0)
    third = 1 / 3
    hue = jnp.where(g == value, norm * (b - r) + third, norm * (r - g) + 2 * third)
    hue = jnp.where(r == value, norm * (g - b), hue)
    hue = jnp.where(span > 0, jnp.where(hue < 0, hue + 1, hue), 0)
    return jnp.stack([hue, saturation, value], 2)


@jax_image_form(colour.hsv_to_rgb)
def _rgb(jax: Library, image: JaxArray) -> JaxArray:
    _need_floats(image, "hsv_to_rgb")
    jnp = jax.numpy
    six, saturation, value = image[..., 0] * 6, image[..., 1], image[..., 2]
    parts = (jnp.abs(six - 3) - 1, 2 - jnp.abs(six - 2), 2 - jnp.abs(six - 4))
    return jnp.stack([(1 - saturation + saturation * p.clip(0, 1)) * value for p in parts], 2)


@jax_image_form(convert_image_dtype, check=_narrow)
def _convert(jax: Library, image: JaxArray, dtype: DTypeLike, saturate: bool) -> JaxArray:
    return converted(jax, image, numpy_dtype(dtype), saturate=saturate)
