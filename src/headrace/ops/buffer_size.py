"""How large a buffer may be that is to be as large as memory allows."""

from __future__ import annotations

from math import prod

from headrace.execute.stream import END, Pending, Pulled, Source
from headrace.plan.marks import Mark
from headrace.plan.spec import Spec, TensorSpec

OVERHEAD = 64
"""What a row in a buffer takes beside its values: ids, numbers, objects."""
LOOKED_AT = 64
"""How many of the first rows tell how large the others are …"""
LOOKED_AT_SHARE = 16
"""… or as many as take this part of the buffer: a few rows may be all that fit."""


def row_bytes(spec: Spec) -> int | None:
    """What a row takes, where the spec tells."""
    sizes = [_leaf_bytes(leaf) for leaf in spec.leaves] if spec.known else [None]
    known = [size for size in sizes if size is not None]
    return OVERHEAD + sum(known) if len(known) == len(sizes) else None


def _leaf_bytes(leaf: object) -> int | None:
    if not isinstance(leaf, TensorSpec) or leaf.dtype is None or leaf.dtype.kind not in "biufcmM":
        return None
    if leaf.shape is None or None in leaf.shape:
        return None
    return leaf.dtype.itemsize * prod(size or 0 for size in leaf.shape)


class Peeked:
    """An input whose first rows have been looked at, and come all the same."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pending = Pending()

    def row_bytes(self, room: int) -> int:
        """What a row takes, by the first ones; one at a time, so that blocks make no difference."""
        rows = nbytes = 0
        while rows < LOOKED_AT and nbytes * LOOKED_AT_SHARE < room:
            item = self._source.pull(1)
            if item is END:
                break
            self._pending.add([item])
            rows += 1
            nbytes += item.nbytes
        return OVERHEAD + nbytes // max(1, rows)

    @property
    def ordinal(self) -> int:
        """Where the rows stand that come next."""
        return self._pending.mark().ordinal if self._pending else self._source.ordinal

    def pull(self, want: int) -> Pulled:
        return self._pending.pull(want) if self._pending else self._source.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = self._pending.drop(count)
        return done + self._source.skip(count - done, replay=replay)

    def mark(self) -> Mark:
        """Of the row that comes next."""
        return self._pending.mark() if self._pending else self._source.mark()

    def close(self) -> None:
        self._source.close()
