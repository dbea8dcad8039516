"""Measure whether the consumer waits for data: how long it waited and computed, and what to change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns

from headrace.core.types import JsonObject

logger: logging.Logger = logging.getLogger("headrace")

STARVED_WAIT_SHARE = 0.1
"""A consumer that waits for more than this share of its time is called starved …"""
CHECK_SECONDS = 5.0
"""… if it does so over this period, which is too long for a hiccup."""


class Meter:
    """The time a consumer spends waiting for data and computing with them, measured when blocks are handed over.

    The first wait, in which files are opened and buffers filled, is counted separately. With `watch`, a consumer that
    waits for more than a tenth of its time gets one line in the log.
    """

    def __init__(self, *, watch: bool = False) -> None:
        self._watch = watch
        self._first = self._waited = self._computed = 0
        self._asked = self._left = 0
        self._looked = (0, 0)
        self._opening: dict[str, float] | None = None

    def opened(self, prepared: int, opened: int, *, restored: bool) -> None:
        """Note how many nanoseconds of the first wait went into preparing the plan, and into opening it."""
        if self._opening is None:
            opening = "restore_s" if restored else "open_s"
            self._opening = {"prepare_s": prepared / 1e9, "open_s": 0.0, "restore_s": 0.0, opening: opened / 1e9}

    def first_wait(self) -> dict[str, float]:
        """Return the parts of the first wait in seconds.

        To prepare is to trace functions and to optimise the plan; to open, to list and open files; to restore, to open
        them at the position of a state; to fill, to make the first rows, with the fill of shuffles.
        """
        parts = self._opening or {"prepare_s": 0.0, "open_s": 0.0, "restore_s": 0.0}
        return {**parts, "fill_s": max(0.0, self._first / 1e9 - sum(parts.values()))}

    def begin_wait(self) -> None:
        """Note that the consumer waits for data."""
        self._asked = now = perf_counter_ns()
        if self._left:
            self._computed += now - self._left

    def end_wait(self, stats: Callable[[], JsonObject]) -> None:
        """Note that the consumer has data."""
        self._left = now = perf_counter_ns()
        if not self._first:
            self._first = now - self._asked
            return
        self.add(now - self._asked, 0, stats)

    def add(self, waited: int, computed: int, stats: Callable[[], JsonObject]) -> None:
        """Add nanoseconds, and check the last period when it is over."""
        self._waited += waited
        self._computed += computed
        if self._watch:
            self._look(stats)

    def _look(self, stats: Callable[[], JsonObject]) -> None:
        waited, computed = self._waited - self._looked[0], self._computed - self._looked[1]
        if waited + computed < CHECK_SECONDS * 1e9:
            return
        self._looked = (self._waited, self._computed)
        share = waited / (waited + computed)
        if share > STARVED_WAIT_SHARE:
            self._watch = False
            stages = stats()["stages"]
            if _is_new(stages):
                logger.warning(complaint(share, stages))

    def report(self) -> dict[str, float]:
        """Return seconds, and the share of waiting in them."""
        total = self._waited + self._computed
        return {
            "first_s": self._first / 1e9,
            "waited_s": self._waited / 1e9,
            "computed_s": self._computed / 1e9,
            "share": self._waited / total if total else 0.0,
        }


_said: set[tuple[str, ...]] = set()


def _is_new(stages: list[JsonObject]) -> bool:
    """Whether no advice was given yet for a pipeline with these stages: it is given once, not in every epoch."""
    labels = tuple(str(stage["stage"]) for stage in stages)
    if labels in _said:
        return False
    _said.add(labels)
    return True


def complaint(share: float, stages: list[JsonObject]) -> str:
    """Return one line for the log: the share of waiting, the slowest stage, and what to change."""
    slowest = max(stages, key=lambda s: float(s["busy_s"]), default=None)
    if slowest is None:
        return f"the consumer waits for data {share:.0%} of the time"
    ahead = any(s["waiting_s"] > 0 for s in stages)
    remedy = slowest["remedy"] if ahead or share > COMPUTE_BOUND_WAIT_SHARE else PREFETCH
    return (
        f"the consumer waits for data {share:.0%} of the time; the slowest stage is {slowest['stage']} "
        f"({slowest['busy_s']:.1f} s of work): {remedy}"
    )


COMPUTE_BOUND_WAIT_SHARE = 0.9
"""Above this share of waiting there is too little computation to hide work behind."""
PREFETCH = "end the pipeline with .prefetch(hr.AUTOTUNE), so that data are made while the consumer computes"
