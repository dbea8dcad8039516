"""Columns completed from data: all that they leave open, in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.columns.block import Block
from headrace.columns.kind import Column
from headrace.core.types import Argument, Component, TensorLike
from headrace.feature_column.apply import block_inputs, chosen, inputs_of
from headrace.feature_column.column import FeatureColumn, incomplete_columns, inner_columns
from headrace.feature_column.gather import gather
from headrace.feature_column.learners import Learner
from headrace.feature_column.raw import Inputs
from headrace.plan.datasets import is_dataset
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.feature_column.layer import DenseFeatures


def adapted_columns(layer: DenseFeatures, data: TensorLike, **how: Argument) -> list[Component]:
    """Return the layer's columns, complete."""
    learners: dict[FeatureColumn, Learner] = {}
    for column in layer.columns:
        for part in incomplete_columns(column):
            learner = part.learner()
            assert learner is not None
            learners.setdefault(part, learner)
    if not learners:
        return list(layer.columns)
    keys = tuple(dict.fromkeys(key for column in learners for key in column.keys))

    def feed(inputs: Inputs) -> None:
        for column, learner in learners.items():
            column.feed(learner, inputs)

    def take(block: Block) -> None:
        columns = chosen(_features(block.structure, block.columns), keys, list(learners))
        for inputs in block_inputs(columns, block.rows, layer):
            feed(inputs)

    if is_dataset(data):
        purpose = ", ".join(f"{type(column).__name__}({column.name!r})" for column in learners)
        gather(data, list(learners.values()), take, purpose=purpose, **how)
    else:
        feed(inputs_of(chosen(data, keys, list(learners)), layer)[0])
    return [_completed(column, learners) for column in layer.columns]


def _features(structure: Structure, columns: list[Component]) -> dict[str, Column]:
    kind = structure.kind
    if kind is None or not issubclass(kind, Mapping):
        remedy = "" if kind is None else ": leave the rest away, as with ds.map(lambda features, label: features)"
        raise TypeError(f"adapt takes a dataset of dicts of features, not of {structure}{remedy}")
    found = structure.pack(columns)
    assert isinstance(found, dict)
    return found


def _completed(column: Column, learners: Mapping[FeatureColumn, Learner]) -> Column:
    changes: dict[str, Column] = {}
    for name, value in inner_columns(column):
        parts = [_completed(p, learners) if isinstance(p, FeatureColumn) else p for p in _parts(value)]
        changes[name] = tuple(parts) if isinstance(value, tuple) else parts[0]
    made = replace(column, **changes) if changes else column
    learner = learners.get(column) if column.learner() is not None else None
    return made if learner is None else made.complete(learner)


def _parts(value: object) -> tuple[int | None, ...]:
    return value if isinstance(value, tuple) else (value,)
