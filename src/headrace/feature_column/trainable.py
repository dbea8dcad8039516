"""Shared by the modules of all libraries: the position of each column's output, and tables by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import what_there_is
from headrace.feature_column.column import Matrix

if TYPE_CHECKING:
    from headrace.feature_column.layer import DenseFeatures


@dataclass(frozen=True)
class InputLayout:
    """The columns in their order, each with its slice of "dense" or the name of its ids."""

    parts: tuple[tuple[Any, slice | str], ...]
    shapes: dict[str, tuple[int, int]]
    """The shapes of the tables, by name."""
    trainable: dict[str, bool]
    width: int

    @classmethod
    def of(cls, layer: DenseFeatures) -> InputLayout:
        """Return that of a layer."""
        from headrace.feature_column.layer import categoricals, ids_name

        found = categoricals(layer.embeddings)
        parts: list[tuple[Any, slice | str]] = []
        first = 0
        for column in layer.columns:
            if column in layer.embeddings:
                parts.append((column, ids_name(column, found)))
            else:
                parts.append((column, slice(first, first + column.width)))
                first += column.width
        shapes = {column.table: column.table_shape for column in layer.embeddings}
        trainable = {column.table: column.trainable for column in layer.embeddings}
        return cls(tuple(parts), shapes, trainable, layer.width)

    def initial_tables(self, layer: DenseFeatures, seed: int | None) -> dict[str, Matrix]:
        """Return those that were loaded, and new ones."""
        made: dict[str, Matrix] = {}
        for number, column in enumerate(layer.embeddings):
            if column.table not in made:
                known = layer.tables.get(column.table)
                own = None if seed is None else seed + number
                made[column.table] = column.initial_table(own) if known is None else np.array(known)
        return made

    def check_arrays(self, tables: Mapping[str, object]) -> dict[str, Matrix]:
        """Return arrays by the tables' names, or by names of a checkpoint that they are a part of."""
        found: dict[str, Matrix] = {}
        for name, array in tables.items():
            table = next((t for t in self.shapes if t == name or t in name.split("/")), None)
            if table is None:
                raise KeyError(f"no column has a table {name!r}: {what_there_is(name, self.shapes)}")
            made = np.array(array, np.float32, order="C")
            if made.shape != self.shapes[table]:
                raise ValueError(f"table {table!r} has the shape {self.shapes[table]}, not {made.shape}")
            found[table] = made
        return found
