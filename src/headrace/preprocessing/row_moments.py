"""Mean and variance of each index of the last axis, or of all numbers if rows differ in its length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Varied
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Array
from headrace.feature_column.learners import Arrays, Learner, Moments


class RowMoments(Learner):
    """Moments of rows.

    Which kind they are depends on all rows, not on block boundaries: both are summed, until rows differ. If the length
    is `known` beforehand, one is enough.
    """

    def __init__(self, known: int | None = None) -> None:
        self._known = known
        self._width = known  # of all rows so far; -1 once they differ
        self._all, self._places = Moments(), Moments()

    def take(self, column: Column, values: Array) -> None:
        """Add the rows of a column, and their concatenated values."""
        if self._known is None:
            self._all.take(values)
        width = last_axis(column)
        if self._width is None:
            self._width = width
        if width != self._width or width < 1:
            self._width, self._places = -1, Moments()
        elif len(values):
            self._places.take(values.reshape(-1, width))

    def moments(self) -> tuple[Any, Any] | None:
        """Mean and variance, None if there was no number, at some place."""
        return (self._all if self._width in (None, -1) else self._places).moments()

    def arrays(self) -> Arrays:
        """Both, and the length."""
        made = {"width": np.array(-2 if self._width is None else self._width)}
        for name, learner in (("all", self._all), ("places", self._places)):
            made |= {f"{name} {key}": array for key, array in learner.arrays().items()}
        return made

    def restore(self, arrays: Arrays) -> None:
        """Both, and the length."""
        self._width = None if arrays["width"] == -2 else int(arrays["width"])
        for name, learner in (("all", self._all), ("places", self._places)):
            share = {key.removeprefix(f"{name} "): each for key, each in arrays.items() if key.startswith(f"{name} ")}
            learner.restore(share)


def last_axis(column: Column) -> int:
    """Return how long the last axis of the rows is: 0 if they have none, -1 if they differ."""
    if isinstance(column, Varied):
        return _one_of(column.shapes[:, -1])
    while isinstance(column, Ragged):
        inner = column.values
        if isinstance(inner, np.ndarray) and inner.ndim == 1:
            return _one_of(column.row_lengths())
        column = inner
    return int(column.shape[-1]) if column.ndim > 1 else 0


def _one_of(lengths: NDArray[np.int64]) -> int:
    return int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else -1
