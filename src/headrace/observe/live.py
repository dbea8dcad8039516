"""The iterators of this process, and their statistics as one value."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from headrace.core.types import JsonObject

if TYPE_CHECKING:
    from headrace.iterator import Iterator

_live: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def _after_fork() -> None:
    """In the child of a fork no thread holds the lock."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def register(it: Iterator) -> None:
    """Show an iterator in exports for as long as it is referenced."""
    with _lock:
        _live.add(it)


def live_iterators() -> list[Iterator]:
    """The iterators that are held, the oldest first."""
    with _lock:
        found = list(_live)
    return sorted(found, key=lambda it: it._serial)


def snapshot(it: Iterator) -> JsonObject:
    """What an iterator has done so far, as plain values that JSON can hold. Any thread may ask."""
    stats = it.stats()
    return {
        "pid": os.getpid(),
        "pass": it._serial,
        "time": time.time(),
        "plan": repr(it),
        "epoch": stats.get("epoch", it._course.epoch),
        "delivered": stats.get("delivered", it._delivered),
        "stages": [dict(stage) for stage in stats["stages"]],
        "starvation": dict(stats["starvation"]),
        "first": dict(stats["first"]),
        "memory": dict(stats["memory"]),
        "store": dict(stats.get("store", {})),
        "tuning": {name: str(value) for name, value in it.tuning()["chosen"].items()},
    }
