"""Rows by number, found in one scan of the input: each group of a file is decoded once, on all threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Item
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import fetching
from headrace.execute.stream import ASSUMED_READER_THREADS, END, Pulled
from headrace.ops.shuffle.shuffle_buffer import Slots
from headrace.plan.node import Node

MIN_SCANNED_SHARE = 16
"""At least one in this many rows must be wanted: then nearly every group of the files is needed anyway."""


def can_scan(node: Node) -> bool:
    """Return whether a pass over this node can give the rows that would be fetched by number."""
    return node.pure and node.cardinality.known and bool(sources := _counted(node)) and None not in sources


def _counted(node: Node) -> list[Node | None]:
    """Return the sources that can check whether their rows are still those that were counted; None for any other."""
    if not node.indexable:
        return [None]
    if fetching(type(node)).check is not None:
        return [node]
    return [source for each in node.inputs for source in _counted(each)] or [None]


class ScannedRows:
    """The rows at positions `start` to `stop` of an order, stored in packed slots and returned in that order.

    `chosen(nbytes)` returns the numbers of the rows, if each takes `nbytes`; None if they are too few for a scan.
    """

    def __init__(self, ctx: Context, node: Node) -> None:
        self._ctx = ctx
        self._node = node
        self._total = int(node.cardinality)
        self._slots = Slots(0)
        self._order: Indices = np.empty(0, np.int64)
        self.rows: int = 0

    def read(self, chosen: Callable[[int], Indices | None]) -> bool:
        """Read them.

        Return False if they must be fetched by number: one fails, a file has changed, or they are too few.
        """
        if not self._unchanged():
            return False
        source = self._ctx.open_plan(self._node)  # a plan of its own: it is lowered to a scan on all threads
        try:
            return self._read(source, chosen) and self._unchanged()
        finally:
            source.close()

    def _unchanged(self) -> bool:
        for node in _counted(self._node):
            assert node is not None
            check = fetching(type(node)).check
            if check is not None and not check(node, self._ctx):
                return False
        return True

    def _read(self, source: Input, chosen: Callable[[int], Indices | None]) -> bool:
        pace = self._ctx.run.pace(threads=ASSUMED_READER_THREADS)
        item: Pulled = source.pull(pace.rows)
        if not isinstance(item, Block):
            return False
        numbers = chosen(item.nbytes // item.rows + 1)
        if numbers is None:
            return False
        wanted = self._wanted(numbers)
        self._slots = Slots(len(numbers), exact=True)
        first = 0
        while isinstance(item, Block) and first + item.rows <= self._total:
            pace.observe(item, 0)
            self._place(item, None if wanted is None else np.flatnonzero(wanted[first : first + item.rows]))
            first += item.rows
            item = source.pull(max(64, pace.rows))
        return item is END and first == self._total

    def _wanted(self, numbers: Indices) -> Indices | None:
        """Return which rows are wanted, None for all. Sets the order in which the slots are returned."""
        if len(numbers) == self._total:
            self._order = numbers
            return None
        wanted = np.zeros(self._total, bool)
        wanted[numbers] = True
        self._order = np.cumsum(wanted)[numbers] - 1
        return wanted

    def _place(self, block: Block, rows: Indices | None) -> None:
        """Put rows of a block, those with these numbers or all, into the next slots."""
        kept = block if rows is None else block.take(rows)
        if kept.rows:
            extra = [] if kept.ids is None else [kept.ids]
            self._slots.place(slice(self.rows, self.rows + kept.rows), kept, extra)
            self.rows += kept.rows

    def give(self, start: int, stop: int) -> list[Item]:
        """Return the rows of some places, each for the only time."""
        return self._slots.give(self._order[start:stop])
