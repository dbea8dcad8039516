"""Functions that only cut a row along its first axis, found by asking once; then done to many rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.block import Block
from headrace.columns import Column, read_only
from headrace.execute.context import Context
from headrace.plan.node import Node
from headrace.plan.structure import Structure
from headrace.sources.memory import Memory


@dataclass(frozen=True)
class RowSlices:
    """Rows of this structure become the slices of some of their components, which are `made` of them."""

    structure: Structure
    made: Structure
    components: tuple[int, ...]

    rows = None
    """Each row may have another number of slices."""
    most = None

    @classmethod
    def of(cls, made: Node, structure: Structure, components: list[Any]) -> RowSlices | None:
        """What a function makes of any row, told by what it made of these components; None where it is anything else.

        A slice of the very memory it was given depends on no value.
        """
        if not isinstance(made, Memory) or made.operation != "from_tensor_slices":
            return None
        lies = {where: i for i, c in enumerate(components) if (where := _where(c)) is not None}
        found = [lies.get(where) if (where := _where(column)) is not None else None for column in made.columns]
        known = tuple(i for i in found if i is not None)
        return cls(structure, made.structure, known) if len(known) == len(found) else None

    def fill(self, ctx: Context, rows: Block) -> Block | None:  # noqa: ARG002 - no input is opened
        """The slices of many rows, one row after the other; None where they must be looked at one by one."""
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
        return Block(self.made, columns, counts.pop()) if len(counts) == 1 else None  # else each row is an error


def _where(column: Any) -> tuple[Any, ...] | None:
    """Which memory an array shows, and how; None for what is no array of numbers, or too small to be told."""
    if not isinstance(column, np.ndarray) or not column.ndim or not column.size or column.dtype.hasobject:
        return None
    return column.ctypes.data, column.shape, column.strides, column.dtype
