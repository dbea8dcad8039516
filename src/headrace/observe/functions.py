"""Timing of users' functions while a pipeline is observed: each call by wall clock and by CPU."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter_ns, thread_time_ns
from typing import Any

from headrace.execute.stages.run_delay import RunDelay
from headrace.ops.random_map import RandomMap
from headrace.ops.shared.calls import Calls
from headrace.plan.node import Node, function_name, rewrite
from headrace.trace.function import Function

SLOWEST = 10
"""How many of the slowest calls are kept."""


_delay = RunDelay()


class _Tally:
    """The calls of one thread; only that thread writes."""

    def __init__(self) -> None:
        self.calls = self.wall = self.cpu = self.delay = 0
        self.slowest: list[tuple[int, int]] = []


class Timed:
    """A user's function that keeps the time of each call. It is never traced: it is for functions that are not."""

    def __init__(self, fn: Callable[..., Any], node: Node) -> None:
        self._fn = fn
        self.node = node
        self.__name__ = function_name(fn)
        self._tallies: dict[int, _Tally] = {}

    def __call__(self, *args: Any) -> Any:
        cpu, wall = thread_time_ns(), perf_counter_ns()
        try:
            return self._fn(*args)
        finally:
            self._add(perf_counter_ns() - wall, thread_time_ns() - cpu)

    def _add(self, wall: int, cpu: int) -> None:
        thread = threading.get_ident()
        tally = self._tallies.get(thread)
        if tally is None:
            tally = self._tallies[thread] = _Tally()
        tally.calls += 1
        tally.wall += wall
        tally.cpu += cpu
        tally.delay += _delay.since_last()
        if len(tally.slowest) < SLOWEST:
            heapq.heappush(tally.slowest, (wall, tally.calls))
        elif wall > tally.slowest[0][0]:
            heapq.heapreplace(tally.slowest, (wall, tally.calls))

    def reset(self) -> None:
        """Forget the calls so far."""
        self._tallies = {}

    def cost(self) -> FunctionCost:
        """What all calls took together."""
        tallies = [tally for tally in list(self._tallies.values()) if tally.calls]
        slowest = sorted((wall for tally in tallies for wall, _ in tally.slowest), reverse=True)[:SLOWEST]
        return FunctionCost(
            self.node.operation,
            self.__name__,
            self.node.site,
            sum(tally.calls for tally in tallies),
            sum(tally.wall for tally in tallies) / 1e9,
            sum(tally.cpu for tally in tallies) / 1e9,
            min(sum(tally.delay for tally in tallies), sum(tally.wall - tally.cpu for tally in tallies)) / 1e9,
            len(tallies),
            tuple(wall / 1e9 for wall in slowest),
        )


@dataclass(frozen=True)
class FunctionCost:
    """What the calls of one function took: wall and CPU seconds, on how many threads, and the slowest of them.

    `delay_seconds` are those in which a thread could have run and had no processor.
    """

    operation: str
    name: str
    site: str | None
    calls: int
    wall_seconds: float
    cpu_seconds: float
    delay_seconds: float
    threads: int
    slowest_seconds: tuple[float, ...]

    @property
    def computing_share(self) -> float:
        """The share of the wall time in which calls computed, or would have if there had been a processor."""
        return (self.cpu_seconds + self.delay_seconds) / self.wall_seconds if self.wall_seconds else 1.0

    @property
    def slow_share(self) -> float:
        """Which share of the time the slowest hundredth of the calls took; 0 if there are too few calls to tell."""
        count = min(len(self.slowest_seconds), max(1, self.calls // 100))
        if self.calls < MIN_CALLS or not self.wall_seconds:
            return 0.0
        slow = (
            sum(self.slowest_seconds[:count]) - self.delay_seconds
        )  # a thread without a processor is not a slow record
        return max(0.0, slow) / self.wall_seconds


MIN_CALLS = 100
"""Fewer calls say nothing about rare ones."""


def with_timed_functions(plan: Node) -> tuple[Node, list[Timed]]:
    """The plan with every function timed that runs row by row in this process, and the timers."""
    timers: list[Timed] = []

    def change(node: Any) -> Node:
        if not isinstance(node, Calls) or node.traced or getattr(node, "mode", "auto") == "process":
            made: Node = node
            return made
        timer = Timed(node.function.fn, node)
        timers.append(timer)
        name = "fn" if hasattr(node, "fn") else "predicate"
        function = Function(timer, "eager", draws=isinstance(node, RandomMap))
        changed: dict[str, Any] = {name: timer, "function": function}
        timed: Node = replace(node, **changed)
        return timed

    return rewrite(plan, change), timers
