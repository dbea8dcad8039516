"""How much of the time threads of this process hold the GIL, as another thread notices it."""

from __future__ import annotations

import threading
from time import perf_counter_ns
from types import TracebackType
from typing import Self

from headrace import _native

INTERVAL_SECONDS = 0.003
LATE_NANOSECONDS = 1_000_000
"""A thread that wakes up later than this, and had a processor, waited for the GIL: the timer alone is not so late."""


class GilSampler:
    """A thread that wakes up again and again; the share of times in which it then waited for the GIL.

    Time in which the thread had no processor does not count, so a busy machine is not taken for a busy GIL. Short holds
    between two wake-ups are not seen.
    """

    def __init__(self, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._interval = interval_seconds
        self._stop = threading.Event()
        self._samples = self._late = 0
        self._thread = threading.Thread(target=self._sample, name="headrace-gil-sampler", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join()

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more samples; does not wait for the thread."""
        self._stop.set()

    @property
    def share(self) -> float | None:
        """The share of samples that waited for the GIL; None if there are too few."""
        return self._late / self._samples if self._samples >= MIN_SAMPLES else None

    def _sample(self) -> None:
        while True:
            began, delayed = perf_counter_ns(), _native.run_delay()
            if self._stop.wait(self._interval):
                return
            late = perf_counter_ns() - began - int(self._interval * 1e9) - (_native.run_delay() - delayed)
            self._samples += 1
            self._late += late > LATE_NANOSECONDS


MIN_SAMPLES = 10
"""Fewer say nothing."""
