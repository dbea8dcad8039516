"""The bases of operations that return rows of their input unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.columns.lazy_block import LazyBlock
from headrace.execute.context import OBJECTS, Context
from headrace.execute.registry import fetches, opens
from headrace.execute.row_by_row import IsLast
from headrace.execute.stream import Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Ahead, Divides, Moves, Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class UnchangedRows(Node):
    """Return rows of the input unchanged: a subclass says which, in what order."""

    input: Node

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def leading(self) -> int | None:
        return self.input.leading


@dataclass(frozen=True, eq=False)
class MovedRows(UnchangedRows):
    """Rows that can be fetched by number if those of the input can."""

    moves = Moves.ROWS

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@dataclass(frozen=True, eq=False)
class PassThrough(UnchangedRows):
    """Return all rows, and leave no trace in states; a subclass says how it is opened."""

    divides = Divides.RUNS

    transparent = True
    one_to_one = True

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def positional(self) -> bool:
        return self.input.positional

    @property
    def ahead(self) -> Ahead:
        return min(self.input.ahead, Ahead.RUNS)


@opens(PassThrough)
class PassThroughStream(Stream):
    """Rows as they come."""

    def __init__(self, node: PassThrough, ctx: Context, at: At) -> None:
        self._input = ctx.open(node.input, at.inputs, any_order=True, form=OBJECTS)

    def pull(self, want: int) -> Made:
        return self._input.pull(want)

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:
        return self._input.pull_until(want, is_last)

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)


def point_through(node: PassThrough, ctx: Context, indices: Indices) -> LazyBlock | None:
    """References to rows of the input."""
    return ctx.point_at(node.input, indices)


@fetches(PassThrough, point=point_through)
def fetch_unchanged(node: PassThrough, ctx: Context, indices: Indices) -> Block:
    """Return the input's rows."""
    return ctx.fetch(node.input, indices)
