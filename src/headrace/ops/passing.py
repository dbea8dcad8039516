"""What the operations share that give out rows of their input as they are."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.block import Block, Indices
from headrace.execute.context import Context
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class Keeping(Node):
    """Rows of the input as they are: a subclass says which, in what order."""

    input: Node

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def leading(self) -> int | None:
        return self.input.leading


@dataclass(frozen=True, eq=False)
class Moving(Keeping):
    """Rows that are found by number if those of the input are."""

    moves_rows = True

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@dataclass(frozen=True, eq=False)
class Passing(Keeping):
    """All rows, one for one, and no trace in states; a subclass says how it is opened."""

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

    def at(self, ctx: Context, indices: Indices) -> Block:
        return self.input.at(ctx, indices)
