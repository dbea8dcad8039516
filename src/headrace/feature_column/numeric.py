"""Numbers as they are, and in buckets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native
from headrace.feature_column.column import CategoricalColumn, DenseColumn, KeyedColumn, Matrix, key_of
from headrace.feature_column.ids import RowIds
from headrace.feature_column.raw import Inputs
from headrace.io.feature import Feature, as_tuples, sizes_of
from headrace.io.features import FixedLenFeature


@dataclass(frozen=True)
class NumericColumn(KeyedColumn, DenseColumn):
    """Real values of one shape: see `numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: str
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def parse_example_spec(self) -> dict[str, Feature]:
        """So many numbers."""
        return {self.key: FixedLenFeature(self.shape, np.dtype(self.dtype), self.default_value)}

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """As given."""
        return self.shape

    def values(self, inputs: Inputs) -> Matrix:
        """One line of float32 a row."""
        made = inputs.made.get(id(self))
        if made is None:
            made = inputs.made[id(self)] = self._values(inputs)
        return made

    def _values(self, inputs: Inputs) -> Matrix:
        raw = inputs.raw(self.key, self.name)
        if raw.numbers is None:
            raise TypeError(f"column {self.name!r} is of numbers, its feature {self.key!r} is text: convert it before")
        width = self.width
        if raw.size != raw.rows * width or (raw.splits is not None and (np.diff(raw.splits) != width).any()):
            got = raw.shape if raw.splits is None else "of any length"
            raise ValueError(
                f"column {self.name!r}: rows of shape {self.shape} are asked, those of {self.key!r} are {got}"
            )
        values = raw.numbers.reshape(raw.rows, *self.shape)
        if self.normalizer_fn is not None:
            values = np.asarray(self.normalizer_fn(values))
            if values.shape != (raw.rows, *self.shape):
                raise ValueError(f"column {self.name!r}: normalizer_fn made shape {values.shape[1:]} of {self.shape}")
        return np.ascontiguousarray(values.reshape(raw.rows, width), np.float32)

    def fill(self, inputs: Inputs, out: Matrix, first: int) -> None:
        """The values."""
        out[:, first : first + self.width] = self.values(inputs)


def numeric_column(
    key: str,
    shape: Sequence[int] | int = (1,),
    default_value: Any = None,
    dtype: DTypeLike = np.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Real values: the feature `key` as float32, `shape` of them a row.

    `normalizer_fn` gets the values of many rows at once and gives as many, row by row. `default_value` stands for what
    a tf.Example does not have.

    >>> age = hr.feature_column.numeric_column("age", normalizer_fn=lambda x: x / 10)
    >>> hr.feature_column.DenseFeatures([age])({"age": [20, 35]})
    array([[2. ],
           [3.5]], dtype=float32)
    """
    key = key_of(key)
    sizes = sizes_of(shape)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"column {key!r}: shape must have positive sizes, not {shape}")
    kind = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    if kind.kind not in "iuf":
        raise ValueError(f"column {key!r}: dtype must be of numbers, not {kind}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"column {key!r}: normalizer_fn must be a function, not {normalizer_fn!r}")
    if default_value is not None:
        given = np.asarray(default_value)
        if given.dtype.kind not in "iufb" or given.shape not in ((), sizes):
            raise ValueError(
                f"column {key!r}: default_value must be a number or of shape {sizes}, not {default_value!r}"
            )
        default_value = as_tuples(np.broadcast_to(given.astype(kind), sizes))
    return NumericColumn(key, sizes, default_value, kind.name, normalizer_fn)


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """Numbers by the bucket that they lie in: see `bucketized_column`."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        """The source's name, and what became of it."""
        return f"{self.source_column.name}_bucketized"

    @property
    def keys(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source_column.keys

    @property
    def parse_example_spec(self) -> dict[str, Feature]:
        """That of the source."""
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """One line of buckets for each number."""
        return (*self.source_column.shape, len(self.boundaries) + 1)

    @property
    def num_buckets(self) -> int:
        """Each number of a row has buckets of its own."""
        return self.width

    def _ids(self, inputs: Inputs) -> RowIds:
        values = self.source_column.values(inputs)
        made = np.empty(values.size, np.int64)
        _native.bucketize(values.reshape(-1), np.array(self.boundaries, np.float32), made)
        width = values.shape[1]
        if width == 1:
            return RowIds(made, inputs.rows)
        made += np.tile(np.arange(width) * (len(self.boundaries) + 1), inputs.rows)
        return RowIds(made, inputs.rows, (width,))

    def ids_shape(self, shapes: dict[str, Any]) -> tuple[int | None, ...]:  # noqa: ARG002
        """One id for each number."""
        width = self.source_column.width
        return () if width == 1 else (width,)

    def fill(self, inputs: Inputs, out: Matrix, first: int) -> None:
        """A one in the bucket of each number."""
        ids = self.ids(inputs)
        _native.add_counts(ids.values, ids.offsets, np.empty(0, np.float32), self.width, out, first)


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> BucketizedColumn:
    """The bucket between `boundaries` that each number of a numeric column lies in.

    A boundary belongs to the bucket above it; NaN lies in the last one.

    >>> age = hr.feature_column.bucketized_column(hr.feature_column.numeric_column("age"), [18, 65])
    >>> hr.feature_column.DenseFeatures([age])({"age": [17, 18, 80]})
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a numeric_column, not {source_column!r}")
    name = f"{source_column.name}_bucketized"
    if len(source_column.shape) > 1:
        raise ValueError(f"column {name!r}: its numeric_column must have one axis, not the shape {source_column.shape}")
    bounds = tuple(float(b) for b in np.asarray(boundaries, np.float64).ravel())
    if not bounds:
        raise ValueError(f"column {name!r}: boundaries must hold at least one number")
    for lower, upper in pairwise(bounds):
        if not lower < upper:
            raise ValueError(
                f"column {name!r}: boundaries must rise, and {upper} follows {lower}: sort them, each once"
            )
    if any(math.isnan(b) for b in bounds):
        raise ValueError(f"column {name!r}: NaN is no boundary")
    return BucketizedColumn(source_column, bounds)
