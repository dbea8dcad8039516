"""Ids by identity and by hash, and ids with weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native
from headrace.columns.kind import Column
from headrace.core.types import Nested
from headrace.feature_column.column import (
    CategoricalColumn,
    KeyedColumn,
    categorical,
    categorical_raw,
    check_integer,
    key_of,
    text_or_integers,
)
from headrace.feature_column.ids import RowIds
from headrace.feature_column.raw import Hashes, Inputs, Ints
from headrace.io.feature import Feature
from headrace.io.features import VarLenFeature

DTYPES: dict[str, Column] = {"string": bytes, "int64": np.int64}


class KeyedIds(KeyedColumn, CategoricalColumn):
    """A column that makes ids of one raw feature."""

    dtype: str

    @property
    def parse_example_spec(self) -> dict[str, Feature]:
        """Any number of values."""
        return {self.key: VarLenFeature(DTYPES[self.dtype])}


@dataclass(frozen=True)
class IdentityCategoricalColumn(KeyedIds):
    """Integers that are ids: see `categorical_column_with_identity`."""

    key: str
    number_buckets: int
    default_value: int | None
    dtype = "int64"

    @property
    def num_buckets(self) -> int:
        """As given."""
        return self.number_buckets

    def _ids(self, inputs: Inputs) -> RowIds:
        raw = categorical_raw(inputs, self.key, self.dtype, self.name)
        values, missing = raw.integers, raw.missing()
        outside = (values < 0) | (values >= self.number_buckets)
        if missing is not None:
            outside &= ~missing
        if outside.any():
            if self.default_value is None:
                raise ValueError(
                    f"column {self.name!r} has {self.number_buckets} buckets, and its feature holds "
                    f"{int(values[outside.argmax()])}: default_value= gives such values an id"
                )
            values = np.where(outside, self.default_value, values)
        return RowIds.like(raw, np.array(values), missing)


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Return integers from 0 to `num_buckets` - 1 as ids; others are an error, or `default_value`.

    Args:
        key: Name of the feature or column.
        num_buckets: Number of ids.
        default_value: Value to use if one is missing.

    >>> column = hr.feature_column.categorical_column_with_identity("day", 7)
    >>> hr.feature_column.DenseFeatures([hr.feature_column.indicator_column(column)])({"day": [2]})
    array([[0., 0., 1., 0., 0., 0., 0.]], dtype=float32)
    """
    key, buckets = key_of(key), check_integer(key, "num_buckets", num_buckets, 1)
    if default_value is not None and check_integer(key, "default_value", default_value, 0) >= buckets:
        raise ValueError(f"column {key!r}: default_value must be less than num_buckets, {buckets}, not {default_value}")
    return IdentityCategoricalColumn(key, buckets, default_value)


@dataclass(frozen=True)
class HashedCategoricalColumn(KeyedIds):
    """Ids by hash: see `categorical_column_with_hash_bucket`."""

    key: str
    hash_bucket_size: int
    dtype: str = "string"

    @property
    def num_buckets(self) -> int:
        """As given."""
        return self.hash_bucket_size

    def _ids(self, inputs: Inputs) -> RowIds:
        raw = categorical_raw(inputs, self.key, self.dtype, self.name)
        return RowIds.like(raw, bucket_numbers(raw.hashes(), self.hash_bucket_size), raw.missing())


def bucket_numbers(hashes: Hashes, buckets: int, first: int = 0) -> Ints:
    """Return the bucket of each hash."""
    made = np.empty(len(hashes), np.int64)
    _native.hash_buckets(hashes, buckets, first, made)
    return made


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: DTypeLike = bytes
) -> HashedCategoricalColumn:
    """Text, or integers as their decimal text, by Fingerprint64 modulo `hash_bucket_size`; "" and -1 are missing.

    Args:
        key: Name of the feature or column.
        hash_bucket_size: Number of hash buckets.
        dtype: Data type.

    >>> city = hr.feature_column.categorical_column_with_hash_bucket("city", 1000)
    >>> layer = hr.feature_column.DenseFeatures([hr.feature_column.embedding_column(city, 4)])
    >>> layer.ids({"city": ["Bern", "", "Lima"]})
    {'city': array([591,  -1, 182])}
    """
    key = key_of(key)
    return HashedCategoricalColumn(
        key, check_integer(key, "hash_bucket_size", hash_bucket_size, 1), text_or_integers(key, dtype)
    )


@dataclass(frozen=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """Ids with weights: see `weighted_categorical_column`."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: str

    @property
    def name(self) -> str:
        """That of the ids, and the key of the weights."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The features of the ids, and that of the weights."""
        return (*self.categorical_column.keys, self.weight_feature_key)

    @property
    def parse_example_spec(self) -> dict[str, Feature]:
        """Return the spec of the ids, and as many weights."""
        spec = self.categorical_column.parse_example_spec
        return {**spec, self.weight_feature_key: VarLenFeature(np.dtype(self.dtype))}

    @property
    def num_buckets(self) -> int:
        """Return the shape of the ids."""
        return self.categorical_column.num_buckets

    def ids_shape(self, shapes: dict[str, Nested]) -> tuple[int | None, ...]:
        """Return the shape of the ids."""
        return self.categorical_column.ids_shape(shapes)

    def _ids(self, inputs: Inputs) -> RowIds:
        ids, raw = self.categorical_column.ids(inputs), inputs.raw(self.weight_feature_key, self.name)
        if raw.numbers is None and raw.size:
            raise TypeError(f"column {self.name!r}: its weights, {self.weight_feature_key!r}, are text")
        weights = np.zeros(0, np.float32) if raw.numbers is None else np.array(raw.numbers, np.float32)
        if not np.array_equal(raw.offsets(), ids.offsets):
            row = int((np.diff(raw.offsets()) != np.diff(ids.offsets)).argmax())
            counts = [int(np.diff(each)[row]) for each in (ids.offsets, raw.offsets())]
            raise ValueError(f"column {self.name!r}: row {row} has {counts[0]} ids and {counts[1]} weights")
        return replace(ids, weights=weights)


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: DTypeLike = np.float32
) -> WeightedCategoricalColumn:
    """Return the ids of another column, each with a weight out of the feature `weight_feature_key`.

    Args:
        categorical_column: A categorical column.
        weight_feature_key: Name of the feature that contains the weights.
        dtype: Data type.

    >>> word = hr.feature_column.categorical_column_with_identity("word", 3)
    >>> column = hr.feature_column.weighted_categorical_column(word, "share")
    >>> layer = hr.feature_column.DenseFeatures([hr.feature_column.indicator_column(column)])
    >>> layer({"word": [[0, 2], [1]], "share": [[0.5, 0.25], [4.0]]})
    array([[0.5 , 0.  , 0.25],
           [0.  , 4.  , 0.  ]], dtype=float32)
    """
    column = categorical("weighted_categorical_column", categorical_column)
    kind = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    if kind.kind not in "iuf":
        raise ValueError(f"column {column.name!r}: the weights' dtype must be of numbers, not {kind}")
    return WeightedCategoricalColumn(column, key_of(weight_feature_key), kind.name)
