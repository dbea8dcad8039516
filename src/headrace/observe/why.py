"""Why a pipeline is slow: `ds.why_slow(seconds=, step=)` and `it.why_slow()`."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.types import JsonObject, Nested
from headrace.execute.budget import cpus
from headrace.formats.shared.many_files import Files
from headrace.observe.functions import FunctionCost, Timed, with_timed_functions
from headrace.observe.gil import GilSampler
from headrace.observe.judge import GIL_SHARE, judge
from headrace.observe.measure_headroom import Headroom, close_iterator, free_step, headroom, timed_steps
from headrace.observe.verdict import Measurement, StageCost, Verdict
from headrace.ops.map import Map
from headrace.ops.random_map import RandomMap
from headrace.ops.shuffle.shuffle import Shuffle
from headrace.ops.with_options import merge_options
from headrace.plan.datasets import dataset_of
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.node import Node, draws_numbers, walk

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.iterator import Iterator


def why_slow(self: Dataset, seconds: float = 10.0, step: Callable[[Nested], object] | None = None) -> Verdict:
    """Run the pipeline for a while and say what limits it, with evidence, and what would help by how much.

    The verdict compares the steps with steps on elements in memory. So it is right when the trainer is slow
    because threads of the pipeline hold the GIL, though it hardly waits for data. The rules are in docs/observe.md.

    Args:
        seconds: How long to run the pipeline; half of it more to time steps without it.
        step: One training step, called with each element. Without it the pipeline runs as fast as it can.

    Returns:
        A Verdict. `print` it for the sentence, the evidence and the remedies.

    >>> def slow(x):
    ...     return sum(range(3000)) + x
    >>> verdict = hr.Dataset.range(100_000).map(slow, mode="eager").batch(10).why_slow(seconds=0.2)
    >>> verdict.bound, verdict.where
    ('input', 'map(slow)')
    """
    plan, timers = with_timed_functions(self._node)
    return measured(plan, timers, dataset_of(plan).iterator(), seconds, step)


def measured(
    plan: Node, timers: list[Timed], it: Any, seconds: float, step: Callable[[Nested], object] | None = None
) -> Verdict:
    """Run an iterator over a plan for a while and judge it. The iterator is closed."""
    began_cpu = [0.0]
    base: list[JsonObject] = []
    before: JsonObject = {}
    delays: dict[str, int] = {}

    def begin() -> None:
        delays.update(_run_delays())
        for timer in timers:
            timer.reset()
        base[:] = it.stats()["stages"]
        before.update(it.stats().get("store", {}))
        began_cpu[0] = time.process_time()

    gil = GilSampler()
    try:
        with gil:
            steps = timed_steps(it, step, seconds, begin)
        cpu = time.process_time() - began_cpu[0]
        delay = max((now - delays.get(thread, now) for thread, now in _run_delays().items()), default=0) / 1e9
        stages = _stages(plan, it.stats()["stages"], base)
        store = it.stats().get("store", {})
        run = getattr(it, "_iterator", it)._run
        refusals = 0 if run is None else run.memory.refusals
    finally:
        close_iterator(it)
    free = 0.0 if step is None else steps.steps * free_step(steps.resident, step, seconds / 4)
    shuffle = next((node for node in walk(plan) if isinstance(node, Shuffle)), None)
    return judge(
        Measurement(
            steps.steps,
            steps.seconds,
            steps.waited_seconds,
            steps.first_seconds,
            free,
            cpu,
            cpus(),
            stages,
            tuple(cost for timer in timers if (cost := timer.cost()).calls),
            refusals,
            () if shuffle is None else (shuffle.label(),),
            None if shuffle is None else shuffle.site,
            gil.share,
            delay,
            requests=store.get("requests", 0) - before.get("requests", 0),
            store_bytes=store.get("bytes", 0) - before.get("bytes", 0),
            disk_cache=merge_options(plan).remote_cache is not None,
        )
    )


def _run_delays() -> dict[str, int]:
    """For each thread of this process, the nanoseconds in which it could have run and had no processor; on Linux."""
    found = {}
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # a thread that has just ended
            found[thread.parent.name] = int(thread.read_text().split()[1])
    return found


def headroom_of(self: Dataset, step_fn: Callable[[Nested], object], *, seconds: float = 5.0) -> Headroom:
    """Measure how much faster the steps would be with free data, by steps on elements in memory.

    Args:
        step_fn: One training step, called with each element.
        seconds: How long to measure with data as they come; half of it more without.

    Returns:
        A Headroom, which prints as one line. `hr.observe.headroom` does the same for any iterable.

    >>> found = hr.Dataset.range(1000).batch(10).headroom(lambda batch: batch.sum(), seconds=0.05)
    >>> found.speedup >= 1
    True
    """
    return headroom(self, step_fn, seconds=seconds)


def why_slow_so_far(self: Iterator) -> Verdict:
    """Say what limits this pass, from what its stages have counted so far. Costs nothing while it runs.

    The counters do not tell how long a step takes without the pipeline, nor whether a function computes or waits:
    `ds.why_slow(step=...)` measures both. After `it.record()` the share of time in which the GIL is held is known too,
    and the verdict names it if the trainer is slow though it hardly waits for data.

    Returns:
        A Verdict. `print` it for the sentence, the evidence and the remedies.

    >>> it = iter(hr.Dataset.range(1000).batch(10))
    >>> _ = list(it)
    >>> it.why_slow().bound in ("input", "consumer")
    True
    """
    stats = self.stats()
    starved, store = stats["starvation"], stats.get("store", {})
    gil = None if self._recorder is None else self._recorder.gil.share
    python = [line for line in stats["stages"] if line["python"] and line["threaded"]]
    held = gil is not None and gil >= GIL_SHARE and bool(python)
    free = starved["computed_s"] * (1.0 - gil) if held and gil is not None else starved["computed_s"]
    return judge(
        Measurement(
            stats.get("delivered", 0),
            starved["waited_s"] + starved["computed_s"],
            starved["waited_s"],
            starved["first_s"],
            free,
            None,
            cpus(),
            _stages(self._course.plan, stats["stages"], []),
            tuple(map(_function, python)) if held else (),
            gil_share=gil,
            requests=store.get("requests", 0),
            store_bytes=store.get("bytes", 0),
            disk_cache=merge_options(self._course.plan).remote_cache is not None,
        )
    )


def _function(line: JsonObject) -> FunctionCost:
    """A stage that calls a Python function on threads, as far as its counters tell."""
    name = line["stage"].partition("(")[2].partition(",")[0].removesuffix(")")
    threads = 2
    return FunctionCost(
        line["operation"], name, line["site"], line["rows"], line["busy_s"], line["busy_s"], 0.0, threads, ()
    )


def _by_place(stages: list[JsonObject]) -> dict[tuple[Any, ...], JsonObject]:
    """The lines of stages by where they stand in the plan: stages that open later come between others."""
    seen: Counter[tuple[Any, ...]] = Counter()
    found = {}
    for line in stages:
        place = (line["operation"], line["site"], line["depth"])
        found[*place, seen[place]] = line
        seen[place] += 1
    return found


def _stages(plan: Node, now: list[JsonObject], before: list[JsonObject]) -> tuple[StageCost, ...]:
    """What each stage did since `before`."""
    files = {node.operation: node for node in walk(plan) if isinstance(node, Files)}
    nodes = {(node.operation, node.site): node for node in walk(plan)}
    operations = {node.operation for node in walk(plan) if not node.inputs} | set(files)
    made = []
    earlier = _by_place(before)
    for place, line in _by_place(now).items():
        past = earlier.get(place, {})
        found = files.get(line["operation"])
        node = nodes.get((line["operation"], line["site"]))
        rows = None if node is None or not node.cardinality.known else int(node.cardinality)
        made.append(
            StageCost(
                line["stage"],
                line["rows"] - past.get("rows", 0),
                line["bytes"] - past.get("bytes", 0),
                line["busy_s"] - past.get("busy_s", 0.0),
                line["waiting_s"] - past.get("waiting_s", 0.0),
                line["remedy"],
                is_source=line["operation"] in operations,
                is_transfer=line["operation"] in TRANSFERS,
                in_store=found is not None and found.in_store,
                site=line["site"],
                files=None if found is None or found.files is None else len(found.files),
                rows_in_all=rows,
                draws=node is not None and any(map(draws_numbers, walk(node))),
                input_seconds=line["input_s"] - past.get("input_s", 0.0),
                room_seconds=line["room_s"] - past.get("room_s", 0.0),
                memory_seconds=line["memory_s"] - past.get("memory_s", 0.0),
                on_one_core=line["python"] and (node is None or (node.remark() or "").startswith(ROW_BY_ROW)),
                device=_device_for(node),
            )
        )
    return tuple(made)


def _device_for(node: Node | None) -> str | None:
    """A device that could run an operation: its function was traced, and this process uses PyTorch with a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(node, Map | RandomMap) or (node.remark() or "").startswith(ROW_BY_ROW):
        return None
    return "cuda" if torch.cuda.is_available() else None


TRANSFERS = ("to_torch", "to_jax", "to_keras")
"""Stages that hand elements to a device."""
