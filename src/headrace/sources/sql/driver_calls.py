"""Calls of drivers that may block forever and cannot be canceled: each on its own thread, abandoned after a timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic
from typing import Any, Generic, TypeVar

from headrace.core.types import LibraryObject

T = TypeVar("T")

WAKE_SECONDS = 0.5
"""How often a waiting thread wakes up: an interrupt that comes just before the wait does not wake it."""


class DriverThread:
    """A thread that runs calls one after another, until it is ended: each reuses what the last one allocated."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[DriverCall[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="headrace-database", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()

    def add(self, call: DriverCall[Any]) -> None:
        """Queue a call after those before it."""
        self._calls.put(call)

    def end(self, *, wait: bool) -> None:
        """End the thread after its queued calls, and `wait` for that if it has none."""
        self._calls.put(None)
        if wait:
            self._thread.join()


def call_in_time(work: Callable[[], T], close: Callable[[], None], seconds: float) -> T:
    """Return the result of `work` if it comes in time.

    If it fails, `close` frees what it used; after a timeout, when it ends.
    """
    try:
        return DriverCall(work, lambda _: close()).wait(seconds)
    except TimeoutError:  # the call has it
        raise
    except BaseException:
        close()
        raise


class DriverCall(Generic[T]):
    """The result of `work`, if it comes in time; else `undo` gets it later, or None, and frees what was in use."""

    def __init__(
        self,
        work: Callable[[], T],
        undo: Callable[[T | None], None] = lambda _: None,
        thread: DriverThread | None = None,
    ) -> None:
        self._work, self._undo = work, undo
        self._lock = threading.Lock()
        self._ended, self._over = threading.Event(), threading.Event()  # the caller stopped waiting; the call is over
        self._left = False
        self._result: LibraryObject = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if thread is not None:
            thread.add(self)
        else:
            self._thread = threading.Thread(target=self.run, name="headrace-database", daemon=True)
            self._thread.start()

    def run(self) -> None:
        """Make the call."""
        try:
            self._result = self._work()
        except BaseException as error:  # for the waiting caller
            self._error = error
        with self._lock:
            self._over.set()
            left = self._left
        self._ended.set()
        if left:
            self._undo(self._result)

    def wait(self, seconds: float) -> T:
        """Return the result, or raise its exception; raise TimeoutError if there is neither in time."""
        deadline = monotonic() + seconds
        while not self._ended.wait(min(WAKE_SECONDS, max(0.0, deadline - monotonic()))) and monotonic() < deadline:
            pass
        with self._lock:
            self._left = not self._over.is_set()
        if self._left:
            raise TimeoutError(f"no answer within {seconds:g} s")
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result

    def leave(self, seconds: float) -> bool:
        """Abandon the result. Return whether the call is over within `seconds`, else `undo` is called when it is."""
        self._over.wait(seconds)
        with self._lock:
            self._left = not self._over.is_set()
        return not self._left

    def drop(self) -> None:
        """Abandon the result: `undo` gets it, now or when there is one."""
        if self.leave(0):
            self._undo(self._result)

    def give_up(self) -> None:
        """End the wait of the caller."""
        self._ended.set()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, in whatever way, but no longer than that."""
        if self._thread is not None:
            self._thread.join(seconds)
