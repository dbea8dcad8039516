"""How long a thread was runnable but had no CPU, which is not sleep, whatever the clock says."""

from __future__ import annotations

import threading
from time import perf_counter_ns

from headrace import _native

EVERY_NANOSECONDS = 20_000_000
"""How often each thread asks the operating system at most."""


class RunDelay(threading.local):
    """The run delay of this thread. Only Linux reports it."""

    def __init__(self) -> None:
        self._asked = 0
        self._total = _native.run_delay()

    def since_last(self) -> int:
        """Return the nanoseconds since the last call; 0 if that was very recent."""
        now = perf_counter_ns()
        if now - self._asked < EVERY_NANOSECONDS:
            return 0
        self._asked = now
        before, self._total = self._total, _native.run_delay()
        return max(0, self._total - before)


RUN_DELAY = RunDelay()
