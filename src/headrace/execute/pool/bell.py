"""A way to wait outside a lock, which an interrupt cannot break."""

from __future__ import annotations

import threading


class Bell:
    """Wake one thread that waits for a change of what a lock guards.

    The waiting thread looks at the state under the lock, releases the lock, waits here, and looks again. A ring that
    comes before the wait is kept, so none is missed. `threading.Condition` waits inside the lock: Ctrl-C while it
    acquires the lock again leaves it to its caller to release a lock that another thread holds.
    """

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """End a wait, this or the next. The caller holds the lock that guards the state."""
        if self._silent.locked():
            self._silent.release()

    def wait(self) -> None:
        """Wait for a ring. The caller does not hold the lock, and looks at the state again whatever comes of this."""
        self._silent.acquire()


def start_thread(thread: threading.Thread) -> None:
    """Start a thread. An interrupt in here is raised as it is.

    `Thread.start` waits for the thread by a condition, which may turn an interrupt into an error of its lock.
    """
    try:
        thread.start()
    except RuntimeError as error:
        interrupt = error.__context__
        if isinstance(interrupt, BaseException) and not isinstance(interrupt, Exception):
            raise interrupt from None
        raise
