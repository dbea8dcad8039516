"""Numbers of pixels in other dtypes: integers span the dtype's range, floats go from 0 to 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from headrace.columns import Column
from headrace.core.types import Array, DType, Tensor, TensorLike
from headrace.image.images import Images
from headrace.image.operation import image_operation
from headrace.plan.dtypes import numpy_dtype


def convert_values(values: Array, dtype: DTypeLike, *, saturate: bool = False) -> Array:
    """Return pixels of any dtype in another one, as `tf.image.convert_image_dtype` has it.

    Between float16 and integers that go beyond its largest number the scaling is done in float32: in float16 it would
    overflow, as it does in TensorFlow.
    """
    wanted, have = numpy_dtype(dtype), values.dtype
    for one in (wanted, have):
        if one.kind not in "iuf":
            raise TypeError(f"pixels are integers or floats, not {one}")
    if wanted == have:
        return values
    if wanted.kind == "f":
        if have.kind == "f":
            return values.astype(wanted)
        within = scaling_dtype(wanted, have)
        return np.asarray(values.astype(within) * np.array(1.0 / np.iinfo(have).max, within)).astype(wanted, copy=False)
    if have.kind == "f":
        values = values.astype(scaling_dtype(have, wanted), copy=False)
        have = values.dtype
        top = np.iinfo(wanted)
        with np.errstate(over="ignore"):
            scaled = values * np.array(top.max + 0.5, have)
        return _saturated(scaled, wanted) if saturate else _wrapped(scaled, wanted)
    return _between_integers(values, wanted, saturate=saturate)


def scaling_dtype(floats: DType, integers: DType) -> DType:
    """Return the dtype in which floats are scaled to or from integers."""
    fits = np.iinfo(integers).max <= float(np.finfo(floats).max)
    return floats if fits else np.dtype(np.float32)


def _between_integers(values: Array, wanted: DType, *, saturate: bool) -> Array:
    have_max, wanted_max = int(np.iinfo(values.dtype).max), int(np.iinfo(wanted).max)
    if have_max > wanted_max:
        scaled = values // np.array((have_max + 1) // (wanted_max + 1), values.dtype)
        return _saturated(scaled, wanted) if saturate else scaled.astype(wanted)
    scale = (wanted_max + 1) // (have_max + 1)
    cast = _saturated(values, wanted) if saturate else values.astype(wanted)
    return np.asarray(cast * np.array(scale, wanted))


def _saturated(values: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype)
    if values.dtype.kind == "f":
        low, high = values.dtype.type(limits.min), values.dtype.type(limits.max)
        if int(high) > limits.max:  # which the float dtype has no number for
            high = np.nextafter(high, values.dtype.type(0))
        made: Array = np.nan_to_num(np.clip(values, low, high)).astype(dtype)
        return made
    known = np.iinfo(values.dtype)
    return np.asarray(np.clip(values, max(limits.min, known.min), min(limits.max, known.max)), dtype)


def _wrapped(values: Array, dtype: DType) -> Array:
    """Truncate; values outside of the dtype wrap around like 64-bit integers."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.int64).astype(dtype) if dtype.itemsize < 8 else values.astype(dtype)


def _convert_rows(images: Images, dtype: DTypeLike, saturate: bool) -> Column:
    made = convert_values(images.data, dtype, saturate=saturate)
    return images.with_values(made.copy() if made is images.data else made)


@image_operation(_convert_rows, lambda shape, _, dtype, **__: (shape, numpy_dtype(dtype)))
def convert_image_dtype(image: TensorLike, dtype: DTypeLike, saturate: bool = False) -> Tensor:
    """Return the image in another dtype: floats go from 0 to 1, integers over the dtype's positive range.

    With `saturate`, values outside of it are clipped.

    Args:
        image: One image (height, width, channels) or a batch of images.
        dtype: Data type of the result.
        saturate: Whether values out of range are clipped instead of wrapped.

    >>> hr.image.convert_image_dtype(np.full((1, 1, 2), 255, np.uint8), np.float32)
    array([[[1., 1.]]], dtype=float32)
    """
