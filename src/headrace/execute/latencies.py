"""How long single calls of a stage took: while a timeline is recorded, inputs keep a histogram and the slowest rows."""

from __future__ import annotations

import heapq
import math
import threading
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING

from headrace.core.types import JsonObject
from headrace.execute.inputs import Input
from headrace.execute.origin import Origin
from headrace.execute.stages.row_work import ROW_TIMES
from headrace.execute.stream import END, Pulled

if TYPE_CHECKING:
    from headrace.columns.block import Item
    from headrace.execute.context import Context
    from headrace.execute.inputs import Opened
    from headrace.plan.marks import Mark, Marks
    from headrace.plan.node import Node

SLOWEST = 10
"""How many of the slowest calls of a stage are kept."""
STEPS_PER_OCTAVE = 4
"""Buckets of the histogram for each doubling: a quantile is at most 19 % too large."""


class Latencies:
    """The calls of one stage by duration. Any thread may add to it.

    A call makes a block of rows, or one row if the stage calls a user's function row by row.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._slowest: list[tuple[int, int, int, Origin]] = []
        self._numbers = count()  # the heap never compares origins
        self._lock = threading.Lock()

    def add(self, nanoseconds: int, rows: int, origin: Origin) -> None:
        """Count a call that made `rows` rows, the first of which came from `origin`."""
        bucket = math.ceil(STEPS_PER_OCTAVE * math.log2(max(1, nanoseconds)))
        with self._lock:
            self._counts[bucket] = self._counts.get(bucket, 0) + 1
            call = (nanoseconds, next(self._numbers), rows, origin)
            if len(self._slowest) < SLOWEST:
                heapq.heappush(self._slowest, call)
            elif nanoseconds > self._slowest[0][0]:
                heapq.heapreplace(self._slowest, call)

    def report(self) -> JsonObject:
        """Return how many calls there were, and the seconds that half of them, 95 % and all did not exceed."""
        with self._lock:
            counts, slowest = dict(self._counts), list(self._slowest)
        total, most = sum(counts.values()), max((call[0] for call in slowest), default=0)
        return {
            "calls": total,
            "p50_s": min(most, _quantile(counts, total * 0.5)) / 1e9,
            "p95_s": min(most, _quantile(counts, total * 0.95)) / 1e9,
            "max_s": most / 1e9,
        }

    def slowest(self) -> list[tuple[float, int, Origin]]:
        """Return the slowest calls, the slowest first: seconds, rows, and where the first row came from."""
        with self._lock:
            return [(took / 1e9, rows, origin) for took, _, rows, origin in sorted(self._slowest, reverse=True)]


def _quantile(counts: dict[int, int], calls: float) -> float:
    """Return the upper end of the bucket in which the number of calls reaches `calls`."""
    reached = 0
    for bucket in sorted(counts):
        reached += counts[bucket]
        if reached >= calls:
            return float(2 ** (bucket / STEPS_PER_OCTAVE))
    return 0.0


class _Inside(threading.local):
    """How long the inputs took that the current pull of this thread has pulled from."""

    nanoseconds = 0


_inside = _Inside()


class ObservedInput(Input):
    """An input that keeps how long each of its calls took, without the time of its own inputs."""

    __slots__ = ("_latencies", "_node", "_stage")

    def __init__(
        self, node: Node, context: Context, marks: Marks, opened_by: Opened, latencies: Latencies, *, flush: bool
    ) -> None:
        self._latencies = latencies
        self._stage = context.stage
        self._node = node
        super().__init__(node, context, marks, opened_by, flush=flush)

    def pull(self, want: int, *, uncut: bool = False) -> Pulled:
        if self._ready:
            return super().pull(want, uncut=uncut)
        outer, _inside.nanoseconds = _inside.nanoseconds, 0
        kept, ROW_TIMES.kept = ROW_TIMES.kept, []
        started = perf_counter_ns()
        try:
            item = super().pull(want, uncut=uncut)
        finally:
            took = perf_counter_ns() - started
            own, _inside.nanoseconds = took - _inside.nanoseconds, outer + took
            calls, ROW_TIMES.kept = ROW_TIMES.kept, kept
        if item is not END and not self._stage.threaded:  # else it waited for threads, whose work counts
            self.keep(self._latencies, own, item, calls)
        return item

    def keep(self, latencies: Latencies, nanoseconds: int, item: Item, calls: list[int]) -> None:
        """Keep how long the rows of an item of this input took: each by itself, if a function was called on each."""
        if len(calls) == item.rows:
            for row, took in enumerate(calls):
                latencies.add(took, 1, self.origin(item.mark.later(row)))
        else:
            latencies.add(nanoseconds, item.rows, self.origin(item.mark))

    def origin(self, mark: Mark) -> Origin:
        """Return where the row with this mark came from."""
        return Origin(self._node, self._context, mark)

    def add_work(self, nanoseconds: int, mark: Mark, row: int) -> None:
        super().add_work(nanoseconds, mark, row)
        self._latencies.add(nanoseconds, 1, Origin(self._node.inputs[0], self._context, mark.later(row)))
