"""Calling a user's function on the rows of a block, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from headrace.block import Block, Column, Failure, Indices, Item, Mark, ordinal, shifted, values
from headrace.execute.context import Context
from headrace.execute.stream import Pending, Pulled, Source, Stream
from headrace.plan.node import Node
from headrace.ragged import Ragged

Outcome = tuple[bool, Any]
"""True and what the function returned, or False and the exception."""


def private_elements(block: Block, *, keep: bool = False) -> Iterator[Any]:
    """The elements, with arrays that a function may write to; copies, if the block is to `keep` its own."""
    return block.structure.rows([_private(c, keep) for c in block.columns], block.rows)


def arguments(block: Block, *, keep: bool = False) -> Iterator[tuple[Any, ...]]:
    """What the function gets for each row."""
    rows = private_elements(block, keep=keep)
    return rows if block.structure.unpacks else ((row,) for row in rows)


def _private(column: Column, keep: bool) -> Iterator[Any]:
    shared = column.values if isinstance(column, Ragged) else column
    if isinstance(shared, np.ndarray) and shared.ndim == 1 and shared is column:
        return values(column)
    if isinstance(shared, np.ndarray) and shared.flags.writeable and not keep:
        return values(column)
    return (_own(row, keep) for row in values(column))


def _own(value: Any, keep: bool) -> Any:
    if isinstance(value, np.ndarray) and (keep or not value.flags.writeable):
        return value.copy()
    return value


def outcomes(fn: Callable[..., Any], block: Block, *, keep: bool = False) -> Iterator[Outcome]:
    """The function called on each row. An exception belongs to its row and stops nothing."""
    for args in arguments(block, keep=keep):
        try:
            result = fn(*args)
        except Exception as error:
            yield False, error
        else:
            yield True, result


def with_failures(
    node: Node,
    block: Block,
    results: list[Outcome],
    good: Callable[[int, int], list[Item]],
    numbers: Sequence[int] | Indices | None = None,
) -> list[Item]:
    """Items for the rows of `block`: `good(start, stop)` for the runs that went well, failures in between.

    `numbers` are the ordinals of the rows, where they do not count up from the block's mark.
    """
    items: list[Item] = []
    first = ordinal(block.mark)
    start = 0
    for i, (fine, value) in enumerate(results):
        if not fine:
            if start < i:
                items += good(start, i)
            error = node.error(value, first + i if numbers is None else int(numbers[i]))
            items.append(Failure(error, shifted(block.mark, i)))
            start = i + 1
    if start < block.rows:
        items += good(start, block.rows)
    return items


class CallStream(Stream):
    """Rows of the input through a function from one block to items, in the puller's own thread."""

    def __init__(
        self, ctx: Context, node: Node, mark: Mark, apply: Callable[[Block], list[Item]], one_to_one: bool
    ) -> None:
        self._input: Source = ctx.open(node, mark, any_order=True)
        self._apply = apply
        self._one_to_one = one_to_one
        self._pending = Pending()

    def pull(self, want: int) -> Pulled:
        while not self._pending:
            item = self._input.pull(want)
            if not isinstance(item, Block):
                return item
            self._pending.add(self._apply(item))
        return self._pending.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        if not (replay and self._one_to_one):
            return super().skip(count)
        done = self._pending.drop(count)
        return done + self._input.skip(count - done, replay=True)
