"""Work that makes rows one by one, each of which may be had as soon as it is made."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median_low
from time import perf_counter_ns
from typing import Any, Protocol, runtime_checkable

from headrace.block import Block, Item


@runtime_checkable
class RowWork(Protocol):
    """What a stage does to rows that it takes on in runs."""

    def __call__(self, item: Item) -> list[Item]:
        """What becomes of an item, all at once."""
        ...

    def begin(self, block: Block) -> list[Item] | Iterator[Any]:
        """What becomes of a block: its items, where they can be had at once, else something for each row in turn."""
        ...

    def place(self, block: Block, start: int, made: list[Any]) -> list[Item]:
        """Items of what was made of the rows from `start` on."""
        ...


class RowsInTheMaking:
    """The rows of a block that a thread makes in turn, while another takes those that are made.

    Who takes, and who ends it, holds the channel's lock; the thread that makes them appends without it.
    """

    def __init__(self, work: RowWork, block: Block) -> None:
        self._work = work
        self._block = block
        self._made: list[Any] = []
        self._times: list[int] = []
        self._taken = 0
        self._ended = False

    def add(self, made: Any, nanoseconds: int) -> None:
        """One more row is made, and took so long."""
        self._times.append(nanoseconds)
        self._made.append(made)

    def take(self) -> list[Item]:
        """What is made and not taken yet, while it is in the making."""
        if self._ended:
            return []
        made = self._made[self._taken :]
        start, self._taken = self._taken, self._taken + len(made)
        return self._work.place(self._block, start, made) if made else []

    def has_rows(self) -> bool:
        """Whether there is something to take."""
        return not self._ended and len(self._made) > self._taken

    def end(self) -> int:
        """No more is to be taken from here on; how many rows were."""
        self._ended = True
        return self._taken

    def rest(self) -> list[Item]:
        """What is left, once it has ended."""
        made = self._made[self._taken :]
        return self._work.place(self._block, self._taken, made) if made else []

    def nanoseconds(self) -> int:
        """How long the rows take, without the time that a few of them waited for a processor or Python's lock."""
        return median_low(self._times) * len(self._times) if self._times else 0


def timed(rows: Iterator[Any]) -> Iterator[tuple[Any, int]]:
    """What is made in turn, and how long each took."""
    while True:
        started = perf_counter_ns()
        made = next(rows, rows)
        if made is rows:
            return
        yield made, perf_counter_ns() - started
