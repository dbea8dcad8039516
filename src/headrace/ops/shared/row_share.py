"""Which rows of its input a process reads if rows are dealt out in turn."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Indices
from headrace.ops.shared.rest import Ranges, Rest


class RowShare:
    """Of every `together` remaining rows (from `start` on, without the `done`), `count` rows from the `first` on.

    With `leader`, also the first of all of them.
    """

    def __init__(
        self, together: int, first: int, count: int, *, start: int = 0, done: Ranges = (), leader: bool = False
    ) -> None:
        self.together = together
        self.first = first
        self.count = count
        self.start = start
        self.done = done
        self.leader = leader

    @cached_property
    def _rest(self) -> Rest:
        return Rest(self.start, self.done)

    def mask(self, ordinals: Indices) -> NDArray[np.bool_]:
        """Return for each of these rows whether it is one of them."""
        places = self._rest.places(ordinals)
        within = places % self.together
        mine = (within >= self.first) & (within < self.first + self.count)
        if self.leader:
            mine |= within == 0
        made: NDArray[np.bool_] = mine & (places >= 0)
        return made
