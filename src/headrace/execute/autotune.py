"""AUTOTUNE: how many calls run at a time, found while running.

A stage whose consumer waits tries twice as many. What is faster by a fair margin stays, what is not is taken back, and
the middle is tried. Processors are counted by the time that calls spend on them, so calls that sleep or read may be
many, and calls that compute no more than there are processors.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

WINDOW_NANOSECONDS = 20_000_000
GAIN = 1.08
"""How much faster more calls must be to stay."""
PATIENCE = 0.05
"""The share of the time that a consumer may wait before anything is tried."""
MOST = 256
DEEPEST = 256
REST = 8
"""How many windows pass before a stage that found its number tries again; twice as many every time."""


class Tuning(dict[str, Any]):
    """`it.tuning()`: the numbers that were chosen, by stage, and how. `ds.with_options(frozen=...)` repeats them."""

    def __str__(self) -> str:
        chosen = "\n".join(f"{stage}: {number}" for stage, number in self["chosen"].items())
        log = "\n".join(
            f"{e['seconds']:8.3f} s  {e['stage']}: {e['from']} → {e['to']}, {e['why']}" for e in self["log"]
        )
        return f"{chosen}\n{log}" if log else chosen


class Tuner:
    """The decisions of one pass."""

    def __init__(self, cpus: int, frozen: Mapping[str, Any] | None = None) -> None:
        self.cpus = cpus
        self._frozen = dict(frozen["chosen"]) if frozen else {}
        self._chosen: dict[str, int] = {}
        self._log: list[dict[str, Any]] = []
        self._started = perf_counter_ns()
        self._lock = threading.Lock()

    def frozen(self, stage: str) -> int | None:
        """The number that an earlier pass found for this stage."""
        return self._frozen.get(stage)

    def chose(self, stage: str, before: int | None, now: int, why: str) -> None:
        """Write a decision down."""
        with self._lock:
            self._chosen[stage] = now
            if before is not None:
                seconds = (perf_counter_ns() - self._started) / 1e9
                self._log.append({"seconds": seconds, "stage": stage, "from": before, "to": now, "why": why})

    def report(self) -> Tuning:
        """All decisions so far."""
        with self._lock:
            return Tuning(chosen=dict(self._chosen), log=[dict(entry) for entry in self._log])


@dataclass
class Depth:
    """How many pieces of work a prefetch keeps ready: twice as many each time that it ran dry after it was full."""

    tuner: Tuner
    stage: str
    size: int
    fixed: bool = False

    def __post_init__(self) -> None:
        self.tuner.chose(self.stage, None, self.size, "")

    def grow(self) -> int:
        """The new number."""
        before, self.size = self.size, self.size if self.fixed else min(DEEPEST, 2 * self.size)
        if self.size > before:
            self.tuner.chose(self.stage, before, self.size, "it ran dry after it had been full")
        return self.size


@dataclass
class Window:
    """What happened since the last decision."""

    started: int
    calls: int = 0
    wall: int = 0
    cpu: int = 0
    waited: int = 0


@dataclass
class Climb:
    """The number of parallel calls of one stage."""

    tuner: Tuner
    stage: str
    width: int
    most: int = MOST
    _window: Window = field(default_factory=lambda: Window(perf_counter_ns()))
    _settling: int = 0
    _before: tuple[int, float] | None = None
    _ceiling: int | None = None
    _rest: int = 0
    _patience: int = REST
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.tuner.chose(self.stage, None, self.width, "")

    def waited(self, nanoseconds: int) -> None:
        """The consumer waited so long for this stage."""
        self._window.waited += nanoseconds

    def called(self, wall: int, cpu: int) -> bool:
        """A call took so long, on the clock and on a processor. Whether the width has changed."""
        with self._lock:
            if self._settling:  # calls that began under the old number say nothing of the new one
                self._settling -= 1
                if not self._settling:
                    self._window = Window(perf_counter_ns())
                return False
            window = self._window
            window.calls += 1
            window.wall += wall
            window.cpu += cpu
            elapsed = perf_counter_ns() - window.started
            if window.calls < 3 * self.width or elapsed < WINDOW_NANOSECONDS:
                return False
            self._window = Window(perf_counter_ns())
            return self._decide(window, elapsed)

    def _decide(self, window: Window, elapsed: int) -> bool:
        rate = window.calls / elapsed * 1e9
        if self._before is not None:
            width, slower = self._before
            self._before = None
            if rate < GAIN * slower:
                self._ceiling = self.width
                return self._go(width, f"{self.width} made {rate:,.0f} calls/s, {width} made {slower:,.0f}")
        if window.waited < PATIENCE * elapsed:
            return False
        if self._rest:
            self._rest -= 1
            return False
        wanted = self._next(window)
        if wanted <= self.width:
            self._rest, self._patience, self._ceiling = self._patience, 2 * self._patience, None
            return False
        self._before = (self.width, rate)
        share = window.waited / elapsed
        return self._go(wanted, f"the consumer waited {share:.0%} of the time at {rate:,.0f} calls/s")

    def _next(self, window: Window) -> int:
        """The number to try: twice as many, or half-way to one that did not help, and no more than processors allow."""
        wanted = 2 * self.width if self._ceiling is None else (self.width + self._ceiling) // 2
        busy = max(window.cpu / max(1, window.wall), 0.01)
        return min(wanted, self.most, max(1, int(self.tuner.cpus / busy + 0.5)))

    def _go(self, width: int, why: str) -> bool:
        self.tuner.chose(self.stage, self.width, width, why)
        self._settling = max(self.width, width)
        self.width = width
        return True
