"""What a pass may use: the CPUs and half the free memory of this container, unless the options say otherwise."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

from headrace import _native
from headrace.core.owned_file import read_bytes

CGROUPS = Path("/sys/fs/cgroup")
MIN_BUDGET_BYTES = 64 << 20


@cache
def cpus() -> int:
    """Return how many CPUs this process may keep busy: its affinity mask, limited by the container's quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, period = _numbers("cpu.max") or _first_version() or (0, 0)
    return max(1, min(allowed, -(-quota // period))) if quota > 0 and period > 0 else allowed


def free_memory() -> int:
    """Return how many bytes this container can still allocate: up to its limit, or up to the machine's memory."""
    machine = _machine_free()
    limit = (_numbers("memory.max") or _numbers("memory/memory.limit_in_bytes") or [0])[0]
    used = (_numbers("memory.current") or _numbers("memory/memory.usage_in_bytes") or [0])[0]
    return min(machine, max(0, limit - used)) if 0 < limit < 1 << 60 else machine


def _first_version() -> list[int] | None:
    """Return the quota of cgroups version 1, which uses two files."""
    quota, period = _numbers("cpu/cpu.cfs_quota_us"), _numbers("cpu/cpu.cfs_period_us")
    return [quota[0], period[0]] if quota and period else None


def _numbers(name: str) -> list[int] | None:
    """Return the numbers in a cgroup file, or None if the file does not exist or sets no limit."""
    try:
        words = read_bytes(CGROUPS / name).split()
        return [int(word) for word in words]
    except (OSError, ValueError):
        return None


def _machine_free() -> int:
    try:
        lines = read_bytes("/proc/meminfo").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


POOLED_FRACTION = 8
"""The pool keeps at most 1/POOLED_FRACTION of the memory for reuse."""


@cache
def pool_bytes() -> int:
    """Return how much freed memory is kept for new arrays, unless the options set a memory limit."""
    return min(1 << 30, free_memory() // POOLED_FRACTION)


@cache
def keep_heap() -> bool:
    """Let the C library keep some freed memory, once per process: new pages for every batch cost more than its copy.

    Do nothing if the user configured malloc, or set HEADRACE_KEEP_HEAP=0.
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return not chosen and os.environ.get("HEADRACE_KEEP_HEAP") != "0" and _native.keep_heap()


class MemoryBudget:
    """The bytes that all stages of one pass may hold ready together.

    Every stage may always hold one piece of work, so that stages cannot deadlock waiting for each other's memory.
    """

    def __init__(self, limit: int | None) -> None:
        self._given = limit
        self._used = 0
        self._aside: dict[str, int] = {}
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[], None]] = {}
        self.refusals: int = 0
        """How often a stage requested bytes that did not fit, and had to wait."""

    @cached_property
    def limit(self) -> int:
        """Return the limit in bytes. Free memory is looked up when the first stage needs some."""
        return max(MIN_BUDGET_BYTES, free_memory() // 2) if self._given is None else self._given

    def set_aside(self, stage: str) -> int:
        """Return half of what is left, for a buffer that should be as large as possible.

        The stages share the other half.
        """
        with self._lock:
            if stage not in self._aside:
                self._aside[stage] = self.limit // 2
                self.limit -= self._aside[stage]
            return self._aside[stage]

    @property
    def used(self) -> int:
        """Return the bytes that are held or reserved."""
        return self._used

    def take(self, nbytes: int) -> None:
        """Add `nbytes`, which may be negative, and wake the stages that wait for memory."""
        with self._lock:
            self._used += nbytes
            waiting = list(self._waiting.values()) if nbytes < 0 and self._waiting else ()
        for wake in waiting:
            wake()

    def has_room(self, nbytes: int, who: int, wake: Callable[[], None]) -> bool:
        """Return whether `nbytes` more fit. If not, call `wake` whenever some are released, until they do."""
        with self._lock:
            if self._used + nbytes <= self.limit:
                self._waiting.pop(who, None)
                return True
            self.refusals += 1
            self._waiting[who] = wake
            return False

    def forget(self, who: int) -> None:
        """Remove a waiting stage."""
        with self._lock:
            self._waiting.pop(who, None)
