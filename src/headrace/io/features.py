"""Features as dense arrays and as rows of any length: tf.io's descriptions, under its names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from headrace.columns import box_text
from headrace.columns.arrow_text import binary
from headrace.columns.kind import Column
from headrace.core.override import override
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component
from headrace.io.feature import BYTES, DTYPES, INT64, Feature, FoundValues, Request, as_tuples, sizes_of, varying
from headrace.plan.spec import TensorSpec


@dataclass(frozen=True)
class FixedLenFeature(Feature):
    """A fixed number of values in each record, given by `shape`; without a `default_value` every record must have them.

    Args:
        shape: Shape of the values.
        dtype: Data type.
        default_value: Value to use if one is missing.

    >>> record = hr.io.encode_example({"x": [1, 2]})
    >>> hr.io.parse_single_example(record, {"x": hr.io.FixedLenFeature([2], np.int64)})
    {'x': array([1, 2])}
    """

    shape: Sequence[int]
    dtype: DTypeLike
    default_value: Component = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", sizes_of(self.shape))
        object.__setattr__(self, "default_value", as_tuples(self.default_value))

    @property
    def plain(self) -> bool:
        """One number or text, without a shape."""
        return self.shape == ()

    @override
    def requests(self, name: str, *, single: bool, in_steps: bool) -> list[Request]:
        """Return the one list, of a fixed size."""
        if in_steps:
            raise ValueError(f"feature list {name!r} needs FixedLenSequenceFeature, VarLenFeature or RaggedFeature")
        default = None
        if self.default_value is not None:
            default = _default(name, self.default_value, self.kind, tuple(self.shape))
        size, required = math.prod(self.shape), default is None
        return [Request(name.encode(), self.kind, False, size, 1, required, skip_empty=True, default=default)]

    @override
    def column(self, name: str, found: Sequence[FoundValues], rows: int) -> Column:
        """Dense; bytes without a shape stay in Arrow's layout."""
        values, ends, _, _ = found[0]
        if ends is not None and not self.shape:
            return binary(values, ends)
        return found[0].array.reshape(rows, *self.shape)

    def as_batch(self, column: Column) -> Column:
        """Return bytes as objects."""
        return column if isinstance(column, np.ndarray) else box_text(column)

    def spec(self, *, batch: bool) -> TensorSpec:
        """Return the spec: all sizes are known."""
        return TensorSpec((None,) * batch + tuple(self.shape), DTYPES[self.kind])


@dataclass(frozen=True)
class FixedLenSequenceFeature(Feature):
    """Any number of values of one shape; a batch is filled up with `default_value` to the longest.

    Args:
        shape: Shape of the values.
        dtype: Data type.
        allow_missing: Whether the feature may be absent.
        default_value: Value to use if one is missing.

    >>> records = [hr.io.encode_example({"x": [1, 2]}), hr.io.encode_example({"x": [3]})]
    >>> hr.io.parse_example(records, {"x": hr.io.FixedLenSequenceFeature([], np.int64, allow_missing=True)})
    {'x': array([[1, 2],
           [3, 0]])}
    """

    shape: Sequence[int]
    dtype: DTypeLike
    allow_missing: bool = False
    default_value: Component = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", sizes_of(self.shape))
        if 0 in self.shape:
            raise ValueError(f"the sizes of a sequence must be positive, not {self.shape}")

    @override
    def requests(self, name: str, *, single: bool, in_steps: bool) -> list[Request]:
        """Return the one list: a multiple of the shape in a record, exactly the shape in each step."""
        size = math.prod(self.shape)
        if in_steps:
            return [Request(name.encode(), self.kind, True, size, required=not self.allow_missing)]
        if not self.allow_missing:
            raise ValueError(f"feature {name!r}: FixedLenSequenceFeature in an Example needs allow_missing=True")
        return [Request(name.encode(), self.kind, False, -1, size, skip_empty=True)]

    @override
    def column(self, name: str, found: Sequence[FoundValues], rows: int) -> Column:
        """Ragged; in steps, dense."""
        values, splits = found[0].array.reshape(-1, *self.shape), found[0].splits
        return values if splits is None else Ragged._of(values, splits // math.prod(self.shape))

    def as_batch(self, column: Column) -> Array:
        """Padded."""
        empty: Column = b"" if self.kind == BYTES else 0
        padded: Array = column.to_padded(empty if self.default_value is None else self.default_value)
        return padded

    def spec(self, *, batch: bool) -> TensorSpec:
        """Return the spec: the length is not known."""
        return TensorSpec((None,) * batch + (None, *self.shape), DTYPES[self.kind])


@dataclass(frozen=True)
class VarLenFeature(Feature):
    """Any number of values, also none: an array of one record, an hr.Ragged of a batch.

    Args:
        dtype: Data type.

    >>> records = [hr.io.encode_example({"x": [1, 2]}), hr.io.encode_example({})]
    >>> hr.io.parse_example(records, {"x": hr.io.VarLenFeature(np.int64)})
    {'x': Ragged([[1, 2], []], dtype=int64)}
    """

    dtype: DTypeLike

    def requests(self, name: str, *, single: bool, in_steps: bool) -> list[Request]:
        """Return the one list."""
        return [varying(name, self.kind, single=single, in_steps=in_steps)]

    @override
    def column(self, name: str, found: Sequence[FoundValues], rows: int) -> Ragged:
        """Ragged."""
        return found[0].ragged

    def spec(self, *, batch: bool) -> TensorSpec:
        """Return the spec: the length is not known."""
        return TensorSpec((None,) * batch + (None,), DTYPES[self.kind])


def _default(name: str, value: object, kind: int, shape: tuple[int, ...]) -> Component:
    array = np.asarray(value, object if kind == BYTES else None)
    if array.size != math.prod(shape):
        raise ValueError(f"feature {name!r}: the default has shape {array.shape} where {shape} was asked")
    if kind == BYTES:
        made = [v.encode() if isinstance(v, str) else v for v in array.ravel().tolist()]
        if not all(isinstance(v, bytes) for v in made):
            raise ValueError(f"feature {name!r}: the default {value!r} is no bytes")
        return made
    if array.dtype.kind not in ("iub" if kind == INT64 else "iubf"):
        raise ValueError(f"feature {name!r}: the default {value!r} is no {DTYPES[kind]}")
    return np.ascontiguousarray(array.ravel(), DTYPES[kind])
