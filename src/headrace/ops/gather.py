"""Rows by number: what the optimiser makes of operations that only move rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from headrace.block import Block, Column, Failure, Indices, Item, Mark, concat, in_runs, scalar_block, shifted
from headrace.block import picked as picked_rows
from headrace.errors import ElementError
from headrace.execute.context import Context
from headrace.execute.stream import END, Pending, Pulled, Stream
from headrace.plan.cardinality import Cardinality
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

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return GatherStream(self, ctx, mark)

    def at(self, ctx: Context, indices: Indices) -> Block:
        return picked(self.rows, ctx, self.numbers.at(ctx, indices))


def picked(rows: Node, ctx: Context, numbers: Block) -> Block:
    """The rows with these numbers, under the numbers' ids where they have any."""
    column = numbers.columns[0]
    assert isinstance(column, np.ndarray)
    block = rows.at(ctx, column)
    block.mark = numbers.mark
    block.ids = block.ids if numbers.ids is None else numbers.ids
    return block


class GatherStream(Stream):
    """Pulls numbers, fetches rows."""

    def __init__(self, node: Gather, ctx: Context, mark: Mark) -> None:
        self._ctx = ctx
        self._rows = node.rows
        self._numbers = ctx.open(node.numbers, mark)
        self._pending = Pending()

    def pull(self, want: int) -> Pulled:
        if not self._pending:
            numbers = self._numbers.pull(want)
            if numbers is END or isinstance(numbers, Failure):
                return numbers
            self._pending.add(fetched(self._rows, self._ctx, numbers))
        return self._pending.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = self._pending.drop(count)
        return done + self._numbers.skip(count - done, replay=replay)


class NumberStream(Stream):
    """`count` rows fetched by number: a counter is all the state there is.

    Where numbers are `scattered` over an input that reads many rows for one, as many are fetched at a time as memory
    allows: the input is read once for each such lot, not once for each pull.
    """

    def __init__(
        self,
        ctx: Context,
        rows: Node,
        count: int,
        numbers: Callable[[int, int], Indices],
        *,
        scattered: bool = False,
    ) -> None:
        self._ctx = ctx
        self._rows = rows
        self._count = count
        self._numbers = numbers
        self._next = 0
        self._lot = FIRST_LOT if scattered else 0
        self._pending = Pending()

    def pull(self, want: int) -> Pulled:
        if not self._pending:
            start = self._next
            self._next = stop = min(self._count, start + max(want, self._lot))
            if start == stop:
                return END
            items = fetched(self._rows, self._ctx, scalar_block(self._numbers(start, stop)))
            if self._lot:
                each = sum(item.nbytes for item in items) // (stop - start) + 1
                self._lot = max(1, self._ctx.run.memory.limit // LOT_SHARE // each)
            self._pending.add(items)
        item = self._pending.pull(want)
        if self._lot and isinstance(item, Block):  # a row that somebody keeps must not keep the lot
            mark, item = item.mark, item.take(np.arange(item.rows))
            item.mark = mark
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        done = self._pending.drop(count)
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
    if len(runs) <= 1:
        return items
    source = np.full(len(numbers), -1, np.int64)
    failures: dict[int, Failure] = {}
    done = taken = 0
    for item in items:
        places = by_run[done : done + item.rows]
        if isinstance(item, Block):
            source[places] = np.arange(taken, taken + item.rows)
            taken += item.rows
        else:
            failures[int(places[0])] = item
        done += item.rows
    good = [item for item in items if isinstance(item, Block)]
    block = picked_rows(good, source[source >= 0]) if good else None
    return list(_interspersed(block, failures, len(numbers)))


def all_good(items: list[Item]) -> Block:
    """Items as one block; raises the first failure among them."""
    for item in items:
        if isinstance(item, Failure):
            raise item.error
    return concat([item for item in items if isinstance(item, Block)])


def _interspersed(block: Block | None, failures: dict[int, Failure], rows: int) -> Iterator[Item]:
    """The rows of a block, with failures at these places among them."""
    start = 0
    for number, place in enumerate([*sorted(failures), rows]):
        if block is not None and place - number > start:
            yield block.slice(start, place - number)
            start = place - number
        if place < rows:
            yield failures[place]


def fetched(rows: Node, ctx: Context, numbers: Block) -> list[Item]:
    """`picked`; by halves where a row fails, for the failure to take its place, one by one where calls can be counted.

    A source may `fetch` rows with the failures among them by itself.
    """
    fetch: Callable[[Context, Column], list[Item]] | None = getattr(rows, "fetch", None)
    if fetch is not None:
        return _placed(fetch(ctx, numbers.columns[0]), numbers)
    if numbers.rows == 1 or rows.pure:
        try:
            return [picked(rows, ctx, numbers)]
        except ElementError as error:
            if numbers.rows == 1:
                return [Failure(error, numbers.mark)]
    part = max(1, numbers.rows // 2) if rows.pure else 1
    parts = [numbers.slice(i, min(i + part, numbers.rows)) for i in range(0, numbers.rows, part)]
    return [item for each in parts for item in fetched(rows, ctx, each)]


def _placed(items: list[Item], numbers: Block) -> list[Item]:
    """Items under the marks of their numbers, and under the numbers' ids where they have any."""
    done = 0
    for item in items:
        item.mark = shifted(numbers.mark, done)
        if isinstance(item, Block) and numbers.ids is not None:
            item.ids = numbers.ids[done : done + item.rows]
        done += item.rows
    return items
