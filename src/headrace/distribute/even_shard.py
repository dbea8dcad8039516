"""The share of one of several synchronized readers: every n-th element, as long as there is one for each."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.columns import Indices
from headrace.columns.block import Block, Item
from headrace.core.override import override
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.remainder import end_of_rows, read_again
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Mark
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class EvenShard(Node):
    """Element `index` of every `readers` elements; surplus elements at the end are left out.

    Synchronized readers would wait for each other forever if one had an element more.
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
    def drops_rows(self) -> bool:
        return not self.input.cardinality.fills(self.readers)

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@fetches(EvenShard)
def fetch_even_shard(node: EvenShard, ctx: Context, indices: Indices) -> Block:
    """Return every n-th row."""
    return ctx.fetch(node.input, indices * node.readers + node.index)


@opens(EvenShard)
class EvenShardStream(Stream):
    """Takes its own element and skips those of the others, to know that they are there."""

    def __init__(self, node: EvenShard, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._pure = node.input.pure
        self._input = ctx.open(node.input, at.inputs)
        self._ending: Made | None = None

    @override
    def pull(self, want: int) -> Made:
        if self._ending is not None:
            ending, self._ending = self._ending, END
            return ending
        readers, index = self._node.readers, self._node.index
        mark, begun = self._input.mark(), self._input.ordinal % readers
        if not self._pure:  # passing over rows reads them: look at all of them, because they may be dropped
            group: list[Item] = []
            while len(group) < readers - begun and (row := self._input.pull(1)) is not END:
                group.append(row)
            return group[index - begun] if len(group) == readers - begun else self._end(group)
        before, after = index - begun, readers - 1 - index
        item = self._input.pull(1) if self._input.skip(before) == before else END
        if item is not END and self._input.skip(after) == after:
            return item
        return self._end(self._read_again(mark, 0))

    def _end(self, dropped: list[Item]) -> Made:
        """End, with the first failure among these elements: every reader raises it."""
        self._ending = END
        return end_of_rows(dropped)

    def _read_again(self, mark: Mark, skip: int) -> list[Item]:
        return read_again(self._ctx, self._node.input, mark, skip=skip, rows=self._node.readers - 1)

    def skip(self, count: int, *, replay: bool = False) -> int:
        if not self._pure:  # the last one is pulled
            count = count - 1 if replay else 0
        if self._ending is not None or count <= 0:
            return 0
        readers = self._node.readers
        mark, begun = self._input.mark(), self._input.ordinal % readers
        passed = self._input.skip(count * readers - begun, replay=replay)
        groups = (begun + passed) // readers
        if groups < count:
            self._ending = end_of_rows(self._read_again(mark, groups * readers - begun))
        return groups
