"""Images of one size resized by JAX: the weights of the CPU, as products with two matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.core.types import Library
from headrace.device.forms import UnsupportedError
from headrace.device.on_jax.arithmetic import cast
from headrace.device.on_jax.forms import JaxArray
from headrace.image.on_jax.form import jax_image_form
from headrace.image.on_jax.geometry import framed
from headrace.image.resample import area_scale, taps
from headrace.image.resize import METHODS, resize, resize_with_pad, resized_dtype, sizes_with_pad, two_sizes


def resized(jax: Library, image: JaxArray, height: int, width: int, method: str, antialias: bool) -> JaxArray:
    """Return the image at another size, in float32; in its own dtype by "nearest"."""
    if method not in METHODS:
        raise UnsupportedError(f"method is one of {', '.join(map(repr, METHODS))}, not {method!r}")
    if not image.size:
        raise UnsupportedError("an image without pixels has nothing to resize")
    if method == "nearest":
        rows, columns = (_nearest(size, wanted) for size, wanted in zip(image.shape, (height, width), strict=False))
        return image[rows][:, columns]
    down, across = (
        _weights(method, size, wanted, antialias) for size, wanted in zip(image.shape, (height, width), strict=False)
    )
    if method == "area":
        down = down * area_scale(np.array(image.shape), height, width)
    most = jax.lax.Precision.HIGHEST  # an accelerator multiplies in fewer bits otherwise
    wide = jax.numpy.einsum("hwc,xw->hxc", image.astype(np.float32), across, precision=most)
    return jax.numpy.einsum("hxc,yh->yxc", wide, down, precision=most)


def _nearest(size: int, wanted: int) -> NDArray[np.int64]:
    scale = np.float32(size) / np.float32(wanted)
    at = np.floor((np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale).astype(np.int64)
    return np.asarray(np.minimum(at, size - 1))


def _weights(method: str, size: int, wanted: int, antialias: bool) -> NDArray[np.float32]:
    """Return the share of each pixel in each of the result: (wanted, size)."""
    made = np.zeros((wanted, size), np.float32)
    places = np.arange(wanted)
    if method == "bilinear" and not antialias:
        scale = np.float32(size) / np.float32(wanted)
        at = (places.astype(np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
        below = np.floor(at)
        upper = np.minimum(np.ceil(at).astype(np.int64), size - 1)
        np.add.at(made, (places, np.maximum(below.astype(np.int64), 0)), 1 - (at - below))
        np.add.at(made, (places, upper), at - below)
        return made
    found = taps(method, size, wanted, antialias)
    for k in range(found.weights.shape[1]):
        np.add.at(made, (places, np.clip(found.starts + k, 0, size - 1)), found.weights[:, k])
    return made


def _to_dtype(jax: Library, made: JaxArray, method: str, dtype: DTypeLike) -> JaxArray:
    own = np.dtype(made.dtype)
    wanted = resized_dtype(dtype, method, own)
    if wanted == np.uint8 and own != wanted:
        made = jax.numpy.nan_to_num(jax.numpy.round(made).clip(0, 255))
    return cast(jax, made, wanted)


def _refuse_ratio(preserve_aspect_ratio: object, **_: object) -> str | None:
    if preserve_aspect_ratio:
        return "preserve_aspect_ratio=True gives images of different sizes, which make no batch: use resize_with_pad"
    return None


@jax_image_form(resize, check=_refuse_ratio)
def _resize(
    jax: Library,
    image: JaxArray,
    size: object,
    method: str,
    preserve_aspect_ratio: bool,
    antialias: bool,
    dtype: DTypeLike,
) -> JaxArray:
    del preserve_aspect_ratio
    return _to_dtype(jax, resized(jax, image, *two_sizes(size), method, antialias), method, dtype)


@jax_image_form(resize_with_pad)
def _resize_with_pad(
    jax: Library, image: JaxArray, target_height: int, target_width: int, method: str, antialias: bool
) -> JaxArray:
    sizes, margins = sizes_with_pad(np.array([image.shape]), target_height, target_width)
    height, width = sizes[0].tolist()
    made = resized(jax, image, height, width, method, antialias)
    return framed(jax, made, margins[0].tolist(), target_height, target_width)
