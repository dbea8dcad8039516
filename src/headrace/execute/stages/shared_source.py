"""Share one source between threads if only one of them may read it at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Dealer(Generic[T]):
    """Let the first thread fetch for itself and for the threads that arrive meanwhile.

    Items are given away in order and the fetching thread keeps the last one: no item waits while more are fetched, and
    no thread is woken between two fetches.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._dealt: deque[T] = deque()
        self._waiting = 0
        self._fetching = False

    def take(self, fetch: Callable[[bool], T | None], seconds: float = -1) -> T | None:
        """Return the next item, or None if there is none within `seconds`.

        `fetch` is the same for all threads; its argument says whether it may block, and it returns None at the end. A
        thread with a time limit has other work to do, so it fetches only for itself.
        """
        wait = seconds < 0
        with self._changed:
            while self._fetching and not self._dealt:
                self._waiting += 1
                told = self._changed.wait(None if wait else seconds)
                self._waiting -= 1
                if not told and not self._dealt:
                    return None
            if self._dealt:
                return self._dealt.popleft()
            self._fetching = True
        try:
            while (found := fetch(wait)) is not None:
                with self._changed:
                    if not wait or self._waiting <= len(self._dealt):
                        return found
                    self._dealt.append(found)
                    self._changed.notify()
            return None
        finally:
            with self._changed:
                self._fetching = False
                self._changed.notify_all()
