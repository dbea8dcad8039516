"""The ids that a categorical column makes of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.feature_column.raw import Ints, Raw
from headrace.ragged import Ragged


@dataclass(frozen=True, eq=False)
class RowIds:
    """The ids of some rows one after another: so many a row as `shape` says, or cut at `splits`.

    `missing` marks what stands for nothing. An id of -1 that is not marked is a value that no table knows: it counts
    in a cross, and nowhere else. `dense` says whether TensorFlow would have a dense tensor here.
    """

    values: Ints
    rows: int
    shape: tuple[int, ...] = ()
    splits: Ints | None = None
    missing: NDArray[np.bool_] | None = None
    weights: NDArray[np.float32] | None = None

    @classmethod
    def like(cls, raw: Raw, values: Ints, missing: NDArray[np.bool_] | None) -> RowIds:
        """Ids laid out as a raw feature is."""
        return cls(values, raw.rows, raw.shape, raw.splits, missing)

    @property
    def offsets(self) -> Ints:
        """Where the ids of each row begin."""
        if self.splits is not None:
            return self.splits
        return np.arange(self.rows + 1) * math.prod(self.shape)

    @property
    def known(self) -> Ints:
        """The ids, -1 for what is missing."""
        return self.values if self.missing is None else np.where(self.missing, -1, self.values)

    def column(self) -> Any:
        """As users see it: dense with -1 for what is missing, or Ragged."""
        return self._laid(self.known)

    def weight_column(self) -> Any:
        """The weights, laid out as the ids are."""
        assert self.weights is not None
        return self._laid(self.weights)

    def _laid(self, values: NDArray[Any]) -> Any:
        if self.splits is not None:
            return Ragged._of(values, self.splits)
        return values.reshape(self.rows, *self.shape)

    def present(self) -> tuple[Ints, Ints]:
        """The ids that are not missing, and where those of each row begin."""
        if self.missing is None:
            return self.values, self.offsets
        there = ~self.missing
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(there)])
        return self.values[there], counts[self.offsets]
