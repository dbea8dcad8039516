"""AUTOTUNE: find the number of parallel calls while the pipeline runs.

A stage begins in its consumer's thread. If the consumer waits, the stage tries two threads, then keeps doubling. A
number that is faster by a fair margin stays; otherwise it is taken back and the middle is tried. If the margin was
small, or an earlier pass found the number, half as many are tried later. CPUs are counted by the CPU time of calls, so
calls that sleep or read may be many, and calls that compute are at most as many as there are CPUs. Only one stage tries
at a time, because with two the effect of each could not be told apart.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from headrace.core.types import JsonObject

WINDOW_NANOSECONDS = 20_000_000
MIN_SPEEDUP = 1.08
"""How much faster more calls must be to stay."""
CLEAR_SPEEDUP = 1.5
"""How much faster more calls must be for a later check of fewer calls to be unnecessary."""
MAX_CALLS_PER_ACTIVE_CALL = 1.5
"""How many times more calls than are active may stay if another stage is the bottleneck."""
TRIAL_NANOSECONDS = 1_000_000_000
"""How long other stages wait for a stage that tries a number. Longer calls hardly affect the others' measurements."""
SETTLE_NANOSECONDS = 100_000_000
"""How long a stage runs in its consumer's thread before anything is tried, so that a trial has time to pay off."""
HIDING_NANOSECONDS = 200_000_000
"""How long to watch a consumer whose computation could hide a stage's work."""
TOLERATED_WAIT_SHARE = 0.05
"""The share of its time that a consumer may wait before anything is tried."""
MAX_THREADS = 256
MAX_PREFETCH = 256
NO_FEWER_NANOSECONDS = 1_000_000_000
"""No stage tries fewer calls in the first second of a pass, because it would measure the start of other stages."""
YIELD_WINDOWS = 2
"""How many windows other stages get if they are the bottleneck of this one."""
PAUSE_WINDOWS = 8
"""How many windows pass before a stage that found its number tries again. Doubles every time."""


class Tuning(JsonObject):
    """The result of `it.tuning()`: the chosen numbers by stage, and why. `ds.with_options(frozen=...)` repeats them."""

    def __str__(self) -> str:
        if not self["chosen"]:
            return "nothing is tuned: no operation says AUTOTUNE, or the pass has not begun"
        chosen = "\n".join(f"{stage}: {number}" for stage, number in self["chosen"].items())
        log = "\n".join(
            f"{e['seconds']:8.3f} s  {e['stage']}: {e['from']} → {e['to']}, {e['why']}" for e in self["log"]
        )
        return f"{chosen}\n{log}" if log else chosen


class Tuner:
    """The decisions of one pass. `widths` are the numbers of threads and prefetches that the next pass begins with."""

    def __init__(
        self, cpus: int, frozen: Mapping[str, Any] | None = None, widths: dict[str, int] | None = None
    ) -> None:
        self.cpus = cpus
        self.widths: dict[str, int] = {} if widths is None else widths
        self._frozen = dict(frozen["chosen"]) if frozen else {}
        self._chosen: dict[str, int] = {}
        self._log: list[JsonObject] = []
        self.started: int = perf_counter_ns()
        self._trying: tuple[Climb, int] | None = None
        self._lock = threading.Lock()

    def try_now(self, stage: Climb) -> bool:
        """Return whether this stage may try another number: only one stage may at a time."""
        now = perf_counter_ns()
        with self._lock:
            free = self._trying is None or self._trying[0] is stage or now - self._trying[1] > TRIAL_NANOSECONDS
            if free:
                self._trying = (stage, now)
            return free

    def end_trial(self, stage: Climb) -> None:
        """Note that this stage has decided."""
        with self._lock:
            if self._trying is not None and self._trying[0] is stage:
                self._trying = None

    def found_before(self, stage: str) -> int | None:
        """Return the number that an earlier pass found for this stage."""
        return self._frozen.get(stage)

    def chose(self, stage: str, before: int | None, now: int, why: str) -> None:
        """Record a decision."""
        with self._lock:
            self._chosen[stage] = now
            if before is not None:
                seconds = (perf_counter_ns() - self.started) / 1e9
                self._log.append({"seconds": seconds, "stage": stage, "from": before, "to": now, "why": why})

    def report(self) -> Tuning:
        """Return all decisions so far."""
        with self._lock:
            return Tuning(chosen=dict(self._chosen), log=[dict(entry) for entry in self._log])


@dataclass
class Depth:
    """How many pieces of work a prefetch keeps ready. Doubles each time the prefetch runs dry after it was full.

    The next pass begins with the number that was found.
    """

    tuner: Tuner
    stage: str
    size: int
    fixed: bool = False

    def __post_init__(self) -> None:
        self.tuner.chose(self.stage, None, self.size, "")

    def grow(self) -> int:
        """Double the number and return it."""
        before, self.size = self.size, self.size if self.fixed else min(MAX_PREFETCH, 2 * self.size)
        if self.size > before:
            self.tuner.widths[self.stage] = self.size
            self.tuner.chose(self.stage, before, self.size, "it ran dry after it had been full")
        return self.size


@dataclass
class TuningWindow:
    """The measurements since the last decision."""

    started: int
    calls: int = 0
    rows: int = 0
    waited: int = 0
    worked: int = 0
    wall: int = 0
    cpu: int = 0
    delayed: int = 0

    @property
    def busy(self) -> float:
        """Return the share of their time that calls would compute if a CPU were always free."""
        return self.cpu / max(1, self.wall - self.delayed)


@dataclass
class Climb:
    """The number of threads of one stage; 0 means the consumer's thread does the work.

    A stage that only `hides` its work behind the consumer's tries nothing while the consumer does nothing but wait.
    """

    tuner: Tuner
    stage: str
    width: int = 0
    most: int = MAX_THREADS
    hides: bool = False
    least: int = 0
    _window: TuningWindow = field(default_factory=lambda: TuningWindow(perf_counter_ns()))
    _calls: int = 0
    _settling: int = 1
    _before: tuple[int, float, float] | None = None
    _ceiling: int | None = None
    _rest: int = 0
    _patience: int = PAUSE_WINDOWS
    _doubtful: bool = False
    _alone: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._doubtful = self.width > self.least
        self.tuner.chose(self.stage, None, self.width, "")

    def looks(self) -> bool:
        """Return whether to time the next call. If there are many, a sample is enough."""
        self._calls += 1
        return self._calls % (1 + self.width // 4) == 0

    def learn_work(self, rows: int, wall: int, cpu: int, delayed: int = 0) -> None:
        """Record that a call made `rows` rows in `wall` and `cpu` nanoseconds. Any thread may call this.

        `delayed` is how long the calling thread was runnable but had no CPU since the last report.
        """
        with self._lock:
            window = self._window
            window.worked += rows
            window.wall += wall
            window.cpu += cpu
            window.delayed += min(delayed, max(0, wall - cpu))

    def learn_delivery(self, calls: int, rows: int, waited: int) -> bool:
        """Record that the consumer received the rows of `calls` calls after waiting `waited` ns.

        Return whether the width changed.
        """
        if self._settling > 0:  # a start-up, or results of an old width
            self._settling -= calls
            if self._settling <= 0:
                self._window = TuningWindow(perf_counter_ns())
            return False
        window = self._window
        window.calls += calls
        window.rows += rows
        window.waited += waited
        elapsed = perf_counter_ns() - window.started
        least = HIDING_NANOSECONDS if self.hides else WINDOW_NANOSECONDS if self.width else SETTLE_NANOSECONDS
        if window.calls < 3 * self.width or elapsed < least:
            return False
        self._window = TuningWindow(perf_counter_ns())
        return self._decide(window, elapsed)

    def _decide(self, window: TuningWindow, elapsed: int) -> bool:
        if self.width < 2 and window.wall:
            self._alone = window.busy
        rate = window.rows / elapsed * 1e9
        power = max(1, self.width) * window.worked / max(1, window.wall) * 1e9
        if self._before is not None:
            width, slower, weaker = self._before
            self._before = None
            self.tuner.end_trial(self)
            more = self.width > width
            stays = rate >= (MIN_SPEEDUP if more else 1) * slower
            self.tuner.widths[self.stage] = self.width if stays else width
            if stays or not more:
                self._doubtful = stays and not (more and rate >= CLEAR_SPEEDUP * slower)
            made = f"{self.width} made {rate:,.0f} rows/s, {width} made {slower:,.0f}"
            if not more:
                self._rested()
                return False if stays else self._go(width, made)
            if not stays:
                self._ceiling = self.width
                if power > MIN_SPEEDUP * weaker > 0:  # another stage is the bottleneck, and may climb
                    at_work = MAX_CALLS_PER_ACTIVE_CALL * self.width * rate / max(rate, power)
                    self._doubtful = at_work > width
                    width = max(width, min(self.width, int(at_work + 0.5)))
                    self._ceiling, self._rest = None, YIELD_WINDOWS
                return self._go(width, made)
            self._patience = PAUSE_WINDOWS
        share = window.waited / elapsed
        if share < TOLERATED_WAIT_SHARE or (self.hides and min(share, 1 - share) < 1 - 1 / MIN_SPEEDUP):
            return False
        if self._rest:
            self._rest -= 1
            return False
        wanted = self._next(window)
        why = f"the consumer waited {share:.0%} of the time at {rate:,.0f} rows/s"
        early = perf_counter_ns() - self.tuner.started < NO_FEWER_NANOSECONDS
        if wanted <= self.width and self._doubtful and not early:
            wanted, why = max(self.least, self.width // 2), f"fewer might do, at {rate:,.0f} rows/s"
        if wanted == self.width or (wanted < self.width and not self._doubtful):
            self._rested()
            return False
        if not self.tuner.try_now(self):
            return False
        self._before = (self.width, rate, power)
        return self._go(wanted, why)

    def _rested(self) -> None:
        """Try again later, and later every time."""
        self._rest, self._patience, self._ceiling = self._patience, 2 * self._patience, None

    def _next(self, window: TuningWindow) -> int:
        """Return the number to try: double, or half-way to one that did not help, within what the CPUs allow."""
        wanted = max(2, 2 * self.width) if self._ceiling is None else (self.width + self._ceiling) // 2
        # Calls that do not sleep when alone do not sleep beside others: they wait for the GIL.
        busy = max(window.busy, self._alone, 0.01)
        return min(wanted, self.most, max(1, int(self.tuner.cpus / busy + 0.5)))

    def _go(self, width: int, why: str) -> bool:
        if width == self.width:
            return False
        self.tuner.chose(self.stage, self.width, width, why)
        self._settling = 2 * max(self.width, width)
        self.width = width
        return True
