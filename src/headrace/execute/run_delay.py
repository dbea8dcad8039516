"""How long a thread could have run and had no processor, which is no sleep, whatever the clock says."""

from __future__ import annotations

import threading
from time import perf_counter_ns

from headrace import _native

EVERY_NANOSECONDS = 20_000_000
"""The system is asked this often at most, by each thread."""


class RunDelay(threading.local):
    """What the system says of this thread, as far as it does: Linux alone tells."""

    def __init__(self) -> None:
        self._asked = 0
        self._total = _native.run_delay()

    def since_last(self) -> int:
        """Nanoseconds since it was last asked; none where that was just now."""
        now = perf_counter_ns()
        if now - self._asked < EVERY_NANOSECONDS:
            return 0
        self._asked = now
        before, self._total = self._total, _native.run_delay()
        return max(0, self._total - before)


RUN_DELAY = RunDelay()
