"""The rows of one split among several: lots of consecutive rows, dealt out in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.indexed.range import Range
from headrace.ops.shared.gather import NumberStream
from headrace.ops.shared.unchanged_rows import MovedRows
from headrace.plan.access import is_coarse
from headrace.plan.cardinality import ENDLESS, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Moves, Node

NUMBERS_PER_READ = 1 << 12
"""How many numbers are read at a time to keep those of one split."""


@dataclass(frozen=True, eq=False)
class DealOut(MovedRows):
    """The rows of `batch(lot).shard(count, index).unbatch()`."""

    count: int
    index: int
    lot: int = 1

    moves = Moves.FAR

    @property
    def operation(self) -> str:
        return "split"

    @property
    def cardinality(self) -> Cardinality:
        rows = self.input.cardinality
        if not rows.known:
            return rows
        return Cardinality(self.before(rows))

    def before(self, rows: int) -> int:
        """Return how many of the first `rows` rows of the input belong to this split."""
        rounds, rest = divmod(rows, self.count * self.lot)
        return rounds * self.lot + min(self.lot, max(0, rest - self.index * self.lot))

    def numbers(self, rows: Indices) -> Indices:
        """Return which rows of the input these rows are."""
        lots, within = np.divmod(rows, self.lot)
        found: Indices = (lots * self.count + self.index) * self.lot + within
        return found

    def number(self, row: int) -> int:
        """Return which row of the input this row is."""
        lots, within = divmod(row, self.lot)
        return (lots * self.count + self.index) * self.lot + within


@fetches(DealOut)
def fetch_dealt(node: DealOut, ctx: Context, indices: Indices) -> Block:
    """Fetch rows by number, if the input supports it."""
    return ctx.fetch(node.input, node.numbers(indices))


@opens(DealOut)
def open_dealt(node: DealOut, ctx: Context, at: At) -> Stream:
    """Open by number if the input supports it; otherwise sequentially."""
    if not node.addressable or _are_numbers(node.input):
        return DealtStream(node, ctx, at)
    rows = int(node.cardinality) if node.cardinality.known else ENDLESS // (node.count * node.lot)
    scattered = is_coarse(node.input)
    return NumberStream(ctx, node.input, rows, lambda a, b: node.numbers(np.arange(a, b)), scattered=scattered)


def _are_numbers(node: Node) -> bool:
    while node.moves:
        (node,) = node.inputs
    return isinstance(node, Range)


class DealtStream(Stream):
    """Skip the lots of other splits; if lots are small and reading is unobservable, read all and keep its own."""

    def __init__(self, node: DealOut, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)
        self._reads_all = node.addressable and node.lot * node.count <= NUMBERS_PER_READ

    def pull(self, want: int) -> Made:
        node, here = self._node, self._input.ordinal
        row = node.before(here)
        foreign = node.number(row) - here
        if foreign and self._input.skip(foreign) < foreign:
            return END
        if self._reads_all and want > 1:
            return self._many(row, want)
        item = self._input.pull(min(want, node.lot - row % node.lot))
        return item if item is END or isinstance(item, Failure) else item.take(np.arange(item.rows))

    def _many(self, row: int, want: int) -> Made:
        node, start = self._node, self._input.ordinal
        most = NUMBERS_PER_READ // node.count + 1
        item = self._input.pull(node.number(row + min(want, most) - 1) + 1 - start)
        if item is END or isinstance(item, Failure):
            return item
        stop = node.before(start + item.rows)
        return item.take(node.numbers(np.arange(row, stop)) - start)

    def skip(self, count: int, *, replay: bool = False) -> int:
        if count == 0:
            return 0
        node, here = self._node, self._input.ordinal
        row = node.before(here)
        done = self._input.skip(node.number(row + count - 1) + 1 - here, replay=replay)
        return node.before(here + done) - row
