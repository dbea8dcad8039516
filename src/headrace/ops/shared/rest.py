"""The rest of an epoch: the elements from one on, without some that were delivered early."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headrace.columns import Indices

Ranges = tuple[tuple[int, int], ...]
"""Numbers of elements, from one to before another, in order."""


class Rest:
    """The elements from `start` on that are not `done`. What is left is counted from 0."""

    def __init__(self, start: int, done: Iterable[tuple[int, int]] = ()) -> None:
        self.done: Ranges = _joined(start, done)
        self.start = start
        lengths = np.array([b - a for a, b in self.done], np.int64)
        self._passed = np.concatenate([[0], np.cumsum(lengths)])
        starts = np.array([a for a, _ in self.done], np.int64)
        self._gaps = starts - start - self._passed[:-1]  # before which of those left each finished one comes

    def numbers(self, left: Indices) -> Indices:
        """Return the numbers of the elements that are left, by their places among these."""
        if not self.done:
            return self.start + left
        made: Indices = self.start + left + self._passed[np.searchsorted(self._gaps, left, side="right")]
        return made

    def places(self, numbers: Indices) -> Indices:
        """Return the places of these elements among those that are left; -1 of one that is not."""
        left = numbers - self.start
        if self.done:
            starts, stops = np.array(self.done, np.int64).T
            before = np.searchsorted(starts, numbers, side="right")
            inside = (before > 0) & (numbers < stops[before - 1])
            left = np.where(inside, -1, left - self._passed[before])
        return np.maximum(left, -1)

    def ranges(self, first: int, stop: int) -> Ranges:
        """Return the elements at the places `first` to before `stop` among those left."""
        inner = self._gaps[(self._gaps > first) & (self._gaps < stop)].tolist()
        cuts = sorted({first, stop, *inner}) if first < stop else []
        begins = self.numbers(np.array(cuts[:-1], np.int64)).tolist()
        return tuple((a, a + cuts[i + 1] - cuts[i]) for i, a in enumerate(begins))

    def after(self, count: int) -> Rest:
        """Return what is left once `count` more are delivered."""
        number = int(self.numbers(np.array([count], np.int64))[0])
        return Rest(number, [(a, b) for a, b in self.done if a > number])

    def same(self, other: Rest) -> bool:
        """Return whether the same elements are left."""
        return (self.start, self.done) == (other.start, other.done)

    def count(self, total: int) -> int:
        """Return how many of `total` elements are left."""
        return max(0, total - self.start) - sum(max(0, min(b, total) - a) for a, b in self.done)


def _joined(start: int, ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ranges in order, merged."""
    made: list[tuple[int, int]] = []
    for a, b in sorted(ranges):
        first = max(a, start)
        if made and first <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], b))
        elif first < b:
            made.append((first, b))
    return tuple(made)
