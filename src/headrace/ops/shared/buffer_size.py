"""Choose the size of a buffer that should be as large as memory allows."""

from __future__ import annotations

from math import prod

from headrace.execute.stream import END, Pending, Pulled, Source
from headrace.plan.marks import Mark
from headrace.plan.spec import Spec, TensorSpec

ROW_OVERHEAD_BYTES = 64
"""Bytes per buffered row besides its values: ids, numbers, objects."""
SAMPLED_ROWS = 64
"""How many of the first rows determine the size estimate …"""
SAMPLED_SHARE = 16
"""… or as many as fill 1/SAMPLED_SHARE of the buffer: a few rows may be all that fit."""


def row_bytes(spec: Spec) -> int | None:
    """Return the bytes of a row, if the spec determines them."""
    sizes = [_leaf_bytes(leaf) for leaf in spec.leaves] if spec.known else [None]
    known = [size for size in sizes if size is not None]
    return ROW_OVERHEAD_BYTES + sum(known) if len(known) == len(sizes) else None


def _leaf_bytes(leaf: object) -> int | None:
    if not isinstance(leaf, TensorSpec) or leaf.dtype is None or leaf.dtype.kind not in "biufcmM":
        return None
    if leaf.shape is None or None in leaf.shape:
        return None
    return leaf.dtype.itemsize * prod(size or 0 for size in leaf.shape)


class Peeked:
    """An input whose first rows have been peeked at and still come."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pending = Pending()

    def row_bytes(self, room: int) -> int:
        """Return the bytes of a row, estimated from the first rows, which are pulled one at a time."""
        rows = nbytes = 0
        while rows < SAMPLED_ROWS and nbytes * SAMPLED_SHARE < room:
            item = self._source.pull(1)
            if item is END:
                break
            self._pending.add([item])
            rows += 1
            nbytes += item.nbytes
        return ROW_OVERHEAD_BYTES + nbytes // max(1, rows)

    @property
    def ordinal(self) -> int:
        """Return the ordinal of the next row."""
        return self._pending.mark().ordinal if self._pending else self._source.ordinal

    def pull(self, want: int) -> Pulled:
        return self._pending.pull(want) if self._pending else self._source.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = self._pending.drop(count)
        return done + self._source.skip(count - done, replay=replay)

    def mark(self) -> Mark:
        """Return the mark of the next row."""
        return self._pending.mark() if self._pending else self._source.mark()

    def close(self) -> None:
        self._source.close()
