"""The base of all feature columns, and the checks of their arguments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns.kind import Column
from headrace.core.types import Component, Nested
from headrace.feature_column.ids import RowIds
from headrace.feature_column.learners import Learner
from headrace.feature_column.raw import Inputs, Raw
from headrace.io.feature import Feature

Matrix = NDArray[np.float32]


class FeatureColumn(ABC):
    """Base of all columns: frozen descriptions of how raw features become numbers."""

    _headrace_constant = True  # a traced function may hold on to it

    @property
    @abstractmethod
    def name(self) -> str:
        """TensorFlow's name of it, by which outputs are sorted."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The raw features that it needs."""

    @property
    @abstractmethod
    def parse_example_spec(self) -> dict[str, Feature]:
        """How to parse these out of tf.Examples."""

    def learner(self) -> Learner | None:
        """Return what gathers the values that this column is to be completed from; None if it is complete."""
        return None

    def feed(self, learner: Any, inputs: Inputs) -> None:
        """Pass these rows to the learner."""
        raise NotImplementedError

    def complete(self, learner: Any) -> FeatureColumn:
        """Return the column with what was learnt, its own columns being complete."""
        raise NotImplementedError


class KeyedColumn(FeatureColumn):
    """A column of one raw feature, named after its key."""

    key: str

    @property
    def name(self) -> str:
        """The key."""
        return self.key

    @property
    def keys(self) -> tuple[str, ...]:
        """The one feature."""
        return (self.key,)


class CategoricalColumn(FeatureColumn):
    """A column that makes ids."""

    @property
    @abstractmethod
    def num_buckets(self) -> int:
        """RowIds are less than this."""

    def ids(self, inputs: Inputs) -> RowIds:
        """Return the ids of these rows."""
        made = inputs.made.get(id(self))
        if made is None:
            made = inputs.made[id(self)] = self._ids(inputs)
        return made

    @abstractmethod
    def _ids(self, inputs: Inputs) -> RowIds: ...

    def ids_shape(self, shapes: dict[str, Nested]) -> tuple[int | None, ...]:
        """Return the shape of the ids of one row, None for any number, by the shapes of the raw features of a row."""
        shape: tuple[int | None, ...] = shapes[self.keys[0]]
        return shape


class DenseColumn(FeatureColumn):
    """A column that makes floats."""

    @property
    @abstractmethod
    def variable_shape(self) -> tuple[int, ...]:
        """The shape of its output for one row."""

    @property
    def width(self) -> int:
        """Return how many columns of the matrix it has."""
        return math.prod(self.variable_shape)

    @abstractmethod
    def fill(self, inputs: Inputs, out: Matrix, first: int) -> None:
        """Write its output to the matrix, which is zero there, from this column on."""


def key_of(key: object) -> str:
    """Return the name of a raw feature."""
    if not isinstance(key, str) or not key:
        raise ValueError(f"key must be the name of a feature, not {key!r}")
    return key


def check_integer(column: str, parameter: str, value: Component, least: int) -> int:
    """Return an integer parameter of a column."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"column {column!r}: {parameter} must be an integer, not {value!r}")
    if value < least:
        raise ValueError(f"column {column!r}: {parameter} must be at least {least}, not {value}")
    return int(value.__index__())


def text_or_integers(column: str, dtype: DTypeLike) -> str:
    """Return the dtype of a categorical feature: "string" or "int64"."""
    dtype = getattr(dtype, "as_numpy_dtype", dtype)  # TensorFlow's own dtypes do as well
    kind = "S" if isinstance(dtype, str) and dtype == "string" else np.dtype(dtype).kind
    if kind in "SUO":
        return "string"
    if kind in "iu":
        return "int64"
    raise ValueError(f"column {column!r}: dtype must be of text or of integers, not {dtype}")


def categorical_raw(inputs: Inputs, key: str, dtype: str, column: str) -> Raw:
    """Return a raw feature that must be of this dtype."""
    raw = values_of(inputs, key, column)
    if raw.size and raw.kind != ("text" if dtype == "string" else "integers"):
        remedy = "dtype=np.int64 says that they are integers" if raw.kind == "integers" else _convert(raw)
        raise TypeError(f"column {column!r} has dtype {dtype}, its feature {key!r} is of {raw.kind}: {remedy}")
    return raw if raw.size else empty(raw, dtype)


def values_of(inputs: Inputs, key: str, column: str) -> Raw:
    """Return a raw feature of one value a row, or a list of them."""
    raw = inputs.raw(key, column)
    if len(raw.shape) > 1:
        raise ValueError(f"column {column!r}: rows of {key!r} have the shape {raw.shape} but one list is needed")
    return raw


def _convert(raw: Raw) -> str:
    return "say dtype=str" if raw.kind == "text" else "convert it in a map before, or use a numeric_column"


def empty(raw: Raw, dtype: str) -> Raw:
    """No values at all have no dtype of their own."""
    layout: dict[str, Column] = {"shape": raw.shape, "splits": raw.splits, "dense": raw.dense}
    if dtype == "string":
        return Raw(raw.rows, text=(np.empty(0, np.uint8), np.zeros(1, np.int64)), **layout)
    return Raw(raw.rows, numbers=np.empty(0, np.int64), **layout)


def inner_columns(column: FeatureColumn) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a column that hold columns, or tuples with columns among them."""
    for name in column.__dataclass_fields__:  # type: ignore[attr-defined]
        value = getattr(column, name)
        if any(isinstance(item, FeatureColumn) for item in (value if isinstance(value, tuple) else (value,))):
            yield name, value


def incomplete_columns(column: FeatureColumn) -> Iterator[FeatureColumn]:
    """Yield the columns that leave something to data, of this one and those that it is made of."""
    for _, value in inner_columns(column):
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, FeatureColumn):
                yield from incomplete_columns(inner)
    if column.learner() is not None:
        yield column


def incomplete(column: str, what: str) -> ValueError:
    """Return the error of a column that has to be completed from data first."""
    return ValueError(f"column {column!r}: {what} to be found in data: use what layer.adapt(dataset) returns")


def categorical(parent: str, column: object) -> CategoricalColumn:
    """Return a column that makes ids, as the input of another."""
    if not isinstance(column, CategoricalColumn):
        raise ValueError(f"{parent} takes a categorical column, not {column!r}")
    return column
