"""Rows by number: what the optimiser makes of operations that only move rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.block import Block, Failure, Indices, Item
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
    """`count` rows fetched by number: a counter is all the state there is."""

    def __init__(self, ctx: Context, rows: Node, count: int, numbers: Callable[[int, int], Indices]) -> None:
        self._ctx = ctx
        self._rows = rows
        self._count = count
        self._numbers = numbers
        self._next = 0

    def pull(self, want: int) -> Made:
        start = self._next
        self._next = stop = min(self._count, start + want)
        if start == stop:
            return END
        return self._ctx.fetch_items(self._rows, self._numbers(start, stop))

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        start = self._next
        self._next = min(self._count, start + count)
        return self._next - start


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
