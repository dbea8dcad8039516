"""What the operations share that give their input's rows, one for one, and leave no trace in states."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.block import Block, Indices
from headrace.execute.context import Context
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class Passing(Node):
    """The input itself, as far as anybody can tell from its rows; a subclass says how it is opened."""

    input: Node

    transparent = True
    one_to_one = True

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def positional(self) -> bool:
        return self.input.positional

    def at(self, ctx: Context, indices: Indices) -> Block:
        return self.input.at(ctx, indices)
