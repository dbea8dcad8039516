"""Threads that share one source, which only one of them may ask at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Dealer(Generic[T]):
    """Whoever comes first fetches, and goes on for those who come meanwhile.

    What comes out first is given away first, and whoever fetches keeps the last: nothing lies about while more is
    fetched, and from one fetch to the next nobody has to be woken up.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._dealt: deque[T] = deque()
        self._waiting = 0
        self._fetching = False

    def take(self, fetch: Callable[[bool], T | None], seconds: float = -1) -> T | None:
        """The next thing, if it may be had in so many seconds.

        `fetch`, which is the same for all, gives it, waiting or not; None where there is none. Who cannot wait for long
        has something else to do, and fetches for nobody else.
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
