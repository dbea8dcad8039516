"""The share of one reader among several that go in step: every n-th element, as long as there is one for each."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.block import Block
from headrace.columns import Indices
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class EvenShard(Node):
    """Element `index` of every `readers` elements; elements at the end that do not go round are left out.

    Readers that train in step would wait for each other for ever if one had an element more.
    """

    input: Node
    readers: int
    index: int

    @property
    def operation(self) -> str:
        return "shard"

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.in_groups(self.readers, up=False)

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@fetches(EvenShard)
def fetch_even_shard(node: EvenShard, ctx: Context, indices: Indices) -> Block:
    """Every n-th row."""
    return ctx.fetch(node.input, indices * node.readers + node.index)


@opens(EvenShard)
class EvenShardStream(Stream):
    """Takes its own element and passes over those of the others, to know that they are there."""

    def __init__(self, node: EvenShard, ctx: Context, at: At) -> None:
        self._readers = node.readers
        self._index = node.index
        self._input = ctx.open(node.input, at.inputs)

    def pull(self, want: int) -> Made:  # noqa: ARG002
        before = (self._index - self._input.ordinal) % self._readers
        if self._input.skip(before) < before:
            return END
        item = self._input.pull(1)
        after = self._readers - 1 - self._index
        return END if item is END or self._input.skip(after) < after else item

    def skip(self, count: int, *, replay: bool = False) -> int:
        begun = self._input.ordinal % self._readers
        return (begun + self._input.skip(count * self._readers - begun, replay=replay)) // self._readers
