"""How long a thread could have run and had no processor, which is no sleep, whatever the clock says."""

from __future__ import annotations

import threading
from pathlib import Path
from time import perf_counter_ns

SCHEDULED = Path("/proc/thread-self/schedstat")
"""Nanoseconds on a processor, and of waiting for one, of the thread that reads it."""

EVERY_NANOSECONDS = 20_000_000
"""The system is asked this often at most, by each thread."""


class RunDelay(threading.local):
    """What the system says of this thread, as far as it does: Linux alone tells."""

    def __init__(self) -> None:
        self._asked = 0
        self._total = _total()

    def since_last(self) -> int:
        """Nanoseconds since it was last asked; none where that was just now."""
        now = perf_counter_ns()
        if now - self._asked < EVERY_NANOSECONDS:
            return 0
        self._asked = now
        before, self._total = self._total, _total()
        return max(0, self._total - before)


def _total() -> int:
    try:
        return int(SCHEDULED.read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


RUN_DELAY = RunDelay()
