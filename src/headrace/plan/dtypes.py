"""Parse dtypes and shapes of TensorFlow without importing it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from headrace.core.types import DType

ShapeLike: TypeAlias = Any
"""What users give as a shape: a size, a sequence of sizes in which None is any size, or a `tf.TensorShape`."""


def numpy_dtype(given: Any) -> DType:
    """Return a dtype of NumPy's; `tf.string` is bytes."""
    kind = getattr(given, "as_numpy_dtype", given)
    return np.dtype(bytes if kind is object and kind is not given else kind)


def as_sizes(shape: ShapeLike) -> tuple[Any, ...] | None:
    """Return the sizes of a shape, which may be a number, a sequence or a `tf.TensorShape`; None if it has no known
    rank.
    """
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    sizes: Iterable[Any] = shape.as_list() if hasattr(shape, "as_list") else shape
    return tuple(sizes)
