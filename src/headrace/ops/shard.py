"""Every n-th element: the share of one worker among several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.arguments import integer, positive
from headrace.ops.shared.row_share import RowShare
from headrace.ops.shared.unchanged_rows import MovedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Moves

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


ROWS_PER_READ = 256
"""How many rows are read at a time to keep every n-th of them; with many shards, one by one."""


def shard(self: Dataset[Element], num_shards: int, index: int, name: str | None = None) -> Dataset[Element]:
    """Keep every `num_shards`-th element, starting with element `index`.

    Args:
        num_shards: Number of shares.
        index: Number of this share.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

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
    """Return every n-th row."""
    return ctx.fetch(node.input, indices * node.num_shards + node.index)


@opens(Shard)
class ShardStream(Stream):
    """Skip to the next row of its share, then keep every n-th row."""

    def __init__(self, node: Shard, ctx: Context, at: At) -> None:
        self._shards = node.num_shards
        self._index = node.index
        self._input = ctx.open(node.input, at.inputs)
        self._input.announce(RowShare(node.num_shards, node.index, 1))

    def _foreign(self, position: int) -> int:
        """Return how many rows of other shards come before the next of this one."""
        return (self._index - position) % self._shards

    def pull(self, want: int) -> Made:
        n = self._shards
        foreign = self._foreign(self._input.ordinal)
        if foreign and self._input.skip(foreign) < foreign:
            return END
        item = self._input.pull((min(want, ROWS_PER_READ // n + 1) - 1) * n + 1)
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
