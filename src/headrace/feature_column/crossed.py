"""Ids of combinations of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace import _native
from headrace.core.types import Component, Nested
from headrace.feature_column.categorical import HashedCategoricalColumn, WeightedCategoricalColumn, bucket_numbers
from headrace.feature_column.column import CategoricalColumn, check_integer, key_of, values_of
from headrace.feature_column.ids import RowIds
from headrace.feature_column.raw import Hashes, Inputs
from headrace.io.feature import Feature
from headrace.io.features import VarLenFeature

FIRST_HASH = 0xDECAFCAFFE
"""The initial hash of a combination in TensorFlow."""


@dataclass(frozen=True)
class CrossedPart:
    """One of the things that are crossed: a hash for each value, laid out as these ids are."""

    hashes: Hashes
    ids: RowIds
    dense: bool


@dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """Ids of combinations: see `crossed_column`."""

    crossed: tuple[str | CategoricalColumn, ...]
    """Raw features by their keys, and columns; crosses within are taken apart."""
    hash_bucket_size: int
    hash_key: int

    @property
    def name(self) -> str:
        """The names of all parts, sorted."""
        return "_X_".join(sorted(part if isinstance(part, str) else part.name for part in self.crossed))

    @property
    def keys(self) -> tuple[str, ...]:
        """The features of all parts."""
        found = [key for part in self.crossed for key in ((part,) if isinstance(part, str) else part.keys)]
        return tuple(dict.fromkeys(found))

    @property
    def parse_example_spec(self) -> dict[str, Feature]:
        """Text for raw features."""
        spec: dict[str, Feature] = {}
        for part in self.crossed:
            spec |= {part: VarLenFeature(bytes)} if isinstance(part, str) else part.parse_example_spec
        return spec

    @property
    def num_buckets(self) -> int:
        """As given."""
        return self.hash_bucket_size

    def ids_shape(self, shapes: dict[str, Nested]) -> tuple[int | None, ...]:
        """Return the shape of ids: one id if each part has one, else any number."""
        each = [shapes[part] if isinstance(part, str) else part.ids_shape(shapes) for part in self.crossed]
        return () if all(shape == () for shape in each) else (None,)

    def _part(self, part: str | CategoricalColumn, inputs: Inputs) -> CrossedPart:
        if isinstance(part, CategoricalColumn):
            ids = part.ids(inputs)
            return CrossedPart(ids.values.view(np.uint64), ids, dense=False)
        raw = values_of(inputs, part, self.name)
        if raw.kind not in ("text", "integers"):
            raise TypeError(
                f"column {self.name!r} crosses text and integers, its feature {part!r} is of {raw.kind}: "
                "cross a bucketized_column of it"
            )
        values = raw.hashes() if raw.text is not None else raw.integers.view(np.uint64)
        return CrossedPart(values, RowIds(values.view(np.int64), raw.rows, raw.shape, raw.splits), raw.dense)

    def _ids(self, inputs: Inputs) -> RowIds:
        found = [self._part(part, inputs) for part in self.crossed]
        parts = [*(p for p in found if not p.dense), *(p for p in found if p.dense)]  # the order is TensorFlow's
        if all(p.ids.splits is None and p.ids.shape == () for p in parts):
            return self._single(parts, inputs.rows)
        pieces = []
        for part in parts:
            values, offsets = part.ids.present()
            pieces.append((np.ascontiguousarray(values).view(np.uint64), np.ascontiguousarray(offsets, np.int64)))
        values, offsets = _native.cross_product(pieces, self.hash_key, self.hash_bucket_size)
        return RowIds(values, inputs.rows, splits=offsets)

    def _single(self, parts: list[CrossedPart], rows: int) -> RowIds:
        """Return one value of each part in each row."""
        made = np.full(rows, self.hash_key, np.uint64)
        missing: Component = None
        for part in parts:
            _native.cross_rows(made, part.hashes)
            if part.ids.missing is not None:
                missing = part.ids.missing if missing is None else missing | part.ids.missing
        return RowIds(bucket_numbers(made, self.hash_bucket_size), rows, missing=missing)


def crossed_column(
    keys: Sequence[str | CategoricalColumn], hash_bucket_size: int, hash_key: int | None = None
) -> CrossedColumn:
    """Return each combination of one value of every part, by hash: raw features by key, or categorical columns.

    Args:
        keys: Names of features, or categorical columns.
        hash_bucket_size: Number of hash buckets.
        hash_key: Key of the hash. Default: TensorFlow's.

    >>> fc = hr.feature_column
    >>> column = fc.crossed_column(["size", fc.bucketized_column(fc.numeric_column("age"), [18, 65])], 1000)
    >>> fc.DenseFeatures([fc.embedding_column(column, 4)]).ids({"size": ["S", "M"], "age": [17, 30]})
    {'age_bucketized_X_size': array([226, 197])}
    """
    if isinstance(keys, str) or not hasattr(keys, "__iter__") or len(list(keys)) < 2:
        raise ValueError(f"a cross needs at least two keys or columns, not {keys!r}")
    parts: list[str | CategoricalColumn] = []
    for key in keys:
        if isinstance(key, CrossedColumn):
            parts += key.crossed
        elif isinstance(key, HashedCategoricalColumn):
            raise ValueError(f"a cross hashes by itself: say {key.key!r} instead of the hashed column")
        elif isinstance(key, WeightedCategoricalColumn):
            raise ValueError(f"a cross has no weights: cross {key.categorical_column.name!r} instead of {key.name!r}")
        elif isinstance(key, CategoricalColumn):
            parts.append(key)
        else:
            parts.append(key_of(key))
    name = "_X_".join(sorted(part if isinstance(part, str) else part.name for part in parts))
    first = FIRST_HASH if not hash_key else check_integer(name, "hash_key", hash_key, 0) & (2**64 - 1)
    return CrossedColumn(tuple(parts), check_integer(name, "hash_bucket_size", hash_bucket_size, 1), first)
