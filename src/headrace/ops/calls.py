"""Calling a user's function on the rows of a block, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from headrace.block import Block, Column, Failure, Indices, Item, Mark, ordinal, shifted, values
from headrace.execute.context import Context
from headrace.execute.stream import Pending, Pulled, Source, Stream
from headrace.plan.node import Node
from headrace.ragged import Ragged
from headrace.trace.function import Function
from headrace.trace.graph import Graph

Outcome = tuple[bool, Any]
"""True and what the function returned, or False and the exception."""


class Calls(Node):
    """An operation that calls a user's function on each row, or, where it could be traced, on whole blocks."""

    input: Node
    function: Function

    @property
    def graph(self) -> Graph | str:
        """What the function does, or why it runs row by row, as far as the plan tells."""
        return self.function.graph(self.input.spec)

    @cached_property
    def traced(self) -> bool:
        """Whether nobody can tell when, how often and on how many rows at once the function runs."""
        return isinstance(self.graph, Graph)

    @cached_property
    def pure(self) -> bool:
        return self.traced and self.input.pure

    @property
    def live(self) -> bool:  # type: ignore[override]
        return not self.traced

    @property
    def costly(self) -> bool:  # type: ignore[override]
        return not self.traced

    def remark(self) -> str | None:
        return self.function.remark(self.input.spec)

    def whole(self, block: Block) -> tuple[Graph, list[Column]] | None:
        """What the function makes of all rows at once, None where it must be called on each."""
        return self.function.columns(block, partial(outcomes, self.function.fn, keep=True))


def single(found: tuple[Graph, list[Column]] | None, kinds: str) -> np.ndarray[Any, Any] | None:
    """The results of a function as one column of numbers of these kinds, None if they are anything else."""
    if found is None or found[0].structure.kind is not None:
        return None
    (column,) = found[1]
    plain = isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in kinds
    return column if plain else None  # type: ignore[return-value]


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


def results(function: Function, block: Block, kinds: str) -> Iterator[Outcome]:
    """The function's results for each row, numbers of these kinds from the whole block at once where it is traced."""
    column = single(function.columns(block, partial(outcomes, function.fn, keep=True)), kinds)
    return outcomes(function.fn, block, keep=True) if column is None else ((True, value) for value in column)


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
    """Rows of the input through a function that makes one of each, in the puller's own thread."""

    def __init__(self, ctx: Context, node: Calls, mark: Mark, apply: Callable[[Block], list[Item]]) -> None:
        self._input: Source = ctx.open(node.input, mark, any_order=True)
        self._apply = apply
        self._unseen = node.traced
        self._pending = Pending()

    def pull(self, want: int) -> Pulled:
        while not self._pending:
            item = self._input.pull(want)
            if not isinstance(item, Block):
                return item
            self._pending.add(self._apply(item))
        return self._pending.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        if not (replay or self._unseen):
            return super().skip(count)
        done = self._pending.drop(count)
        return done + self._input.skip(count - done, replay=replay)
