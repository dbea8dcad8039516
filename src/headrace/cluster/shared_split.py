"""Rows of a split that a worker makes once, for all sessions that share it."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from headrace.cluster.parcels import Parcel
from headrace.cluster.runner import SPENT, Runner
from headrace.cluster.split_share import SplitShare

WINDOW_BYTES = 64 << 20
WINDOW_PARCELS = 512
"""How much of a split is kept for readers that have not requested it yet; rows are remade for those further behind."""


class NumberedParcel(NamedTuple):
    """A parcel, and the number of its first row in the split."""

    ordinal: int
    parcel: Parcel

    @property
    def stop(self) -> int:
        """Return the number of the row after it; the end of a split takes the place of a row."""
        return self.ordinal + max(self.parcel.rows, int(self.parcel.last))


class SharedSplit:
    """The latest rows of one runner. Access needs the worker's lock."""

    def __init__(self, runner: Runner, ordinal: int) -> None:
        self.runner = runner
        self.readers: set[SharedReader] = set()
        self._kept: deque[NumberedParcel] = deque()
        self._nbytes = 0
        self._first = self._next = ordinal

    def covers(self, ordinal: int, sizes: dict[str, int]) -> bool:
        """Return whether a reader that has read up to here can continue; `sizes` are those that its rows depend on."""
        known = self.runner.sizes
        return self._first <= ordinal <= self._next and all(known.get(k, size) == size for k, size in sizes.items())

    def fill(self) -> None:
        """Take over what the runner has made, and forget what is too much."""
        for parcel in self.runner.take(WINDOW_BYTES) if self.runner.has_rows else ():
            kept = NumberedParcel(self._next, parcel)
            self._kept.append(kept)
            self._next = kept.stop
            self._nbytes += parcel.nbytes
        while len(self._kept) > 1 and (self._nbytes > WINDOW_BYTES or len(self._kept) > WINDOW_PARCELS):
            old = self._kept.popleft()
            self._nbytes -= old.parcel.nbytes
            self._first = old.stop

    def after(self, ordinal: int) -> list[NumberedParcel]:
        """Return what is kept from this row on: the first may begin before it."""
        return [kept for kept in self._kept if kept.stop > ordinal]

    def leave(self, reader: SharedReader) -> None:
        """Remove a reader; without any, the runner stops."""
        self.readers.discard(reader)
        if not self.readers:
            self.runner.stop()


class SharedReader:
    """One session's position in a shared split, with the interface of a Runner."""

    def __init__(self, shared: SharedSplit, ordinal: int, share: SplitShare | None) -> None:
        self.split: int = shared.runner.split
        self.share = share
        self.ordinal: int = ordinal
        self.rows: int = 0
        self._shared = shared
        shared.readers.add(self)

    def reads(self, runner: Runner) -> bool:
        """Return whether its rows are those of this one."""
        return self._shared.runner is runner

    @property
    def has_rows(self) -> bool:
        """Return whether anything is ready."""
        self._shared.fill()
        return self._shared.covers(self.ordinal, {}) and bool(self._shared.after(self.ordinal))

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes are ready."""
        return sum(kept.parcel.nbytes for kept in self._shared.after(self.ordinal))

    def take(self, room: int, schema: object = None) -> list[Parcel]:
        """Return what is ready, like a Runner's `take`; nothing, once the reader was too far behind."""
        taken: list[Parcel] = []
        self._shared.fill()
        if not self._shared.covers(self.ordinal, {}):
            self.ordinal = SPENT
            return taken
        for kept in self._shared.after(self.ordinal):
            parcel = kept.parcel
            if taken and room <= 0:
                break
            if parcel.data is not None and schema is not None and parcel.data.schema != schema:
                break
            schema = schema if parcel.data is None else parcel.data.schema
            room -= parcel.nbytes
            self.rows += parcel.rows
            self.ordinal = SPENT if parcel.last else kept.stop
            taken.append(parcel)
        return taken

    def stop(self) -> None:
        """Read no more of it."""
        self._shared.leave(self)
