"""Waiting for data, as a CUDA device sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.core.frameworks import framework
from headrace.core.types import DeviceLike, JsonObject, LibraryObject
from headrace.execute.stages.starvation import Meter

TIMED_EVERY = 8
"""After the first few, one batch in this many is timed: events cost as much as a small kernel."""


class DeviceMeter(Meter):
    """Waiting as the device sees it: its stream had nothing to do between the last kernel and the next batch.

    The program's own time says little: it runs ahead of the device, and may wait for data while that is still busy.
    """

    def __init__(self, device: DeviceLike) -> None:
        super().__init__(watch=True)
        self._cuda = framework("torch", "to_torch").cuda
        self._device = device
        self._batches = 0
        self._pending: deque[tuple[Any, Any, Any]] = deque()
        self._stats: Callable[[], JsonObject] | None = None
        self._last: LibraryObject = None
        self._wanted: LibraryObject = None

    def begin_wait(self) -> None:
        """Note that the consumer has queued all its work on the last batch."""
        if self._last is not None:
            self._wanted = self._event()

    def end_wait(self, stats: Callable[[], JsonObject]) -> None:
        """Note that the batch is delivered next."""
        self._stats = stats

    def note_delivery(self) -> None:
        """Note that the consumer's stream continues with the batch."""
        self._batches += 1
        if self._last is not None:
            given = self._event()
            self._pending.append((self._last, self._wanted or given, given))
            self._last = self._wanted = None
            self._count()
        if self._batches <= 2 * TIMED_EVERY or self._batches % TIMED_EVERY == 0:
            self._last = self._event()

    def _event(self) -> LibraryObject:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def _count(self) -> None:
        while self._pending and all(event.query() for event in self._pending[0]):
            last, wanted, given = self._pending.popleft()
            assert self._stats is not None
            waited, computed = wanted.elapsed_time(given), last.elapsed_time(wanted)
            scale = 1e6 if self._batches <= 2 * TIMED_EVERY else 1e6 * TIMED_EVERY
            self.add(int(waited * scale), int(computed * scale), self._stats)

    def report(self) -> dict[str, float]:
        """Seconds on the device, of the batches it has taken up."""
        self._count()
        return super().report()
