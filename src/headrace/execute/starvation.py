"""Whether the consumer waits for data: how long it waited, how long it computed, and what to change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

logger = logging.getLogger("headrace")

STARVED = 0.1
"""The share of waiting above which a consumer is called starved …"""
LOOK_SECONDS = 5.0
"""… over this long, which is long enough to be no hiccup."""


class Meter:
    """The time a consumer spends waiting for data and computing with them, counted where blocks are handed over.

    The first wait, in which files are opened and buffers filled, counts by itself. With `watch`, a consumer that waits
    for more than a tenth of its time gets one line in the log.
    """

    def __init__(self, *, watch: bool = False) -> None:
        self._watch = watch
        self._first = self._waited = self._computed = 0
        self._asked = self._left = 0
        self._looked = (0, 0)

    def begin_wait(self) -> None:
        """The consumer wants data."""
        self._asked = now = perf_counter_ns()
        if self._left:
            self._computed += now - self._left

    def end_wait(self, stats: Callable[[], dict[str, Any]]) -> None:
        """The consumer has them."""
        self._left = now = perf_counter_ns()
        if not self._first:
            self._first = now - self._asked
            return
        self.add(now - self._asked, 0, stats)

    def add(self, waited: int, computed: int, stats: Callable[[], dict[str, Any]]) -> None:
        """Count nanoseconds, and look at the last seconds once they are over."""
        self._waited += waited
        self._computed += computed
        if self._watch:
            self._look(stats)

    def _look(self, stats: Callable[[], dict[str, Any]]) -> None:
        waited, computed = self._waited - self._looked[0], self._computed - self._looked[1]
        if waited + computed < LOOK_SECONDS * 1e9:
            return
        self._looked = (self._waited, self._computed)
        share = waited / (waited + computed)
        if share > STARVED:
            self._watch = False
            logger.warning(complaint(share, stats()["stages"]))

    def report(self) -> dict[str, float]:
        """Seconds, and the share of waiting in them."""
        total = self._waited + self._computed
        return {
            "first_s": self._first / 1e9,
            "waited_s": self._waited / 1e9,
            "computed_s": self._computed / 1e9,
            "share": self._waited / total if total else 0.0,
        }


def complaint(share: float, stages: list[dict[str, Any]]) -> str:
    """One line for the log: how much was waited, for which stage, and what to change."""
    slowest = max(stages, key=lambda s: float(s["busy_s"]), default=None)
    if slowest is None:
        return f"the consumer waits for data {share:.0%} of the time"
    ahead = any(s["waiting_s"] > 0 for s in stages)
    return (
        f"the consumer waits for data {share:.0%} of the time; the slowest stage is {slowest['stage']} "
        f"({slowest['busy_s']:.1f} s of work): {slowest['remedy'] if ahead or share > HOPELESS else PREFETCH}"
    )


HOPELESS = 0.9
"""The share of waiting above which there is too little computing to hide work behind."""
PREFETCH = "end the pipeline with .prefetch(hr.AUTOTUNE), so that data are made while the consumer computes"
