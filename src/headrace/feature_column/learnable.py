"""Parameters that `layer.adapt` computes: quantiles, vocabularies, means; and the normalization of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Array, Component


@dataclass(frozen=True)
class QuantileBoundaries:
    """Boundaries that are found in data: see `quantiles`."""

    buckets: int


def quantiles(buckets: int) -> QuantileBoundaries:
    """Request boundaries between `buckets` buckets of equal size, for `bucketized_column`; `layer.adapt` computes them.

    They are exact up to a million distinct numbers per column. There are fewer buckets if many numbers are equal.

    Args:
        buckets: Number of buckets.

    >>> fc = hr.feature_column
    >>> layer = fc.DenseFeatures(fc.bucketized_column(fc.numeric_column("age"), hr.quantiles(2)))
    >>> layer.adapt({"age": [20, 30, 70]}).columns[0].boundaries
    (30.0,)
    """
    return QuantileBoundaries(_whole("buckets", buckets, 2))


@dataclass(frozen=True)
class FrequentValues:
    """A vocabulary that is found in data: see `most_frequent`."""

    limit: int | None
    min_count: int


def most_frequent(limit: int | None = None, *, min_count: int = 1) -> FrequentValues:
    """Request the most frequent values, for `categorical_column_with_vocabulary_list`; `layer.adapt` finds them.

    All of them, or `limit`; those that occur `min_count` times or more. The most frequent has the first id; of those
    that are equally frequent the greater, as in Keras.

    Args:
        limit: Largest number; None for no limit.
        min_count: Smallest number of occurrences.

    >>> fc = hr.feature_column
    >>> city = fc.categorical_column_with_vocabulary_list("city", hr.most_frequent(2), num_oov_buckets=1)
    >>> layer = fc.DenseFeatures(fc.indicator_column(city)).adapt({"city": ["Bern", "Lima", "Lima", "Oslo", "Oslo"]})
    >>> layer.columns[0].categorical_column.vocabulary
    (b'Oslo', b'Lima')
    """
    most = None if limit is None else _whole("limit", limit, 1)
    return FrequentValues(most, _whole("min_count", min_count, 1))


@dataclass(frozen=True)
class MeanAndVariance:
    """Numbers less their mean, by their deviation; one of each for every number of a row."""

    mean: tuple[float, ...]
    variance: tuple[float, ...]

    def __call__(self, values: Array) -> NDArray[np.float32]:
        """Return one line a row."""
        mean, variance = np.array(self.mean, np.float32), np.array(self.variance, np.float32)
        made: NDArray[np.float32] = normalized(np.asarray(values, np.float32), mean, variance)
        return made


def normalized(values: Array, mean: Array, variance: Array) -> Array:
    """Normalize like Keras, whose deviation is never quite 0."""
    return (values - mean) / deviation(variance)


def deviation(variance: Array) -> Array:
    """Return what numbers are divided by."""
    return np.maximum(np.sqrt(variance), np.float32(1e-7))


def _whole(parameter: str, value: Component, least: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{parameter} must be an integer, not {value!r}")
    if value < least:
        raise ValueError(f"{parameter} must be at least {least}, not {value}")
    return int(value.__index__())
