"""Columns as functions of JAX, with the tables as their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import LibraryObject, TensorLike
from headrace.feature_column.dense import EmbeddingColumn
from headrace.feature_column.trainable import InputLayout

if TYPE_CHECKING:
    from headrace.feature_column.layer import DenseFeatures


class FeatureFunctions(NamedTuple):
    """`init()` makes the parameters, a dict of tables; `apply(parameters, inputs)` the matrix."""

    init: Callable[[], dict[str, Column]]
    apply: Callable[[Mapping[str, TensorLike], Mapping[str, TensorLike]], Any]
    layout: InputLayout


def feature_functions(layer: DenseFeatures, seed: int | None = None) -> FeatureFunctions:
    """Return the functions of these columns."""
    layout = InputLayout.of(layer)

    def init() -> dict[str, Column]:
        return {name: jnp.asarray(table) for name, table in layout.initial_tables(layer, seed).items()}

    def apply(parameters: Mapping[str, object], inputs: Mapping[str, TensorLike]) -> LibraryObject:
        parts = []
        for column, place in layout.parts:
            if isinstance(place, slice):
                parts.append(jnp.asarray(inputs["dense"])[:, place])
            else:
                table = parameters[column.table]
                table = table if layout.trainable[column.table] else jax.lax.stop_gradient(table)
                parts.append(_embed(column, table, inputs["ids"][place], inputs["ids"].get(f"{place}/weights")))
        return jnp.concatenate(parts, axis=1)

    return FeatureFunctions(init, apply, layout)


def _embed(column: EmbeddingColumn, table: LibraryObject, ids: object, weights: object) -> LibraryObject:
    """Return the rows of the table that the ids of each row name, put together."""
    if column.max_norm is not None:
        norms = jnp.sqrt(jnp.sum(table * table, axis=1, keepdims=True))
        table = table * (column.max_norm / jnp.maximum(norms, column.max_norm))
    flat, rows, count = _flat(ids)
    given = jnp.ones(flat.shape, jnp.float32) if weights is None else _flat(weights)[0]
    there = flat >= 0
    if column.combiner != "sum":
        there = there & (given > 0)
    given = jnp.where(there, given, 0.0)
    total = jax.ops.segment_sum(table[jnp.maximum(flat, 0)] * given[:, None], rows, count)
    if column.combiner == "sum":
        return total
    squared = given * given if column.combiner == "sqrtn" else given
    by = jax.ops.segment_sum(squared, rows, count)
    by = jnp.sqrt(jnp.where(by > 0, by, 1.0)) if column.combiner == "sqrtn" else jnp.where(by > 0, by, 1.0)
    return total / by[:, None]


def _flat(values: object) -> tuple[Any, Any, int]:
    """Return the values one after another, the row of each, and the number of rows."""
    if isinstance(values, Ragged):
        rows = np.repeat(np.arange(len(values)), values.row_lengths())
        return jnp.asarray(values.values), jnp.asarray(rows), len(values)
    array = jnp.asarray(values)
    count = array.shape[0]
    each = array.size // max(count, 1)
    return array.reshape(-1), jnp.repeat(jnp.arange(count), each, total_repeat_length=array.size), count
