"""How many rows the lanes of a merge have ready."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.columns.lazy_block import held_bytes
from headrace.execute.row_buffer import RowBuffer

MAX_MERGED_BYTES = 4 << 20
"""How many bytes of ready rows are merged at a time, even if fewer are requested: a round costs more than its rows."""
MAX_BOXED_BYTES = 8 << 20
"""The same for records that are read when they are merged: several threads share one call."""
MAX_LANES_AT_ONCE = 64


class ReadyRows:
    """How many rows each lane has ready, from which turns are planned. Shares the list `lanes` with its caller, which
    `boxes` them when they are merged.
    """

    def __init__(self, lanes: list[RowBuffer], *, boxes: bool) -> None:
        self._lanes = lanes
        self._boxes = boxes
        self._structure = next((head.structure for rows in lanes if (head := rows.head()) is not None), None)
        self._counts = [0] * len(lanes)
        self._alike = [False] * len(lanes)
        self._rows = self._bytes = 0
        for number in range(len(lanes)):
            self._look(number)

    def _look(self, number: int) -> None:
        rows = self._lanes[number]
        head = rows.head()
        if head is not None:
            if self._structure is None:
                self._structure = head.structure
            self._rows += head.rows
            self._bytes += head.nbytes if self._boxes else held_bytes(head)
        self._counts[number], self._alike[number] = rows.ready_rows(self._structure)

    def add(self, rows: RowBuffer) -> None:
        """Count another lane, too."""
        self._lanes.append(rows)
        self._counts.append(0)
        self._alike.append(False)
        self._look(len(self._lanes) - 1)

    def read_more(self, number: int) -> bool:
        """Read more rows of a lane; False if what it has must be taken first."""
        if not self._alike[number] or not self._lanes[number].read_more():
            return False
        self._look(number)
        return True

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return for each lane how many rows are ready, and whether these are its last."""
        ended = [rows.ended and alike for rows, alike in zip(self._lanes, self._alike, strict=True)]
        return np.array(self._counts, np.int64), np.array(ended, np.uint8)

    def most_rows(self, want: int) -> int:
        """Return how many rows to merge, if they are ready."""
        most = MAX_BOXED_BYTES if self._boxes else MAX_MERGED_BYTES
        fitting = most * self._rows // max(1, self._bytes)
        return max(want, fitting - fitting % want)

    def lanes_for(self, want: int) -> int:
        """Return how many more lanes to open for `want` rows: one, unless all open ones have ended."""
        rows = sum(self._counts)
        if not rows or not all(lane.ended for lane in self._lanes):
            return 1
        return max(1, min(MAX_LANES_AT_ONCE, want * len(self._lanes) // rows))
