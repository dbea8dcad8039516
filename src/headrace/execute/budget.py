"""What a pass may use: the processors and half the free memory of this container, unless the options say otherwise."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

from headrace import _native

CGROUPS = Path("/sys/fs/cgroup")
LEAST_BYTES = 64 << 20


@cache
def cpus() -> int:
    """How many processors this process may keep busy: those it may run on, and what its container allows."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, period = _numbers("cpu.max") or _first_version() or (0, 0)
    return max(1, min(allowed, -(-quota // period))) if quota > 0 and period > 0 else allowed


def free_memory() -> int:
    """How many bytes this container can still take: of its limit, or of the machine."""
    machine = _machine_free()
    limit = (_numbers("memory.max") or _numbers("memory/memory.limit_in_bytes") or [0])[0]
    used = (_numbers("memory.current") or _numbers("memory/memory.usage_in_bytes") or [0])[0]
    return min(machine, max(0, limit - used)) if 0 < limit < 1 << 60 else machine


def _first_version() -> list[int] | None:
    """The quota as the first version of cgroups has it, in two files."""
    quota, period = _numbers("cpu/cpu.cfs_quota_us"), _numbers("cpu/cpu.cfs_period_us")
    return [quota[0], period[0]] if quota and period else None


def _numbers(name: str) -> list[int] | None:
    """The numbers in a file of the container's group; None where there is no such file, or it sets no limit."""
    try:
        words = (CGROUPS / name).read_text().split()
        return [int(word) for word in words]
    except (OSError, ValueError):
        return None


def _machine_free() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


POOLED = 8
"""Of the memory there is, this part may wait to be used again."""


@cache
def pool_bytes() -> int:
    """How much freed memory is kept for new arrays, unless the options say how much memory there is."""
    return min(1 << 30, free_memory() // POOLED)


@cache
def keep_heap() -> bool:
    """Have the C library keep some freed memory, once a process: new pages at every batch cost more than its copy.

    Not where the user has chosen how it works, or says HEADRACE_KEEP_HEAP=0.
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return not chosen and os.environ.get("HEADRACE_KEEP_HEAP") != "0" and _native.keep_heap()


class MemoryBudget:
    """The bytes that all stages of one pass may hold ready together.

    Every stage may always hold one piece of work: nobody waits for the others to give way first.
    """

    def __init__(self, limit: int | None) -> None:
        self._given = limit
        self._used = 0
        self._aside: dict[str, int] = {}
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[], None]] = {}

    @cached_property
    def limit(self) -> int:
        """How many there may be. Free memory is looked up when the first stage wants some."""
        return max(LEAST_BYTES, free_memory() // 2) if self._given is None else self._given

    def set_aside(self, stage: str) -> int:
        """Half of what is left, for a buffer that is to be as large as may be; the stages share the other half."""
        with self._lock:
            if stage not in self._aside:
                self._aside[stage] = self.limit // 2
                self.limit -= self._aside[stage]
            return self._aside[stage]

    @property
    def used(self) -> int:
        """What is held now, or about to be."""
        return self._used

    def take(self, nbytes: int) -> None:
        """Count these, which may be negative; those who wait for room hear of it."""
        with self._lock:
            self._used += nbytes
            waiting = list(self._waiting.values()) if nbytes < 0 and self._waiting else ()
        for wake in waiting:
            wake()

    def has_room(self, nbytes: int, who: int, wake: Callable[[], None]) -> bool:
        """Whether so many more fit; if not, `wake` is called whenever some are given back, until they do."""
        with self._lock:
            if self._used + nbytes <= self.limit:
                self._waiting.pop(who, None)
                return True
            self._waiting[who] = wake
            return False

    def forget(self, who: int) -> None:
        """This one waits no more."""
        with self._lock:
            self._waiting.pop(who, None)
