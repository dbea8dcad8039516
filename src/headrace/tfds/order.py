"""In which order TFDS reads the rows of several files: sixteen files in turn, sixteen rows of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.columns import Indices

CYCLE = 16
BLOCK = 16


class Run(NamedTuple):
    """Consecutive rows of a file, counted over all files."""

    first: int
    rows: int


class TurnsOrder:
    """Map position i of the reading order to the number of a row, without a table of all rows.

    The order consists of stretches in which the same files are interleaved: each is some whole rounds, or one turn that
    is cut short. There are a few for each file, and within one a position is found by arithmetic.
    """

    def __init__(self, runs: Sequence[Run], cycle: int = CYCLE, block: int = BLOCK) -> None:
        self._block = block
        self._firsts: list[list[int]] = []
        starts: list[int] = [0]
        for firsts, rows in _stretches(runs, cycle, block):
            self._firsts.append(firsts)
            starts.append(starts[-1] + rows)
        self.count: int = starts.pop()
        self._starts = np.array(starts if self._firsts else [0], np.int64)
        widths = [len(firsts) for firsts in self._firsts]
        self._widths = np.array(widths or [1], np.int64)
        self._begin = np.cumsum([0, *widths])[: max(1, len(widths))]
        self._flat = np.array([first for firsts in self._firsts for first in firsts] or [0], np.int64)

    def __call__(self, places: Indices) -> Indices:
        """Return the numbers of the rows at these places."""
        stretch = np.searchsorted(self._starts, places, side="right") - 1
        within = places - self._starts[stretch]
        turn, row = np.divmod(within, self._block)
        around, slot = np.divmod(turn, self._widths[stretch])
        found: Indices = self._flat[self._begin[stretch] + slot] + around * self._block + row
        return found


def _stretches(runs: Sequence[Run], cycle: int, block: int) -> list[tuple[list[int], int]]:
    """Return the files of each stretch by their next rows, and how many rows it has."""
    made: list[tuple[list[int], int]] = []
    waiting = list(reversed(runs))
    slots: list[Run | None] = [None] * cycle
    at = 0
    while waiting or any(slot is not None for slot in slots):
        live = [slot for slot in slots if slot is not None]
        if at == 0 and (len(live) == len(slots) or not waiting) and all(slot.rows > block for slot in live):
            rounds = min((slot.rows - 1) // block for slot in live)
            made.append(([slot.first for slot in live], rounds * block * len(live)))
            slots = [Run(slot.first + rounds * block, slot.rows - rounds * block) for slot in live]
        at = _turn(made, slots, at, waiting, block)
    return made


def _turn(made: list[tuple[list[int], int]], slots: list[Run | None], at: int, waiting: list[Run], block: int) -> int:
    """Take one slot's turn; a file that ended is followed by the next when its slot comes round again."""
    slot = slots[at]
    if slot is None:
        slot = slots[at] = waiting.pop() if waiting else None
    if slot is not None:
        taken = min(block, slot.rows)
        if taken:
            made.append(([slot.first], taken))
        slots[at] = Run(slot.first + taken, slot.rows - taken) if taken == block else None
    return (at + 1) % len(slots)


class FileOrder:
    """The rows of some runs one after another."""

    def __init__(self, runs: Sequence[Run]) -> None:
        ends = np.cumsum([0, *(run.rows for run in runs)], dtype=np.int64)
        self.count: int = int(ends[-1])
        self._starts = ends[:-1] if runs else ends
        self._firsts = np.array([run.first for run in runs] or [0], np.int64)

    def __call__(self, places: Indices) -> Indices:
        """Return the numbers of the rows at these places."""
        run = np.searchsorted(self._starts, places, side="right") - 1
        found: Indices = self._firsts[run] + places - self._starts[run]
        return found
