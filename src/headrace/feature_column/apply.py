"""Apply a layer to rows, to batches, and to columns in a traced function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.columns import Stacked, column_of, values
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import AnyFunction, Component, Nested, TensorLike
from headrace.errors import what_there_is
from headrace.feature_column.numeric import BucketizedColumn, NumericColumn
from headrace.feature_column.raw import Inputs, is_single, plain_column
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import flatten
from headrace.trace.operation import traced_operation


class Computation(ABC):
    """A function from raw features to columns; `spec` gives the spec of one row, from the shapes of a row."""

    layer: Any
    name: str

    @abstractmethod
    def spec(self, shapes: Mapping[str, object]) -> Nested:
        """TensorSpecs in the structure of the result."""

    @abstractmethod
    def run(self, inputs: Inputs) -> Nested:
        """Return columns in that structure."""


@dataclass(frozen=True, eq=False)
class Apply:
    """A computation as users call it, and give it to `map`."""

    computation: Computation
    _headrace_constant = True  # a traced function may hold on to it

    @property
    def __name__(self) -> str:
        return self.computation.name

    def __call__(self, features: object) -> Nested:
        """Compute the result for one row, or for many."""
        layer = self.computation.layer
        return compute(chosen(features, layer.keys, layer.columns), self.computation)


def chosen(features: TensorLike, keys: Sequence[str], columns: Sequence[Any]) -> dict[str, Column]:
    """Return the features that columns need, out of a dict or a data frame."""
    if not isinstance(features, Mapping) and not hasattr(features, "columns"):
        raise TypeError(f"features must be a dict or a data frame, not {type(features).__name__}")
    names = features.columns if hasattr(features, "columns") else features.keys()
    there = set(names)
    for key in keys:
        if key not in there:
            owner = next(c.name for c in columns if key in c.keys)
            raise KeyError(f"column {owner!r} needs the feature {key!r}: {what_there_is(key, names)}")
    return {key: features[key] for key in keys}


def _spec(features: dict[str, TensorSpec], computation: Computation) -> Nested:
    shapes = {key: _known_shape(key, spec.shape) for key, spec in features.items()}
    if not is_batch(computation.layer, shapes):
        return computation.spec(shapes)
    sizes = {shape[0] for shape in shapes.values()}
    rows = sizes.pop() if len(sizes) == 1 else None
    structure, specs = flatten(computation.spec({key: _row_shape(shape) for key, shape in shapes.items()}))
    return structure.pack([TensorSpec((rows, *(spec.shape or ())), spec.dtype) for spec in specs])


def _row_shape(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return () if shape[1:] == (1,) else shape[1:]


def _known_shape(key: str, shape: tuple[int | None, ...] | None) -> tuple[int | None, ...]:
    if shape is None:
        raise ValueError(f"the axes of feature {key!r} are not known in advance")
    return tuple(shape)


def _block(features: dict[str, TensorSpec], computation: Computation) -> AnyFunction:
    shapes = {key: _known_shape(key, spec.shape) for key, spec in features.items()}
    if is_batch(computation.layer, shapes):
        return lambda *columns: _batches(list(features), columns, computation)
    return lambda *columns: computation.run(
        Inputs(dict(zip(features, columns, strict=True)), len(columns[0]), rows_have_axes=True)
    )


def _batches(keys: list[str], columns: tuple[object, ...], computation: Computation) -> Column:
    """Compute for elements that are batches of many rows."""
    made = []
    for batch in zip(*map(values, columns), strict=True):
        structure, leaves = flatten(_run(dict(zip(keys, batch, strict=True)), computation))
        made.append(leaves)
    return structure.pack([column_of(list(rows)) for rows in zip(*made, strict=True)])


@traced_operation(spec=_spec, block=_block)
def compute(features: dict[str, Column], computation: Computation) -> Nested:
    """Return the computation's result for one row, or for many."""
    return _run(features, computation)


def _run(features: dict[str, Column], computation: Computation) -> Nested:
    inputs, single = inputs_of(features, computation.layer)
    made = computation.run(inputs)
    if not single:
        return made
    structure, leaves = flatten(made)
    return structure.pack([leaf[0] for leaf in leaves])


def inputs_of(features: dict[str, Column], layer: object) -> tuple[Inputs, bool]:
    """Return the features of one row, or of many, and whether it is one."""
    shapes: dict[str, tuple[Any, ...]] = {}
    for key, value in features.items():
        if is_single(value):
            shapes[key] = ()
        else:
            features[key] = column = plain_column(value)
            shapes[key] = column.shape if isinstance(column, np.ndarray | Ragged) else (len(column),)
    if is_batch(layer, shapes):
        first = next(iter(shapes.values()))
        return Inputs(features, first[0], rows_have_axes=False), False
    one = {key: _one_row(value, shapes[key]) for key, value in features.items()}
    return Inputs(one, 1, rows_have_axes=True), True


def block_inputs(columns: dict[str, Column], rows: int, layer: object) -> Iterator[Inputs]:
    """Yield the features of a block: all of its rows, or its batches one after another."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    for key, column in columns.items():
        if isinstance(column, np.ndarray | Ragged):
            shapes[key] = tuple(column.shape[1:])
        elif isinstance(column, Stacked):
            shapes[key] = column.shape
        elif not isinstance(column, list):
            shapes[key] = ()
    if len(shapes) == len(columns) and not is_batch(layer, shapes):
        yield Inputs(columns, rows, rows_have_axes=True)
        return
    for row in zip(*map(values, columns.values()), strict=True):
        yield inputs_of(dict(zip(columns, row, strict=True)), layer)[0]


def _one_row(value: Component, shape: tuple[object, ...]) -> Component:
    """Return a column of one row."""
    if shape == ():
        return [value.item() if isinstance(value, np.ndarray) else value]
    if isinstance(value, Ragged):
        raise ValueError("one row has a feature with rows of its own: give lists of lists as an array")
    array = value if isinstance(value, np.ndarray) else value.to_numpy(zero_copy_only=False)
    return array[None]


def is_batch(layer: Any, shapes: Mapping[str, tuple[object, ...]]) -> bool:
    """Return whether features of these shapes are of many rows."""
    if layer.batched is not None:
        return bool(layer.batched)
    numbers = layer.number_shapes
    for key, shape in shapes.items():
        axes = len(numbers.get(key, ()))
        if shape == () or (axes and numbers[key] != (1,) and len(shape) == axes):
            return False
    return True


def number_shapes(columns: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes that numeric columns ask, by their features."""
    found: dict[str, tuple[int, ...]] = {}
    for column in columns:
        inner = getattr(column, "categorical_column", column)
        for part in getattr(inner, "crossed", (inner,)):
            source = part.source_column if isinstance(part, BucketizedColumn) else part
            if isinstance(source, NumericColumn):
                found[source.key] = source.shape
    return found
