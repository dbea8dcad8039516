"""A shuffle whose buffer holds row numbers: for inputs whose rows are found by number."""

from __future__ import annotations

import numpy as np

from headrace import _native
from headrace.execute.context import Context
from headrace.execute.stream import END, Made, Stream
from headrace.plan.node import Node


class NumberShuffleStream(Stream):
    """Numbers are drawn in the kernel and rows fetched once. A place is a step: what the slots hold follows from it."""

    def __init__(self, ctx: Context, rows: Node, key: int, capacity: int) -> None:
        self._ctx = ctx
        self._rows = rows
        self._law = (key, capacity, max(-1, int(rows.cardinality)))
        self._slots: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
        self._hole = self._used = 0
        self._t = 0

    def _seek(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """What the slots hold before step t."""
        _, capacity, total = self._law
        slots = np.empty(capacity if total < 0 else min(capacity, total), np.int64)
        self._used = _native.shuffle_held(*self._law, self._t, slots)
        empty = np.flatnonzero(slots[: self._used] < 0)
        self._hole = int(empty[0]) if len(empty) else 0
        return slots

    def pull(self, want: int) -> Made:
        total = self._law[2]
        count = want if total < 0 else min(want, total - self._t)
        if count == 0:
            return END
        if self._slots is None:
            self._slots = self._seek()
        numbers = np.empty(count, np.int64)
        run = _native.shuffle_run(*self._law, self._t, self._slots, self._hole, self._used, numbers)
        self._hole, self._used = run
        self._t += count
        return self._ctx.fetch_items(self._rows, numbers)

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        total = self._law[2]
        steps = count if total < 0 else min(count, total - self._t)
        if steps:
            self._t += steps
            self._slots = None
        return steps
