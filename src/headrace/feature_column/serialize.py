"""Columns as JSON, and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from headrace.columns.kind import Column
from headrace.core.types import Component, JsonObject
from headrace.feature_column.categorical import (
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    WeightedCategoricalColumn,
)
from headrace.feature_column.column import FeatureColumn
from headrace.feature_column.crossed import CrossedColumn
from headrace.feature_column.dense import EmbeddingColumn, IndicatorColumn
from headrace.feature_column.learnable import MeanAndVariance
from headrace.feature_column.numeric import BucketizedColumn, NumericColumn
from headrace.feature_column.vocabulary import VocabularyCategoricalColumn, vocabulary_column
from headrace.io.feature import as_tuples

FORMAT = "headrace.feature_column"
VERSION = 1
TYPES: dict[str, type] = {
    "numeric": NumericColumn,
    "bucketized": BucketizedColumn,
    "identity": IdentityCategoricalColumn,
    "hashed": HashedCategoricalColumn,
    "vocabulary": VocabularyCategoricalColumn,
    "crossed": CrossedColumn,
    "weighted": WeightedCategoricalColumn,
    "indicator": IndicatorColumn,
    "embedding": EmbeddingColumn,
    "normalizer": MeanAndVariance,
}
FUNCTIONS = {"normalizer_fn": "normalise in a map before", "initializer": "load_tables takes a table"}


def columns_to_json(columns: Sequence[FeatureColumn]) -> str:
    """Return all that the columns say."""
    made = {"format": FORMAT, "version": VERSION, "columns": [_write(column) for column in columns]}
    return json.dumps(made, ensure_ascii=False)


def columns_from_json(text: str | bytes) -> list[Component]:
    """Return the columns again."""
    read = json.loads(text)
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        raise ValueError("this is no JSON of feature columns")
    if read.get("version") != VERSION:
        raise ValueError(f"these feature columns are of version {read.get('version')}, this is for {VERSION}")
    return [_read(column) for column in read["columns"]]


def _write(column: Column) -> JsonObject:
    if column.learner() is not None:
        raise ValueError(f"column {column.name!r} is to be completed from data: write what layer.adapt(dataset) gives")
    kind = next(name for name, known in TYPES.items() if type(column) is known)
    made: JsonObject = {"type": kind, "name": column.name}
    for name in column.__dataclass_fields__:
        value = getattr(column, name)
        if name in FUNCTIONS:
            if value is not None and not isinstance(value, FeatureColumn) and not hasattr(value, "to_dict"):
                raise ValueError(
                    f"column {column.name!r}: {name} is a function, which JSON cannot hold: {FUNCTIONS[name]}"
                )
            made[name] = None if value is None else value.to_dict()
        elif kind != "vocabulary" or name != "table":
            made[name] = _value(value)
    return made


def _value(value: object) -> Component:
    if isinstance(value, MeanAndVariance):
        return {"type": "normalizer", "mean": list(value.mean), "variance": list(value.variance)}
    if isinstance(value, FeatureColumn):
        return _write(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value


def _read(given: object) -> Any:
    if isinstance(given, dict) and "base64" in given:
        return base64.b64decode(given["base64"])
    if isinstance(given, list):
        return tuple(_read(item) for item in given)
    if not isinstance(given, dict):
        return given
    kind = TYPES.get(given.get("type", ""))
    if kind is None:
        raise ValueError(f"no feature column has the type {given.get('type')!r}")
    fields = {name: _read(given[name]) for name in given if name not in ("type", "name")}
    if kind is VocabularyCategoricalColumn:
        entries = fields.pop("vocabulary")
        return vocabulary_column(entries=entries, **fields)
    return kind(**{name: as_tuples(value) for name, value in fields.items()})
