"""Functions that only slice a row along its first axis: detected by one call, then applied to many rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.columns import Column, read_only
from headrace.columns.block import Block
from headrace.core.types import Component
from headrace.execute.context import Context
from headrace.indexed.memory import Memory
from headrace.plan.node import Node
from headrace.plan.structure import Structure


@dataclass(frozen=True)
class RowSlices:
    """Replace rows of this structure by slices of some of their components, in the structure `made`."""

    structure: Structure
    made: Structure
    components: tuple[int, ...]

    rows = None
    """Each row may have another number of slices."""
    most = None

    @classmethod
    def of(cls, made: Node, structure: Structure, components: list[Component]) -> RowSlices | None:
        """Derive what a function makes of any row from its result for these components; None if it is anything but
        slices.

        A slice of the very memory it was given depends on no value.
        """
        if not isinstance(made, Memory) or made.operation != "from_tensor_slices":
            return None
        lies = {where: i for i, c in enumerate(components) if (where := _where(c)) is not None}
        found = [lies.get(where) if (where := _where(column)) is not None else None for column in made.columns]
        known = tuple(i for i in found if i is not None)
        return cls(structure, made.structure, known) if len(known) == len(found) else None

    def fill(self, ctx: Context, rows: Block) -> Block | None:  # noqa: ARG002 - no input is opened
        """Return the slices of many rows in order; None if they must be handled one by one."""
        if rows.structure != self.structure:
            return None
        columns: list[Column] = []
        counts = set()
        for i in self.components:
            column = rows.columns[i]
            if not isinstance(column, np.ndarray) or column.ndim < 2 or column.dtype.hasobject:
                return None
            counts.add(count := len(column) * column.shape[1])
            columns.append(read_only(column.reshape(count, *column.shape[2:])))
        return Block(self.made, columns, counts.pop()) if len(counts) == 1 else None  # otherwise each row is an error


def _where(column: Column) -> tuple[Any, ...] | None:
    """Return which memory an array shows, and how; None for anything but numbers, or if it is too small to tell."""
    if not isinstance(column, np.ndarray) or not column.ndim or not column.size or column.dtype.hasobject:
        return None
    return column.ctypes.data, column.shape, column.strides, column.dtype
