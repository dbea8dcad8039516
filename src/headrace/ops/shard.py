"""Every n-th element: the share of one worker among several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.block import Block, Failure
from headrace.columns import Indices
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.arguments import integer, positive
from headrace.ops.row_share import RowShare
from headrace.ops.unchanged_rows import MovedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Moves

if TYPE_CHECKING:
    from headrace.dataset import Dataset


AT_ONCE = 256
"""So many rows are read at a time to keep every n-th of them; of many shards, one by one."""


def shard(self: Dataset, num_shards: int, index: int, name: str | None = None) -> Dataset:
    """The elements whose position, divided by `num_shards`, leaves `index`.

    >>> list(hr.Dataset.range(7).shard(3, 1))
    [np.int64(1), np.int64(4)]
    """
    shards = positive("num_shards", num_shards)
    number = integer("index", index)
    if not 0 <= number < shards:
        raise ValueError(f"index must be between 0 and {shards - 1} (num_shards - 1), not {number}")
    return self._then(Shard, shards, number, name=name)


@dataclass(frozen=True, eq=False)
class Shard(MovedRows):
    """Rows index, index + num_shards, …"""

    num_shards: int
    index: int

    moves = Moves.FAR

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.less(self.index).in_groups(self.num_shards, up=True)


@fetches(Shard)
def fetch_share(node: Shard, ctx: Context, indices: Indices) -> Block:
    """Every n-th row."""
    return ctx.fetch(node.input, indices * node.num_shards + node.index)


@opens(Shard)
class ShardStream(Stream):
    """Passes to the next row of its share, then keeps every n-th of what comes."""

    def __init__(self, node: Shard, ctx: Context, at: At) -> None:
        self._shards = node.num_shards
        self._index = node.index
        self._input = ctx.open(node.input, at.inputs)
        self._input.announce(RowShare(node.num_shards, node.index, 1))

    def _foreign(self, position: int) -> int:
        """How many rows of others lie before the next of ours."""
        return (self._index - position) % self._shards

    def pull(self, want: int) -> Made:
        n = self._shards
        foreign = self._foreign(self._input.ordinal)
        if foreign and self._input.skip(foreign) < foreign:
            return END
        item = self._input.pull((min(want, AT_ONCE // n + 1) - 1) * n + 1)
        if item is END or isinstance(item, Failure):
            return item
        return item.take(np.arange(0, item.rows, n))

    def skip(self, count: int, *, replay: bool = False) -> int:
        if count == 0:
            return 0
        start = self._input.ordinal
        first = start + self._foreign(start)
        wanted = first + (count - 1) * self._shards + 1 - start
        end = start + self._input.skip(wanted, replay=replay)
        return max(0, -(-(end - first) // self._shards))
