"""Fetch rows by number: the optimizer's form of operations that only move rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item, in_runs, pick_rows
from headrace.core.override import override
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, DroppedFailure, Made, RowRange, Stream
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.ops.shuffle.scanned_rows import MIN_SCANNED_SHARE, ScannedRows, can_scan
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class Gather(Node):
    """Select rows: row i is the row of `rows` whose number is row i of `numbers`."""

    numbers: Node
    rows: Node

    @property
    def spec(self) -> Spec:
        return self.rows.spec

    @property
    def cardinality(self) -> Cardinality:
        return self.numbers.cardinality

    @property
    def indexable(self) -> bool:
        return self.numbers.indexable


@fetches(Gather)
def fetch_gathered(node: Gather, ctx: Context, indices: Indices) -> Block:
    """Return the rows with these rows' numbers."""
    numbers = ctx.fetch(node.numbers, indices)
    column = numbers.columns[0]
    assert isinstance(column, np.ndarray)
    block = ctx.fetch(node.rows, column)
    block.ids = block.ids if numbers.ids is None else numbers.ids
    return block


@opens(Gather)
class GatherStream(Stream):
    """Pull numbers, fetch rows. The position is an ordinal, so the numbers are read from the start and skipped."""

    @override
    def __init__(self, node: Gather, ctx: Context, at: At) -> None:
        self._ctx = ctx
        self._rows = node.rows
        self._numbers = ctx.open(node.numbers)

    def pull(self, want: int) -> Made:
        numbers = self._numbers.pull(want)
        if numbers is END or isinstance(numbers, Failure):
            return numbers
        return fetch_numbers(self._ctx, self._rows, numbers)

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._numbers.skip(count, replay=replay)


@dataclass(frozen=True, eq=False)
class RowsByNumber(UnchangedRows):
    """Fetch rows of the input by number, with a NumberStream. A subclass says which, in what order."""

    positional = True

    @property
    def in_large_lots(self) -> bool:
        """Whether many rows are fetched at a time, because the input reads many rows for one and they are scattered."""
        return False


class NumberStream(Stream):
    """Fetch `count` rows by number: its whole state is a counter.

    If numbers are `scattered` over an input that reads many rows for one, as many are fetched at a time as memory
    allows, or a `lot` that the user chose: the input is read once for each such lot, not once for each pull. If most
    groups of its files are needed, and no number comes twice (`distinct`), all are scanned in order and in parallel.

    With `read_to_end` all rows of the input are skipped at the end, to find failures that have no number.
    """

    def __init__(
        self,
        ctx: Context,
        rows: Node,
        count: int,
        numbers: Callable[[int, int], Indices],
        *,
        lot: int | None = None,
        scattered: bool = False,
        distinct: bool = False,
        read_to_end: bool = False,
    ) -> None:
        self._ctx = ctx
        self._rows = rows
        self._count = count
        self._numbers = numbers
        self._next = 0
        self._read_to_end = read_to_end
        self._fixed = lot is not None
        self._lot = lot or (FIRST_LOT if scattered else 0)
        self._ready: deque[Item] = deque()
        self._scans = scattered and distinct and can_scan(rows) and not (lot and self._are_few(lot))
        self._scanned: ScannedRows | None = None
        self._first = 0

    def pull(self, want: int) -> Made:
        if self._scans and not self._ready and (items := self._pull_scanned(want)):
            return items
        if not self._ready:
            start = self._next
            self._next = stop = min(self._count, start + max(want, self._lot))
            if start == stop:
                return self._end()
            items = self._ctx.fetch_items(self._rows, self._numbers(start, stop))
            if not self._lot:
                return items
            if not self._fixed:
                self._learn(items, stop - start)
            self._ready.extend(items)
        item = self._ready.popleft()
        if not isinstance(item, Block):
            return item
        if item.rows > want:
            self._ready.appendleft(item.cut(want, item.rows))
        return item.take(np.arange(min(want, item.rows)))  # a row that is kept must not keep the lot alive

    def halt(self) -> RowRange | None:
        if self._lot or self._read_to_end:
            return None
        rest = RowRange(self._next, self._count)
        self._count = self._next
        return rest

    def _pull_scanned(self, want: int) -> list[Item]:
        """Return the next rows out of a scan of the input; none at the end, or if rows must be fetched."""
        here = self._next
        if self._scanned is not None and here >= self._first + self._scanned.rows:
            self._scanned = None
        if here == self._count:
            return []
        if self._scanned is None:
            scanned = ScannedRows(self._ctx, self._rows)
            if not scanned.read(self._chosen):
                self._scans = False
                return []
            self._scanned, self._first = scanned, here
        stop = min(here + want, self._first + self._scanned.rows)
        self._next = stop
        return self._scanned.give(here - self._first, stop - self._first)

    def _chosen(self, row_bytes: int) -> Indices | None:
        """Return the numbers of the next lot, if each row takes `row_bytes`. None if they are too few for a scan."""
        rows = self._lot if self._fixed else max(1, self._ctx.run.memory.limit // LOT_SHARE // row_bytes)
        stop = min(self._count, self._next + rows)
        return None if self._are_few(stop - self._next) else self._numbers(self._next, stop)

    def _are_few(self, rows: int) -> bool:
        """Return whether `rows` rows are in few groups of the files, as far as known."""
        return rows * MIN_SCANNED_SHARE < self._rows.cardinality

    def _end(self) -> Made:
        if not self._read_to_end:
            return END
        self._read_to_end = False
        source, opened = self._ctx.open(self._rows), self._ctx.opened
        while source.skip(1 << 30, replay=True) == 1 << 30:
            pass
        source.close()
        error = opened.flushed or opened.dropped
        return END if error is None else DroppedFailure(error)

    def _learn(self, items: list[Item], rows: int) -> None:
        """Choose how many rows are a lot, by the size of these."""
        each = sum(item.nbytes for item in items) // rows + 1
        self._lot = max(1, self._ctx.run.memory.limit // LOT_SHARE // each)

    @override
    def skip(self, count: int, *, replay: bool = False) -> int:
        done = 0
        while self._ready and done < count:
            item = self._ready.popleft()
            if item.rows > count - done:
                self._ready.appendleft(item.cut(count - done, item.rows))
            done += min(item.rows, count - done)
        start = self._next
        self._next = min(self._count, start + count - done)
        return done + self._next - start


FIRST_LOT = 1 << 12
"""How many scattered rows are fetched first, to learn their size …"""
LOT_SHARE = 8
"""… then as many as take 1/LOT_SHARE of the memory budget."""


def gathered_items(starts: Indices, numbers: Indices, read: Callable[[int, Indices], list[Item]]) -> list[Item]:
    """Like block's `gathered`, for rows that may fail: `read` returns items, and failures come in their places."""
    by_run, runs = in_runs(starts, numbers)
    items = [item for run, rows in runs for item in read(run, rows)]
    return items if len(runs) <= 1 else put_in_order(items, by_run)


def put_in_order(items: list[Item], places_of: Indices) -> list[Item]:
    """Return rows, and failures among them, each at the place that `places_of` has for it."""
    rows = len(places_of)
    source = np.full(rows, -1, np.int64)
    failures: dict[int, Failure] = {}
    done = taken = 0
    for item in items:
        places = places_of[done : done + item.rows]
        if isinstance(item, Block):
            source[places] = np.arange(taken, taken + item.rows)
            taken += item.rows
        else:
            failures[int(places[0])] = item
        done += item.rows
    good = [item for item in items if isinstance(item, Block)]
    block = pick_rows(good, source[source >= 0]) if good else None
    return list(_interspersed(block, failures, rows))


def _interspersed(block: Block | None, failures: dict[int, Failure], rows: int) -> Iterator[Item]:
    """Yield the rows of a block, with failures at these places among them."""
    start = 0
    for number, place in enumerate([*sorted(failures), rows]):
        if block is not None and place - number > start:
            yield block.slice(start, place - number)
            start = place - number
        if place < rows:
            yield failures[place]


def fetch_numbers(ctx: Context, rows: Node, numbers: Block) -> list[Item]:
    """Return the rows with these numbers, with the numbers' marks, and their ids if they have any."""
    column = numbers.columns[0]
    assert isinstance(column, np.ndarray)
    items = ctx.fetch_items(rows, column)
    done = 0
    for item in items:
        item.mark = numbers.mark.later(done)
        if isinstance(item, Block) and numbers.ids is not None:
            item.ids = numbers.ids[done : done + item.rows]
        done += item.rows
    return items
