"""A traced function: its graph for rows of one kind, run on whole blocks."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.columns import Column, copy_in_order, kind_of
from headrace.columns.arrow_text import FRESH, Bytes, take_over
from headrace.core.types import Array
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure
from headrace.trace.capture import Guard
from headrace.trace.errors import Mismatch
from headrace.trace.fork import Segment, Taken, all_steps
from headrace.trace.values import Operand, Step, Value, Values, do_steps

ROWS_TO_VERIFY = 8
"""How many rows of each path are computed both ways and compared."""


@dataclass(eq=False)
class Graph:
    """What a function does, as steps on columns."""

    structure: Structure
    spec: Spec
    outputs: tuple[Operand, ...]
    """For each component of the result a slot, or a constant in a tuple."""
    steps: list[Step]
    template: Values
    captured: list[tuple[Value, Array]]
    guards: list[Guard]
    sizes: dict[int, int]
    """The assumed lengths of rows, by the number of the operation that makes them."""
    unverified: list[int] = field(default_factory=lambda: [ROWS_TO_VERIFY])
    """For each path through the function, how many of its rows are still to be compared with calls."""

    def current(self) -> bool:
        """Return whether the objects that the function captured are unchanged."""
        return all(map(operator.call, self.guards))

    @property
    def summary(self) -> str:
        """For `explain`."""
        named = [s for s in (self.steps if self.tree is None else all_steps(self.tree)) if s.name]
        alone = [s.name for s in named if s.rowwise]
        text = f"vectorised: {len(named)} operation{'s' * (len(named) != 1)}"
        text += f", {len(self.unverified)} paths" if self.tree is not None else ""
        text += f", {', '.join(sorted(set(alone)))} row by row" if alone else ""
        return text + (", of rows of one length" if self.sizes else "")

    def run(self, columns: Sequence[Column], n: int, taken: Taken | None = None) -> list[Column]:
        """Return the columns of the result for a block of `n` rows; `taken` gets the paths that they took."""
        values = self.template.copy()
        for i, column in enumerate(columns):
            values[i] = np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column
        for value, array in self.captured:
            values[value.slot] = array
        if not self.operations or not self.numbers:
            do_steps(self.steps, values, n)
            made = self._given(values, n, {})
        else:
            with FRESH.note() as fresh:
                do_steps(self.steps, values, n)
                made = self._given(values, n, fresh)
        if taken is not None:
            taken += [(0, None)] if self.tree is None else values[self.steps[0].slot]
        return made

    def rows_to_verify(self, taken: Taken, n: int) -> Taken:
        """Return the rows of a block that took these paths and are to be compared with calls."""
        wanted = [(path, rows, self.unverified[path]) for path, rows in taken]
        return [(path, np.arange(min(n, k)) if rows is None else rows[:k]) for path, rows, k in wanted if k]

    def note_verified(self, verified: Taken) -> None:
        """Note that these rows equal those of calls.

        Threads may compare rows at the same time: one too many does no harm.
        """
        for path, rows in verified:
            self.unverified[path] = max(0, self.unverified[path] - (0 if rows is None else len(rows)))

    def _given(self, values: Values, n: int, fresh: dict[int, Bytes]) -> list[Column]:
        """Return the columns, each in its own memory, like results of the function."""
        if self.apart:
            found = [values[output] for output in self.outputs]
            if _are_own_arrays(found, n):
                return found
        made: list[Column] = []
        owners = {id(_owner(array)) for _, array in self.captured}
        for output, spec in zip(self.outputs, self.spec.leaves, strict=True):
            column = self._column(output, values, n)
            if isinstance(column, np.ndarray) and spec.dtype is not None and spec.dtype.kind not in "USO":
                column = column if column.flags.c_contiguous else copy_in_order(column)
                owner = _owner(column)
                if not column.flags.writeable or not isinstance(owner, np.ndarray) or id(owner) in owners:
                    column = owner = _own_copy(column, fresh)
                owners.add(id(owner))
            if len(column) != n:
                raise Mismatch
            made.append(column)
        return made

    def _column(self, output: Operand, values: Values, n: int) -> Column:
        """Return a component of the result; one that the rows have no part in is the same in all."""
        if isinstance(output, tuple):
            return _repeat_value(output[0], n)
        value: Column = values[output]
        return _repeat_value(value, n) if output in self.unbatched else value

    inputs: int = 0
    """How many components the function's argument has; they have the first slots."""
    reads: frozenset[int] = frozenset()
    """Those of them that the function reads, or passes on."""
    in_place: frozenset[int] = frozenset()
    """Inputs that only operations read that accept references to records."""
    infallible: bool = False
    """Whether no values can make it raise."""
    unbatched: frozenset[int] = frozenset()
    operations: bool = False
    """Whether operations of ours are among the steps."""
    numbers: bool = False
    """Whether all results are numbers."""
    apart: bool = False
    """Whether the outputs are all that operations of ours, or one of them, gave, once each, in their own memory."""
    tree: Segment | None = None
    """The paths of a function that branches on data; it then runs as one step."""


def _are_own_arrays(columns: list[Column], n: int) -> bool:
    """Return whether these are writable arrays of `n` rows."""
    for column in columns:  # of every block: a generator would take as long again
        if type(column) is not np.ndarray or len(column) != n or not column.flags.writeable:
            return False
    return True


def _owner(array: Array) -> object:
    """Return what an array has its memory from: an array, unless the memory belongs to another library."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.base is None else array.base


def _own_copy(column: Array, fresh: dict[int, Bytes]) -> Array:
    """Return the column in its own memory: that of the text it was read from in place, if no text is returned."""
    taken = None if column.flags.writeable else take_over(fresh, column)
    return np.array(column, order="C") if taken is None else taken


def _repeat_value(value: object, n: int) -> Column:
    """Return a column of the same value."""
    if isinstance(value, np.ndarray | np.generic):
        return np.broadcast_to(value, (n, *value.shape))
    return [value] * n


def column_spec(column: Column) -> TensorSpec:
    """Return the spec of the rows of a column, for a trace."""
    return kind_of(column).spec(column)
