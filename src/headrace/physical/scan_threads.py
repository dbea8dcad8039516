"""How many workers a scan uses: few at first, more while these are well used."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from time import perf_counter_ns, thread_time_ns

from headrace.execute.pool import ScanPolicy

if sys.platform == "linux":
    from resource import RUSAGE_THREAD, getrusage

CUTS_PER_THREAD = 2
"""A decision takes about this many cuts of each worker."""
PER_ROWS = 1000
"""The time of one thread is kept for this many rows."""
PASSES_BEFORE_RETRY = 4
"""After this many serial passes, and after each doubling of them, threads are tried again: data and machines change."""
EVIDENCE = ("cpu", "elapsed", "rows")
"""What is kept of the work of the last cuts from one pass to the next."""
MAX_SLOWDOWN = 1.5
"""Rows that take more than this many times the CPU time of the first ones are different, not slowed down by threads."""


@dataclass
class Work:
    """What some rows of a source took: CPU time, elapsed time, and the bytes that came out.

    `disturbed` says that it waited for a disk or for a CPU that other processes kept busy. Then the difference between
    CPU time and elapsed time says nothing about the other workers.
    """

    cpu: int = 0
    elapsed: int = 0
    nbytes: int = 0
    rows: int = 0
    disturbed: bool = False

    def add(self, other: Work) -> None:
        """Add the work of another cut."""
        self.cpu += other.cpu
        self.elapsed += other.cpu if other.disturbed else other.elapsed
        self.rows += other.rows


class Watch:
    """Measures a piece of work of the current thread."""

    __slots__ = ("_cpu", "_started", "_usage")

    def __init__(self) -> None:
        self._usage = _disturbances()
        self._cpu = thread_time_ns()
        self._started = perf_counter_ns()

    @property
    def nanoseconds(self) -> int:
        """How much time has passed."""
        return perf_counter_ns() - self._started

    def add_to(self, work: Work) -> None:
        """Add what passed since the watch was made."""
        work.elapsed += perf_counter_ns() - self._started
        work.cpu += thread_time_ns() - self._cpu
        work.disturbed = work.disturbed or _disturbances() != self._usage


def _disturbances() -> tuple[int, int]:
    """Return how often this thread read from a disk and lost its CPU to another thread so far."""
    if sys.platform != "linux":
        return 0, 0
    usage = getrusage(RUSAGE_THREAD)
    return usage.ru_inblock, usage.ru_nivcsw


@dataclass
class ScanThreads:
    """The number of workers of the scans of a stage.

    Threads share more than CPUs: the GIL, the caches that hold Python's objects, and the memory's bandwidth. Beyond
    some number each worker waits for the others, or makes them slower. So a scan begins with few workers and doubles
    them as long as they spend their time with work that one thread would have to do as well. If all of them together
    do no more than one thread did, the rest of the pass is read by the consumer's thread.

    What was found is kept in `found`, from which the next pass of the dataset begins.
    """

    policy: ScanPolicy
    limit: int
    found: MutableMapping[str, int]
    key: str
    width: int = 0
    serial: bool = False
    """Whether one thread does as much."""
    _alone: Work = field(default_factory=Work)
    _together: Work = field(default_factory=Work)
    _cuts: int = 0

    def __post_init__(self) -> None:
        known = self.found.get(self.key)
        self.width = min(self.limit, max(known or 0, self.policy.initial_threads))
        self._alone.cpu = self.found.get(f"{self.key}/alone", 0)
        self._alone.rows = PER_ROWS if self._alone.cpu else 0
        for name in EVIDENCE:
            setattr(self._together, name, self.found.get(f"{self.key}/{name}", 0))
        self._cuts = self.found.get(f"{self.key}/cuts", 0)
        if known == 0:
            passes = self.found[f"{self.key}/serial"] = self.found.get(f"{self.key}/serial", 0) + 1
            self.serial = passes < PASSES_BEFORE_RETRY or passes & (passes - 1) != 0

    @property
    def was_parallel(self) -> bool:
        """Whether threads helped in an earlier pass."""
        return bool(self.found.get(self.key)) and not self.serial

    def begin(self, alone: Work) -> None:
        """Note what the consumer's thread did alone before the workers began."""
        if alone.rows:
            self._alone = alone
            self.found[f"{self.key}/alone"] = alone.cpu * PER_ROWS // alone.rows
        self.found.setdefault(self.key, self.width)

    def learn(self, work: Work) -> None:
        """Learn what a cut took, and choose the number of workers."""
        self._together.add(work)
        self._cuts += 1
        if self.serial or self._cuts < CUTS_PER_THREAD * self.width or not self._together.elapsed:
            self._keep_evidence()
            return
        useful = self._useful()
        if useful >= self.policy.enough_use and self.width < self.limit:
            self.width = min(self.limit, 2 * self.width)
        elif self._together.cpu < self.policy.evidence_nanoseconds:
            self._keep_evidence()  # the first cuts are small, and threads have just been started
            return
        elif useful * self.width < self.policy.min_gain:
            self.width, self.serial = 0, True
        self.found[self.key] = self.width
        self._together, self._cuts = Work(), 0
        self._keep_evidence()

    def _keep_evidence(self) -> None:
        """Keep what was measured since the last decision: a short pass may end before there is enough for one."""
        for name in EVIDENCE:
            self.found[f"{self.key}/{name}"] = getattr(self._together, name)
        self.found[f"{self.key}/cuts"] = self._cuts

    def _useful(self) -> float:
        """Return the share of the workers' time that went into what one thread would have to do, too."""
        together, alone = self._together, self._alone
        cpu = float(together.cpu)
        if alone.rows and together.rows:
            cpu = min(cpu, max(together.rows * alone.cpu / alone.rows, cpu / MAX_SLOWDOWN))
        return cpu / together.elapsed
