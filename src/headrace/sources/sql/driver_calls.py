"""Calls of drivers that may wait for ever and cannot be told to stop: each on a thread of its own, given up in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class DriverCall(Generic[T]):
    """What `work` gives, if it does in time; else `undo` gets it later, or None, and lets go of what was in use."""

    def __init__(self, work: Callable[[], T], undo: Callable[[T | None], None] = lambda _: None) -> None:
        self._work, self._undo = work, undo
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._over = self._left = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-database", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # for whoever waits
            self._error = error
        with self._lock:
            self._over = True
            left = self._left
        self._ended.set()
        if left:
            self._undo(self._result)

    def wait(self, seconds: float) -> T:
        """The result, or what was raised; a TimeoutError where there is neither in time."""
        self._ended.wait(seconds)
        with self._lock:
            self._left = not self._over
        if self._left:
            raise TimeoutError(f"no answer within {seconds:g} s")
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result

    def give_up(self) -> None:
        """Have whoever waits for it wait no more."""
        self._ended.set()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, in whatever way, but no longer than that."""
        self._thread.join(seconds)
