"""Map a remote file into memory: cached blocks are mapped from disk, others are copied to their offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from headrace import _native


class MappedObject:
    """The blocks of an object that were loaded and not released.

    `put(parts, start)` maps one to its offset, and maybe some after it, and returns the starts of all of them.
    `go_on(stop)` is called when bytes up to that offset will be read.
    """

    def __init__(
        self,
        size: int,
        block: int,
        put: Callable[[_native.MappedParts, int], Iterable[int]],
        go_on: Callable[[int], None],
    ) -> None:
        self._parts = _native.MappedParts(size)
        self._block = block
        self._put = put
        self._go_on = go_on
        self._there: set[int] = set()
        self.data: NDArray[np.uint8] = self._parts.data

    @property
    def intact(self) -> bool:
        return self._parts.intact

    def load(self, start: int, stop: int) -> None:
        for at in range(start - start % self._block, stop, self._block):
            if at not in self._there:
                self._there.update(self._put(self._parts, at))
        self._go_on(stop)
        self._parts.guard()

    def release(self, start: int, stop: int) -> None:
        for at in [each for each in self._there if start - self._block < each and each + self._block <= stop]:
            self._parts.take_away(at)
            self._there.discard(at)
