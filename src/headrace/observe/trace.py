"""A recorded timeline in the trace format of Chrome and Perfetto, on the wall clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from headrace.core.types import JsonObject

CONSUMER_THREAD = 0


def trace_events(record: JsonObject, base_nanoseconds: int = 0) -> Iterator[JsonObject]:
    """Events of a record: for each stage a row of load, and counters of rows, waiting and memory."""
    pid = record["pid"]
    yield {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": f"headrace {record['plan']}"}}
    names = ["consumer", *(stage["stage"] for stage in record["stages"])]
    for thread, name in enumerate(names):
        yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": thread, "args": {"name": name}}
    samples = record["samples"]
    for before, after in pairwise(samples):
        start = before["time"] * 1e6 - base_nanoseconds / 1e3
        span = (after["time"] - before["time"]) * 1e6
        waited = (after["waited_s"] - before["waited_s"]) * 1e6
        yield _span(pid, CONSUMER_THREAD, "waits for data", start, min(waited, span))
        for number, (was, now) in enumerate(zip(before["stages"], after["stages"], strict=False)):
            busy = (now[2] - was[2]) * 1e6
            if busy > 0:
                about = {"rows": now[0] - was[0], "busy_s": busy / 1e6, "waiting_s": now[3] - was[3]}
                yield {**_span(pid, number + 1, names[number + 1], start, min(busy, span)), "args": about}
            if record["stages"][number].get("threaded"):
                yield _count(pid, f"ready: {names[number + 1]}", start, now[5])
        counts = {"delivered": after["delivered"] - before["delivered"], "memory_bytes": after["memory"]}
        for name, value in counts.items():
            yield _count(pid, name, start, value)


def _count(pid: int, name: str, start: float, value: float) -> JsonObject:
    return {"name": name, "ph": "C", "pid": pid, "ts": start, "args": {"value": value}}


def _span(pid: int, thread: int, name: str, start: float, microseconds: float) -> JsonObject:
    return {"name": name, "ph": "X", "pid": pid, "tid": thread, "ts": start, "dur": max(0.0, microseconds)}


def write_trace(record: JsonObject, path: Path, align_with: Path | None = None) -> None:
    """Write a record as Chrome trace JSON; times count from where those of a trace of `torch.profiler` do."""
    base = 0
    if align_with is not None:
        base = int(json.loads(align_with.read_text()).get("baseTimeNanoseconds", 0))
    events = list(trace_events(record, base))
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "baseTimeNanoseconds": base}))
