"""Rows by number: what the optimiser makes of operations that only move rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from headrace.block import Block, Failure, Item, in_runs, pick_rows
from headrace.columns import Indices
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class Gather(Node):
    """Row i is the row of `rows` whose number is row i of `numbers`."""

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
    """The rows with these rows' numbers."""
    numbers = ctx.fetch(node.numbers, indices)
    column = numbers.columns[0]
    assert isinstance(column, np.ndarray)
    block = ctx.fetch(node.rows, column)
    block.ids = block.ids if numbers.ids is None else numbers.ids
    return block


@opens(Gather)
class GatherStream(Stream):
    """Pulls numbers, fetches rows. A place is an ordinal, so the numbers are read from the start and skipped."""

    def __init__(self, node: Gather, ctx: Context, at: At) -> None:  # noqa: ARG002
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


class NumberStream(Stream):
    """`count` rows fetched by number: a counter is all the state there is.

    Where numbers are `scattered` over an input that reads many rows for one, as many are fetched at a time as memory
    allows, or a `lot` that somebody chose: the input is read once for each such lot, not once for each pull.
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
    ) -> None:
        self._ctx = ctx
        self._rows = rows
        self._count = count
        self._numbers = numbers
        self._next = 0
        self._fixed = lot is not None
        self._lot = lot or (FIRST_LOT if scattered else 0)
        self._ready: deque[Item] = deque()

    def pull(self, want: int) -> Made:
        if not self._ready:
            start = self._next
            self._next = stop = min(self._count, start + max(want, self._lot))
            if start == stop:
                return END
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
        return item.take(np.arange(min(want, item.rows)))  # a row that somebody keeps must not keep the lot

    def _learn(self, items: list[Item], rows: int) -> None:
        """How many rows are a lot, by how large these are."""
        each = sum(item.nbytes for item in items) // rows + 1
        self._lot = max(1, self._ctx.run.memory.limit // LOT_SHARE // each)

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
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
"""So many scattered rows are fetched first, to learn how large they are …"""
LOT_SHARE = 8
"""… then as many as take this part of what the pass may hold."""


def gathered_items(starts: Indices, numbers: Indices, read: Callable[[int, Indices], list[Item]]) -> list[Item]:
    """As block's `gathered`, of rows that may fail: `read` gives items, and failures come in their places."""
    by_run, runs = in_runs(starts, numbers)
    items = [item for run, rows in runs for item in read(run, rows)]
    return items if len(runs) <= 1 else put_in_order(items, by_run)


def put_in_order(items: list[Item], places_of: Indices) -> list[Item]:
    """Rows, and failures among them, each at the place that `places_of` has for it."""
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
    """The rows of a block, with failures at these places among them."""
    start = 0
    for number, place in enumerate([*sorted(failures), rows]):
        if block is not None and place - number > start:
            yield block.slice(start, place - number)
            start = place - number
        if place < rows:
            yield failures[place]


def fetch_numbers(ctx: Context, rows: Node, numbers: Block) -> list[Item]:
    """The rows with these numbers, under the numbers' marks, and their ids where they have any."""
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
