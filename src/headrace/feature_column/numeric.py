"""Numbers as they are, and in buckets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native
from headrace.core.override import override
from headrace.core.types import Component, Nested
from headrace.feature_column.column import CategoricalColumn, DenseColumn, KeyedColumn, Matrix, incomplete, key_of
from headrace.feature_column.ids import RowIds
from headrace.feature_column.learnable import MeanAndVariance, QuantileBoundaries
from headrace.feature_column.learners import Moments, Quantiles
from headrace.feature_column.raw import Inputs
from headrace.io.feature import Feature, as_tuples, sizes_of
from headrace.io.features import FixedLenFeature


@dataclass(frozen=True)
class NumericColumn(KeyedColumn, DenseColumn):
    """Real values of one shape: see `numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: Component
    dtype: str
    normalizer_fn: Callable[[Any], Any] | None
    normalizer: MeanAndVariance | Literal["adapt"] | None = None

    @property
    def parse_example_spec(self) -> dict[str, Feature]:
        """Return the spec of a fixed number of values."""
        return {self.key: FixedLenFeature(self.shape, np.dtype(self.dtype), self.default_value)}

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """As given."""
        return self.shape

    def values(self, inputs: Inputs) -> Matrix:
        """Return one line of float32 a row."""
        made = inputs.made.get(id(self))
        if made is None:
            made = inputs.made[id(self)] = self._values(inputs)
        return made

    def _values(self, inputs: Inputs) -> Matrix:
        if self.normalizer == "adapt":
            raise incomplete(self.name, "its mean and variance are")
        values = self.plain_values(inputs)
        return values if self.normalizer is None else self.normalizer(values)

    def plain_values(self, inputs: Inputs) -> Matrix:
        """Return the values before they are normalised by what was learnt."""
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
        """Write the values."""
        out[:, first : first + self.width] = self.values(inputs)

    def learner(self) -> Moments | None:
        """Mean and variance, if they are requested."""
        return Moments() if self.normalizer == "adapt" else None

    def feed(self, learner: Moments, inputs: Inputs) -> None:
        """Pass all values to the learner."""
        learner.take(self.plain_values(inputs))

    def complete(self, learner: Moments) -> NumericColumn:
        """Add a mean and a variance for each number of a row."""
        found = learner.moments()
        if found is None:
            raise ValueError(f"column {self.name!r}: there is no number in the data to take a mean of")
        mean, variance = (np.asarray(each, np.float32).tolist() for each in found)
        return replace(self, normalizer=MeanAndVariance(tuple(mean), tuple(variance)))


def numeric_column(
    key: str,
    shape: Sequence[int] | int = (1,),
    default_value: object = None,
    dtype: DTypeLike = np.float32,
    normalizer_fn: Callable[[Any], object] | None = None,
    *,
    normalizer: Literal["adapt"] | None = None,
) -> NumericColumn:
    """Real values: the feature `key` as float32, `shape` of them a row.

    `normalizer_fn` maps the values of many rows at once to as many, row by row. With `normalizer="adapt"`
    numbers are moved and scaled to a mean of 0 and a variance of 1 over the data that `layer.adapt` is given.
    `default_value` replaces features that a tf.Example lacks.

    Args:
        key: Name of the feature or column.
        shape: Shape of the values.
        default_value: Value to use if one is missing.
        dtype: Data type of the values.
        normalizer_fn: Function that normalizes the values.
        normalizer: "adapt" to learn mean and variance by `layer.adapt`.

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
    if normalizer not in (None, "adapt"):
        raise ValueError(f"column {key!r}: normalizer must be 'adapt' or None, not {normalizer!r}: see normalizer_fn")
    if normalizer is not None and normalizer_fn is not None:
        raise ValueError(f"column {key!r}: say normalizer_fn or normalizer='adapt', not both")
    if default_value is not None:
        given = np.asarray(default_value)
        if given.dtype.kind not in "iufb" or given.shape not in ((), sizes):
            raise ValueError(
                f"column {key!r}: default_value must be a number or of shape {sizes}, not {default_value!r}"
            )
        default_value = as_tuples(np.broadcast_to(given.astype(kind), sizes))
    return NumericColumn(key, sizes, default_value, kind.name, normalizer_fn, normalizer)


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """Numbers by their bucket: see `bucketized_column`."""

    source_column: NumericColumn
    boundaries: tuple[float, ...] | QuantileBoundaries

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
        return (*self.source_column.shape, len(self.bounds) + 1)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The boundaries, if they are known."""
        if isinstance(self.boundaries, QuantileBoundaries):
            raise incomplete(self.name, "its boundaries are")
        return self.boundaries

    @property
    def num_buckets(self) -> int:
        """Return the number of buckets: each number of a row has its own."""
        return self.width

    def _ids(self, inputs: Inputs) -> RowIds:
        values = self.source_column.values(inputs)
        made = np.empty(values.size, np.int64)
        _native.bucketize(values.reshape(-1), np.array(self.bounds, np.float32), made)
        width = values.shape[1]
        if width == 1:
            return RowIds(made, inputs.rows)
        made += np.tile(np.arange(width) * (len(self.bounds) + 1), inputs.rows)
        return RowIds(made, inputs.rows, (width,))

    @override
    def ids_shape(self, shapes: dict[str, Nested]) -> tuple[int | None, ...]:
        """Return one id for each number."""
        width = self.source_column.width
        return () if width == 1 else (width,)

    def fill(self, inputs: Inputs, out: Matrix, first: int) -> None:
        """Write a one into the bucket of each number."""
        ids = self.ids(inputs)
        _native.add_counts(ids.values, ids.offsets, np.empty(0, np.float32), self.width, out, first)

    def learner(self) -> Quantiles | None:
        """Return quantiles, if they are requested."""
        return Quantiles() if isinstance(self.boundaries, QuantileBoundaries) else None

    def feed(self, learner: Quantiles, inputs: Inputs) -> None:
        """Pass all values to the learner, before their mean is known."""
        learner.take(self.source_column.plain_values(inputs).reshape(-1))

    def complete(self, learner: Quantiles) -> BucketizedColumn:
        """Add boundaries, once the source's numbers are known."""
        assert isinstance(self.boundaries, QuantileBoundaries)
        found = np.array(learner.quantiles(self.boundaries.buckets), np.float32)
        if not len(found):
            raise ValueError(f"column {self.name!r}: there is no number in the data to find boundaries among")
        scale = self.source_column.normalizer
        if isinstance(scale, MeanAndVariance):
            if len(scale.mean) > 1:
                raise ValueError(
                    f"column {self.name!r}: its numbers have {len(scale.mean)} means and share their boundaries: "
                    "bucketize a numeric_column without normalizer='adapt'"
                )
            found = scale(found)
        return replace(self, boundaries=tuple(np.unique(found).tolist()))


def bucketized_column(
    source_column: NumericColumn, boundaries: Sequence[float] | QuantileBoundaries
) -> BucketizedColumn:
    """Assign each number of a numeric column to a bucket between `boundaries`.

    A boundary belongs to the bucket above it; NaN belongs to the last one. With `hr.quantiles(n)` the boundaries are
    those of the data that `layer.adapt` is given.

    Args:
        source_column: A numeric column.
        boundaries: Boundaries between the buckets, or `hr.quantiles(n)`.

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
    if isinstance(boundaries, QuantileBoundaries):
        return BucketizedColumn(source_column, boundaries)
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
