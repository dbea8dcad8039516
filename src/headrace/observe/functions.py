"""Timing of users' functions while a pipeline is observed: each call by wall clock and by CPU."""

from __future__ import annotations

import heapq
import threading
from dataclasses import dataclass, replace
from time import perf_counter_ns, thread_time_ns

from headrace import _native
from headrace.core.types import AnyFunction, KeywordArguments, Nested
from headrace.ops.random_map import RandomMap
from headrace.ops.shared.calls import Calls
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.node import AnyNode, Node, function_name, rewrite
from headrace.trace.function import Function

SLOWEST = 10
"""How many of the slowest calls are kept."""
LOOK_NANOSECONDS = 1_000_000
"""The run delay is asked for before a call if it is older than this, and after a call that took longer."""


class _Tally:
    """The calls of one thread; only that thread writes."""

    def __init__(self) -> None:
        self.calls = self.wall = self.cpu = self.delay = 0
        self.slowest: list[tuple[int, int]] = []
        self._asked = self._delay_so_far = 0

    def begin(self) -> None:
        """Note how long this thread has waited for a processor, if that is not known from a moment ago."""
        if perf_counter_ns() - self._asked > LOOK_NANOSECONDS:
            self._ask()

    def _ask(self) -> int:
        before, self._delay_so_far = self._delay_so_far, _native.run_delay()
        self._asked = perf_counter_ns()
        return self._delay_so_far - before

    def add(self, wall: int, cpu: int) -> None:
        """Count a call that took this long."""
        delay = 0
        if wall - cpu > LOOK_NANOSECONDS:  # asking costs some microseconds; shorter waits do not matter
            delay = max(0, min(wall - cpu, self._ask()))
        self.calls += 1
        self.wall += wall
        self.cpu += cpu
        self.delay += delay
        own = wall - delay  # a call that waited for a processor is not slow
        if len(self.slowest) < SLOWEST:
            heapq.heappush(self.slowest, (own, self.calls))
        elif own > self.slowest[0][0]:
            heapq.heapreplace(self.slowest, (own, self.calls))


class Timed:
    """A user's function that keeps the time of each call. It is never traced: it is for functions that are not."""

    def __init__(self, fn: AnyFunction, node: Node) -> None:
        self._fn = fn
        self.node = node
        self.__name__: str = function_name(fn)
        self._tallies: dict[int, _Tally] = {}

    def __call__(self, *args: object) -> Nested:
        thread = threading.get_ident()
        tally = self._tallies.get(thread)
        if tally is None:
            tally = self._tallies[thread] = _Tally()
        tally.begin()
        cpu, wall = thread_time_ns(), perf_counter_ns()
        try:
            return self._fn(*args)
        finally:
            tally.add(perf_counter_ns() - wall, thread_time_ns() - cpu)

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
            sum(tally.delay for tally in tallies) / 1e9,
            len(tallies),
            tuple(wall / 1e9 for wall in slowest),
            self._obstacle(),
        )

    def _obstacle(self) -> str:
        """Why the function runs row by row, unless that was asked for."""
        said = self.node.remark() or ""
        return said.removeprefix(ROW_BY_ROW) if said.startswith(ROW_BY_ROW) and "as asked for" not in said else ""


@dataclass(frozen=True)
class FunctionCost:
    """What the calls of one function took: wall and CPU seconds, on how many threads, and the slowest of them.

    `delay_seconds` are those in which a thread could have run and had no processor; `slowest_seconds` are without them.
    `obstacle` says why the function does not run on whole blocks.
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
    obstacle: str = ""

    @property
    def computing_share(self) -> float:
        """The share of the time in which calls computed, without the time in which they had no processor."""
        own = self.wall_seconds - self.delay_seconds
        return self.cpu_seconds / own if own > 0 else 1.0

    @property
    def slow_share(self) -> float:
        """Which share of the time the slowest hundredth of the calls took; 0 if there are too few calls to tell."""
        count = min(len(self.slowest_seconds), max(1, self.calls // 100))
        if self.calls < MIN_CALLS or not self.wall_seconds:
            return 0.0
        return sum(self.slowest_seconds[:count]) / self.wall_seconds


MIN_CALLS = 100
"""Fewer calls say nothing about rare ones."""


def with_timed_functions(plan: Node) -> tuple[Node, list[Timed]]:
    """The plan with every function timed that runs row by row in this process, and the timers."""
    timers: list[Timed] = []

    def change(node: AnyNode) -> Node:
        if not isinstance(node, Calls) or node.traced or getattr(node, "mode", "auto") == "process":
            made: Node = node
            return made
        timer = Timed(node.function.fn, node)
        timers.append(timer)
        name = "fn" if hasattr(node, "fn") else "predicate"
        function = Function(timer, "eager", draws=isinstance(node, RandomMap))
        changed: KeywordArguments = {name: timer, "function": function}
        timed: Node = replace(node, **changed)
        return timed

    return rewrite(plan, change), timers
