"""What the operations share that give out rows of their input as they are."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.block import Block
from headrace.columns import Indices
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class UnchangedRows(Node):
    """Rows of the input as they are: a subclass says which, in what order."""

    input: Node

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def leading(self) -> int | None:
        return self.input.leading


@dataclass(frozen=True, eq=False)
class MovedRows(UnchangedRows):
    """Rows that are found by number if those of the input are."""

    moves_rows = True

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@dataclass(frozen=True, eq=False)
class PassThrough(UnchangedRows):
    """All rows, one for one, and no trace in states; a subclass says how it is opened."""

    divides = True
    keeps_runs = True

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
    def runs_ahead(self) -> bool:
        return self.input.runs_ahead


@opens(PassThrough)
class PassThroughStream(Stream):
    """Rows as they come."""

    def __init__(self, node: PassThrough, ctx: Context, at: At) -> None:
        self._input = ctx.open(node.input, at.inputs, any_order=True, objects=True)

    def pull(self, want: int) -> Made:
        return self._input.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)


@fetches(PassThrough)
def fetch_unchanged(node: PassThrough, ctx: Context, indices: Indices) -> Block:
    """The input's rows."""
    return ctx.fetch(node.input, indices)
