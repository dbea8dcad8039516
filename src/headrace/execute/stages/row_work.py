"""Work that makes rows one by one and hands over each row as soon as it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any, Protocol

from headrace.columns.block import Block, Item
from headrace.core.types import AnyFunction, Component, Nested


class RowWork(Protocol):
    """The work of a stage on rows that it takes in runs."""

    def __call__(self, item: Item) -> list[Item]:
        """Return the results for an item."""
        ...

    def begin(self, block: Block) -> list[Item] | Iterator[Nested]:
        """Return the items for a block if they are available at once, else an iterator with one result per row."""
        ...

    def place(self, block: Block, start: int, made: list[Component]) -> list[Item]:
        """Return items for the results of the rows from `start` on."""
        ...


class RowsInTheMaking:
    """The rows of a block that one thread makes in order while another thread takes the finished ones.

    Taking and ending need the channel's lock; the producing thread appends without it.
    """

    def __init__(self, work: RowWork, block: Block) -> None:
        self._work = work
        self._block = block
        self._made: list[Component] = []
        self._times: list[int] = []
        self._taken = 0
        self._ended = False

    def add(self, made: object, nanoseconds: int) -> None:
        """Add one finished row and how long it took."""
        self._times.append(nanoseconds)
        self._made.append(made)

    def take(self) -> list[Item]:
        """Return the finished rows that were not taken yet, while the block is pending."""
        if self._ended:
            return []
        made = self._made[self._taken :]
        start, self._taken = self._taken, self._taken + len(made)
        return self._work.place(self._block, start, made) if made else []

    def has_rows(self) -> bool:
        """Return whether there are finished rows to take."""
        return not self._ended and len(self._made) > self._taken

    def end(self) -> int:
        """Stop handing out single rows. Return how many were taken."""
        self._ended = True
        return self._taken

    def rest(self) -> list[Item]:
        """Return the remaining rows after the end."""
        made = self._made[self._taken :]
        return self._work.place(self._block, self._taken, made) if made else []

    def times(self) -> list[int]:
        """Return how long each row took, in nanoseconds."""
        return list(self._times)

    def nanoseconds(self) -> int:
        """Return how long the rows take, without outliers that waited for a CPU or the GIL."""
        times = sorted(self._times)
        return times[(len(times) - 1) // 2] * len(times) if times else 0  # the lower median of them


class RowTimes(threading.local):
    """Where calls of a user's function on this thread note how long they took; None if they are not observed."""

    kept: list[int] | None = None


ROW_TIMES = RowTimes()


def noting(fn: Callable[..., object], kept: list[int]) -> AnyFunction:
    """Return the function, noting how long each call takes in nanoseconds."""

    def call(*args: object) -> Nested:
        started = perf_counter_ns()
        try:
            return fn(*args)
        finally:
            kept.append(perf_counter_ns() - started)

    return call


def timed(rows: Iterator[object]) -> Iterator[tuple[Any, int]]:
    """Yield each result and how long it took."""
    while True:
        started = perf_counter_ns()
        made = next(rows, rows)
        if made is rows:
            return
        yield made, perf_counter_ns() - started
