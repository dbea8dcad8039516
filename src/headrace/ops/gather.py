"""Rows by number: what the optimiser makes of operations that only move rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.block import Block, Column, Failure, Indices, Item, Mark, scalar_block, shifted
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
    """`count` rows fetched by number: a counter is all the state there is."""

    def __init__(self, ctx: Context, rows: Node, count: int, numbers: Callable[[int, int], Indices]) -> None:
        self._ctx = ctx
        self._rows = rows
        self._count = count
        self._numbers = numbers
        self._next = 0
        self._pending = Pending()

    def pull(self, want: int) -> Pulled:
        if not self._pending:
            start = self._next
            self._next = stop = min(self._count, start + want)
            if start == stop:
                return END
            self._pending.add(fetched(self._rows, self._ctx, scalar_block(self._numbers(start, stop))))
        return self._pending.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        done = self._pending.drop(count)
        start = self._next
        self._next = min(self._count, start + count - done)
        return done + self._next - start


def fetched(rows: Node, ctx: Context, numbers: Block) -> list[Item]:
    """`picked`; one by one where a row fails, for the failure to take its place, or where calls can be counted.

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
    return [item for i in range(numbers.rows) for item in fetched(rows, ctx, numbers.slice(i, i + 1))]


def _placed(items: list[Item], numbers: Block) -> list[Item]:
    """Items under the marks of their numbers, and under the numbers' ids where they have any."""
    done = 0
    for item in items:
        item.mark = shifted(numbers.mark, done)
        if isinstance(item, Block) and numbers.ids is not None:
            item.ids = numbers.ids[done : done + item.rows]
        done += item.rows
    return items
