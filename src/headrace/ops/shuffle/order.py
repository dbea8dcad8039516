"""The order of row numbers in a shuffle: a function of its key alone, so that a position is a number."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headrace import _native
from headrace.columns import Indices
from headrace.core.keys import ROOT, Seed
from headrace.execute.context import Context
from headrace.plan.cardinality import ENDLESS, Cardinality

MAX_TABLE_ROWS = 1 << 16
"""Up to this many rows the whole order is computed at once; beyond, the kernel needs no table."""


class Drawing(Protocol):
    """A node that draws an order."""

    @property
    def seed(self) -> Seed: ...
    @property
    def reshuffle(self) -> bool: ...


def draw_key(node: Drawing, ctx: Context) -> int:
    """Return what the kernels draw with."""
    return node.seed.key(ctx.path if node.reshuffle else ROOT)


class BufferOrder:
    """The numbers that a buffer of `capacity` returns. Its contents before a step follow from the step."""

    def __init__(self, key: int, capacity: int, count: Cardinality) -> None:
        self._law = (key, capacity, max(-1, int(count)))
        self.count: int = int(count) if count.known else ENDLESS
        self._slots: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
        self._hole = self._used = self._step = 0

    def __call__(self, start: int, stop: int) -> Indices:
        """Return those of steps `start` to `stop`."""
        if self._slots is None or start != self._step:
            self._slots = self._seek(start)
        numbers = np.empty(stop - start, np.int64)
        run = _native.shuffle_run(*self._law, start, self._slots, self._hole, self._used, numbers)
        self._hole, self._used = run
        self._step = stop
        return numbers

    def _seek(self, step: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return what the slots hold before a step."""
        _, capacity, total = self._law
        slots = np.empty(capacity if total < 0 else min(capacity, total), np.int64)
        self._used = _native.shuffle_held(*self._law, step, slots)
        empty = np.flatnonzero(slots[: self._used] < 0)
        self._hole = int(empty[0]) if len(empty) else 0
        return slots


class UniformOrder:
    """All numbers below `count`, every order as likely as any other."""

    def __init__(self, key: int, count: int) -> None:
        self._key = key
        self.count = count
        self._table = None if count > MAX_TABLE_ROWS else numbers_at(key, count, np.arange(count))

    def __call__(self, start: int, stop: int) -> Indices:
        """Return those in places `start` to `stop`."""
        if self._table is None:
            return numbers_at(self._key, self.count, np.arange(start, stop))
        return self._table[start:stop]


def numbers_at(key: int, count: int, places: Indices) -> Indices:
    """Return the numbers that a uniform order has in these places."""
    out = np.empty(len(places), np.int64)
    _native.permute(key, count, np.ascontiguousarray(places), out)
    return out
