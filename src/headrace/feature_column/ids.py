"""The ids that a categorical column makes of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Array
from headrace.feature_column.raw import Ints, Raw


@dataclass(frozen=True, eq=False)
class RowIds:
    """The concatenated ids of some rows: a fixed number per row given by `shape`, or cut at `splits`.

    `missing` marks absent ids. An id of -1 that is not marked is a value that no table knows: it counts in a cross, and
    nowhere else. `dense` says whether TensorFlow would have a dense tensor here.
    """

    values: Ints
    rows: int
    shape: tuple[int, ...] = ()
    splits: Ints | None = None
    missing: NDArray[np.bool_] | None = None
    weights: NDArray[np.float32] | None = None

    @classmethod
    def like(cls, raw: Raw, values: Ints, missing: NDArray[np.bool_] | None) -> RowIds:
        """Return ids laid out as a raw feature is."""
        return cls(values, raw.rows, raw.shape, raw.splits, missing)

    @property
    def offsets(self) -> Ints:
        """Return where the ids of each row begin."""
        if self.splits is not None:
            return self.splits
        return np.arange(self.rows + 1) * math.prod(self.shape)

    @property
    def known(self) -> Ints:
        """The ids, -1 for what is missing."""
        return self.values if self.missing is None else np.where(self.missing, -1, self.values)

    def column(self) -> Column:
        """Return the ids for users: dense with -1 for missing ones, or Ragged."""
        return self._laid(self.known)

    def weight_column(self) -> Column:
        """Return the weights, laid out as the ids are."""
        assert self.weights is not None
        return self._laid(self.weights)

    def _laid(self, values: Array) -> Column:
        if self.splits is not None:
            return Ragged._of(values, self.splits)
        return values.reshape(self.rows, *self.shape)

    def present(self) -> tuple[Ints, Ints]:
        """Return the ids that are not missing, and where those of each row begin."""
        if self.missing is None:
            return self.values, self.offsets
        there = ~self.missing
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(there)])
        return self.values[there], counts[self.offsets]
