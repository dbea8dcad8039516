"""Open files that several readers use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A resource with a count of its users, freed by the last. The one that makes it is the first user."""

    def __init__(self, value: T, close: Callable[[], None]) -> None:
        self.value = value
        self._close = close
        self._users = 1
        self._lock = threading.Lock()

    def retain(self) -> Shared[T]:
        """Add a user. It calls `release` once."""
        with self._lock:
            self._users += 1
        return self

    def release(self) -> None:
        """Remove a user."""
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self._close()
