"""Check the arguments of generators and lay them out for the kernels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Array, DType, TensorLike

Size = int | tuple[int, ...] | None


def as_block_argument(value: TensorLike) -> TensorLike:
    """Return an argument of one row as one of a block."""
    return value if value is None or scalar(value) else np.asarray(value)[None]


def scalar(value: TensorLike) -> bool:
    """Return whether it is a single number, the same for all rows."""
    return isinstance(value, int | float | np.generic) or np.ndim(value) == 0


def every(holds: TensorLike) -> bool:
    """Return whether a condition holds, of a number or of all in an array."""
    return holds if isinstance(holds, bool) else bool(holds.all())


def size_shape(size: Size) -> tuple[int, ...]:
    """Return the shape that a `size` asks for."""
    if size is None:
        return ()
    shape = tuple(map(operator.index, size)) if isinstance(size, tuple | list) else (operator.index(size),)
    if min(shape, default=0) < 0:
        raise ValueError(f"size must not be negative, not {size!r}")
    return shape


def floats(value: TensorLike) -> TensorLike:
    """Return a number as float, an array as float64."""
    return float(value) if scalar(value) else np.asarray(value, np.float64)


def parameters(
    size: Size, *values: object, convert: Callable[[Any], object] = floats
) -> tuple[list[Any], tuple[int, ...]]:
    """Arguments that broadcast with the rows in front, and the shape of a row's result."""
    made = [convert(v) for v in values]
    arrays = [a for a in made if isinstance(a, np.ndarray)]
    if not arrays:
        return made, size_shape(size)
    inner = np.broadcast_shapes(*(a.shape[1:] for a in arrays))
    shape = inner if size is None else size_shape(size)
    if np.broadcast_shapes(shape, inner) != shape:
        raise ValueError(f"arguments of shape {inner} do not fit into size {shape}")
    return [_align_axes(a, 1 + len(shape)) if isinstance(a, np.ndarray) else a for a in made], shape


def _align_axes(array: Array, axes: int) -> Array:
    return array.reshape(array.shape[:1] + (1,) * (axes - array.ndim) + array.shape[1:])


def intervals(
    low: TensorLike, high: TensorLike, endpoint: bool, kind: DType, size: Size, rows: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], tuple[int, ...]]:
    """Return the start and size of intervals, modulo 2**64: one for all draws, or one each; and the shape of a row."""
    least, most = _range(kind)
    single = scalar(low) and scalar(high)
    if single:
        shape = size_shape(size)
        low, high = operator.index(low), operator.index(high)
    else:
        (low, high), shape = parameters(size, low, high, convert=_integers)
    last = high - int(not endpoint)
    if not every(low <= high if endpoint else low < high):
        raise ValueError("integers: low must be below high")
    if not every(low >= least) or not every(last <= most):
        raise ValueError(f"integers: low or high is out of bounds for {kind}")
    if single:
        return np.array([low % _WORDS], np.uint64), np.array([(last - low + 1) % _WORDS], np.uint64), shape
    start = low.astype(np.uint64)
    span = last.astype(np.uint64) - start + np.uint64(1)
    whole = (rows, *shape)
    return np.broadcast_to(start, whole).reshape(-1), np.broadcast_to(span, whole).reshape(-1), shape


_WORDS = 2**64


def _integers(value: TensorLike) -> TensorLike:
    if scalar(value):
        return np.asarray(operator.index(value))[None]
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"integers: low and high must be integers, not {array.dtype}")
    return array.astype(np.int64 if array.dtype.kind == "i" else np.uint64, copy=False)  # an end less 1 must not wrap


def _range(kind: DType) -> tuple[int, int]:
    if kind == np.bool_:
        return 0, 1
    if kind.kind not in "iu":
        raise TypeError(f"integers gives integers or bool, not {kind}")
    limits = np.iinfo(kind)
    return int(limits.min), int(limits.max)
