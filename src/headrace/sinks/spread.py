"""The distribution of numbers, independent of their order and of how they were partitioned."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.feature_column.learners import MAX_EXACT_VALUES, Arrays, InRuns, Learner, Quantiles

QUARTILES = 4
SMALLEST_EXPONENT = 1074
"""2 ** -1074 is the smallest number: all others are multiples of it."""
LOW_BITS = (1 << 27) - 1

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class ExactMoments(Learner):
    """The sums of numbers and of their squares, with all their digits."""

    def __init__(self) -> None:
        self.count: int = 0
        self.total: int = 0
        self.squares: int = 0

    def add(self, values: Floats, counts: Counts) -> None:
        """Different numbers, and how often each came: half a million in all at most, so that no sum is rounded."""
        bits = values.view(np.int64)
        exponent = (bits >> 52) & 0x7FF
        digits = (bits & ((1 << 52) - 1)) + np.where(exponent > 0, 1 << 52, 0)
        place = np.maximum(exponent, 1)
        often = counts.astype(np.float64)
        high, low = digits >> 27, digits & LOW_BITS
        signed = np.where(bits < 0, -often, often)
        self.count += int(counts.sum())
        self.total += (_sum(high, signed, place, 1) << 27) + _sum(low, signed, place, 1)
        for bits_up, product in ((54, high * high), (28, high * low), (0, low * low)):
            self.squares += _sum(product >> 27, often, place, 2) << bits_up + 27
            self.squares += _sum(product & LOW_BITS, often, place, 2) << bits_up

    def mean_and_variance(self) -> tuple[float, float] | None:
        """Both rounded once, None if there was no number."""
        if not self.count:
            return None
        whole = 1 << SMALLEST_EXPONENT
        squares = self.count * self.squares - self.total**2
        return _rounded(self.total, self.count * whole), _rounded(squares, (self.count * whole) ** 2)

    def arrays(self) -> Arrays:
        """Return the sums, as text."""
        return {"sums": np.array([hex(each) for each in (self.count, self.total, self.squares)])}

    def restore(self, arrays: Arrays) -> None:
        """Restore the sums."""
        self.count, self.total, self.squares = (int(str(each), 16) for each in arrays["sums"])

    def merge(self, arrays: Arrays) -> None:
        """Merge the sums of another."""
        count, total, squares = (int(str(each), 16) for each in arrays["sums"])
        self.count, self.total, self.squares = self.count + count, self.total + total, self.squares + squares


def _sum(parts: NDArray[np.int64], often: Floats, place: NDArray[np.int64], times: int) -> int:
    """Return the sum of parts of 27 bits, each shifted by its place, `times` over."""
    if not len(parts):
        return 0
    lowest = int(place.min())
    sums = np.bincount(place - lowest, parts * often)
    return sum(int(each) << (lowest - 1 + i) * times for i, each in enumerate(sums.tolist()) if each)


def _rounded(top: int, bottom: int) -> float:
    try:
        return float(Fraction(top, bottom))
    except OverflowError:
        return math.inf if top > 0 else -math.inf


class Spread(InRuns):
    """Mean, deviation, quartiles and a histogram of numbers; NaN and infinity are none."""

    run = MAX_EXACT_VALUES // 2

    def __init__(self) -> None:
        super().__init__()
        self.moments: ExactMoments = ExactMoments()
        self.quantiles: Quantiles = Quantiles()

    def _fold(self, rows: Floats) -> None:
        values, counts = np.unique(rows[np.isfinite(rows)], return_counts=True)
        self.moments.add(values, counts)
        self.quantiles.add(values, counts)

    def known(self) -> tuple[float, float, tuple[float, ...], Floats, Counts] | None:
        """Mean, deviation, quartiles, and the different numbers with how often each came; None if there were none."""
        if self._rows:
            self._fold(np.concatenate(self._waiting))
            self._waiting, self._rows = [], 0
        moments = self.moments.mean_and_variance()
        if moments is None:
            return None
        return moments[0], math.sqrt(moments[1]), self.quantiles.at(QUARTILES), *self.quantiles.counted()

    def arrays(self) -> Arrays:
        """Return the sums, the numbers, and what waits."""
        return {**super().arrays(), **self.moments.arrays(), **self.quantiles.arrays()}

    def restore(self, arrays: Arrays) -> None:
        """Restore a state that was returned."""
        super().restore(arrays)
        self.moments.restore(arrays)
        self.quantiles.restore({name: each for name, each in arrays.items() if name != "waiting"})

    def merge(self, arrays: Arrays) -> None:
        """Merge another one into this one."""
        self.moments.merge(arrays)
        self.quantiles.merge({name: each for name, each in arrays.items() if name != "waiting"})
        if "waiting" in arrays:
            self.take(arrays["waiting"])
