"""Run functions that branch on data: split the rows of a block by path, and merge the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.columns import Column, Indices, take
from headrace.columns.dense import put_rows, room_for
from headrace.core.types import Array
from headrace.trace.errors import Mismatch
from headrace.trace.values import Operand, Step, Values, do_steps

Taken = list[tuple[int, Indices | None]]
"""For each path that rows took, its number and which rows; None if all did."""


class PathRaisesError(Exception):
    """Some row takes a path on which the function raises: calling it on each row finds out which."""


@dataclass(eq=False)
class Piece:
    """What one path makes of its rows."""

    path: int
    rows: Indices | None
    """Which rows of the block they are; None for all."""
    columns: list[Column]
    indices: Indices | None = None
    """Their positions in the columns; None if the columns hold nothing else."""


@dataclass(eq=False)
class Segment:
    """The steps from one branch of a function to the next, or to its end."""

    start: int
    """How many values there are before."""
    template: Values
    captured: list[tuple[int, Array]]
    steps: list[Step]
    takes: frozenset[int] = frozenset()
    """Earlier values that the rest needs, and whose rows are selected."""
    again: list[Step] = field(default_factory=list)
    """Earlier steps to repeat on the rows taken: their results have another memory layout than a copy."""
    views: bool = False
    """Whether the rest only makes views of its argument, so that no rows need to be selected."""
    condition: int = -1
    sides: tuple[Segment, Segment] | None = None
    """The segments for the rows whose condition is true, and for the others; None at the end."""
    path: int = 0
    raises: bool = False
    outputs: tuple[Operand, ...] = ()
    """At the end, for each component a slot, or a value that is the same for all rows in a tuple."""
    unbatched: frozenset[int] = frozenset()

    def run(self, values: Values, n: int, rows: Indices | None, pieces: list[Piece]) -> None:
        """Add what comes of `n` rows, given the values before, which become those after."""
        values += self.template
        for slot, array in self.captured:
            values[slot] = array
        do_steps(self.steps, values, n)
        if self.sides is None:
            pieces.append(Piece(self.path, rows, [self._column(o, values, n) for o in self.outputs]))
            return
        holds = _truth(values[self.condition], n)
        count = np.count_nonzero(holds)
        present = [side for side, size in zip(self.sides, (count, n - count), strict=True) if size]
        if any(side.raises for side in present):
            raise PathRaisesError
        if len(present) == 1:
            present[0].run(values, n, rows, pieces)
            return
        for side, chosen in zip(self.sides, (holds, ~holds), strict=True):
            found = np.flatnonzero(chosen)
            side.run_on_part(values, n, found, found if rows is None else rows[found], pieces)

    def run_on_part(self, values: Values, n: int, found: Indices, rows: Indices, pieces: list[Piece]) -> None:
        """Add what comes of some of `n` rows, those `found`, which are these `rows` of the block."""
        part = values.copy()
        if self.views:
            self.run(part, n, rows, pieces)
            pieces[-1].indices = found
            return
        for slot in self.takes:
            part[slot] = take(part[slot], found)
        do_steps(self.again, part, len(found))
        self.run(part, len(found), rows, pieces)

    def _column(self, output: Operand, values: Values, n: int) -> Column:
        if isinstance(output, tuple):
            return np.broadcast_to(output[0], (n, *np.shape(output[0])))
        value = values[output]
        return np.broadcast_to(value, (n, *np.shape(value))) if output in self.unbatched else value


def all_steps(tree: Segment) -> list[Step]:
    """Return every step once."""
    return [*tree.steps, *[step for side in tree.sides or () for step in all_steps(side)]]


def _truth(column: Column, n: int) -> Array:
    """Return what `bool` says of each row; a value that all rows share is the same for all."""
    found: Array = np.asarray(column) != 0  # true of NaN, as `bool` is
    if found.size == n and found.shape[:1] == (n,):
        return found.reshape(n)
    if found.size != 1:
        raise Mismatch
    return np.broadcast_to(found.reshape(()), (n,))


def join_pieces(pieces: Sequence[Piece], n: int) -> list[Column]:
    """Return the columns of all rows, each path's in their places."""
    first = pieces[0]
    if first.rows is None:
        return first.columns
    made: list[Column] = []
    for i, like in enumerate(first.columns):
        parts = [piece.columns[i] for piece in pieces]
        if not all(isinstance(p, np.ndarray) and (p.dtype, p.shape[1:]) == (like.dtype, like.shape[1:]) for p in parts):
            raise ValueError("rows of different kinds")
        out = room_for((n, *like.shape[1:]), like.dtype)
        for piece, part in zip(pieces, parts, strict=True):
            assert piece.rows is not None, "one of several paths"
            put_rows(out, piece.rows, part, piece.indices)
        made.append(out)
    return made
