"""Which rows of each split a trainer keeps, as far ahead as can be predicted: workers send no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.columns import Indices
from headrace.execute.stream import Wanted
from headrace.plan.cardinality import ENDLESS

MAX_PLANNED_STRETCHES = 1 << 14
"""How many stretches of turns are planned ahead; after them splits are requested again."""


class Stretch(NamedTuple):
    """Regular turns: rows of a split from `row` on have the numbers from `number` on, `step` more for every turn."""

    row: int
    number: int
    step: int


class SplitShare:
    """Which rows of one split are wanted. `origin` is the number of its first row between trainer and worker."""

    def __init__(self, wanted: Wanted, block_length: int, stretches: Sequence[Stretch], origin: int = 0) -> None:
        self._wanted = wanted
        self._block = block_length
        self._stretches = np.array(stretches, np.int64).reshape(-1, 3)
        self._origin = origin

    def named_from(self, origin: int) -> SplitShare:
        """Return the same, of rows that are counted from another number."""
        return SplitShare(self._wanted, self._block, [Stretch(*row) for row in self._stretches.tolist()], origin)

    def numbers(self, first: int, rows: int) -> Indices:
        """Return the numbers that these rows are expected to have among the rows of all splits; -1 if none."""
        local = np.arange(first - self._origin, first - self._origin + rows)
        which = np.searchsorted(self._stretches[:, 0], local, side="right") - 1
        if not len(self._stretches):
            return np.full(rows, -1)
        row, number, step = self._stretches[which].T
        turns, within = np.divmod(local - row, self._block)
        return np.where(which < 0, -1, number + turns * step + within)

    def kept(self, first: int, rows: int) -> Indices:
        """Return which of these rows are wanted."""
        return np.flatnonzero(self._wanted.mask(self.numbers(first, rows)))

    def gap(self, first: int, most: int) -> int:
        """Return how many rows, up to `most`, come before the next wanted one."""
        kept = self.kept(first, most)
        return int(kept[0]) if len(kept) else most

    def run(self, first: int, most: int) -> int:
        """Return how many rows, up to `most`, are wanted in a row."""
        kept = self.kept(first, most)
        return int(np.argmin(np.append(kept == np.arange(len(kept)), False)))


@dataclass
class _Slot:
    split: int
    row: int
    left: int


class TurnsAhead(NamedTuple):
    """Interleaved splits at some position: `live` says which split a slot holds, and its next row.

    `lengths` are the rows of each split, if known; `upcoming` is the split that is begun next.
    """

    cycle_length: int
    block_length: int
    splits: int
    lengths: Sequence[int] | None
    turn: int = 0
    given: int = 0
    live: tuple[tuple[int, int, int], ...] = ()
    upcoming: int = 0

    def expected(self, number: int) -> dict[int, list[Stretch]]:
        """Return the stretches of each split, by its number; the next row of all has this `number`."""
        slots: list[_Slot | None] = [None] * self.cycle_length
        for index, split, row in self.live:
            slots[index] = _Slot(split, row, self._length(split) - row)
        found: dict[int, list[Stretch]] = {}
        turn, given, upcoming, block, noted = self.turn, self.given, self.upcoming, self.block_length, 0
        idle = 0
        while noted < MAX_PLANNED_STRETCHES and idle <= self.cycle_length:
            around = [slot for i in range(self.cycle_length) if (slot := slots[(turn + i) % self.cycle_length])]
            if given == 0 and (len(around) == self.cycle_length or upcoming >= self.splits):
                rounds = min((slot.left // block for slot in around), default=0)
                step = len(around) * block
                for place, slot in enumerate(around) if rounds else ():
                    found.setdefault(slot.split, []).append(Stretch(slot.row, number + place * block, step))
                    slot.row, slot.left, noted = slot.row + rounds * block, slot.left - rounds * block, noted + 1
                if rounds > ENDLESS // 2 // block:
                    return found
                number += rounds * step
            here = slots[turn]
            if here is None and upcoming < self.splits:
                slots[turn] = here = _Slot(upcoming, 0, self._length(upcoming))
                upcoming += 1
            if here is None:
                idle, turn, given = idle + 1, (turn + 1) % self.cycle_length, 0
                continue
            idle = 0
            rows = min(here.left, block - given)
            if rows:
                found.setdefault(here.split, []).append(Stretch(here.row, number, block))
                here.row, here.left, noted = here.row + rows, here.left - rows, noted + 1
                number, given = number + rows, given + rows
            if given < block and here.left == 0:
                slots[turn] = None
            turn, given = (turn + 1) % self.cycle_length, 0
        return found

    def _length(self, split: int) -> int:
        return ENDLESS if self.lengths is None else self.lengths[split]
