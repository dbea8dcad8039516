"""Metrics of the passes of this process for Prometheus, and for OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.types import AnyFunction, LibraryObject
from headrace.observe.live import live_iterators, snapshot
from headrace.observe.metrics_server import MetricsServer, Sample, text_form

METRICS = {
    "delivered_total": ("counter", "Elements that a pass has delivered."),
    "epoch": ("gauge", "The epoch of a pass."),
    "starved_seconds_total": ("counter", "Seconds that the consumer of a pass waited for data."),
    "computed_seconds_total": ("counter", "Seconds that the consumer of a pass was busy with its data."),
    "first_seconds": ("gauge", "Seconds until the first element of a pass was there."),
    "stage_rows_total": ("counter", "Rows that a stage has made."),
    "stage_bytes_total": ("counter", "Bytes that a stage has made."),
    "stage_busy_seconds_total": ("counter", "Seconds that a stage was at work."),
    "stage_waiting_seconds_total": ("counter", "Seconds that others waited for the threads of a stage."),
    "stage_input_seconds_total": ("counter", "Seconds that a stage waited for threads of the stages before it."),
    "stage_room_seconds_total": ("counter", "Seconds that threads of a stage waited because its queue was full."),
    "stage_memory_seconds_total": ("counter", "Seconds that threads of a stage waited for the memory budget."),
    "stage_ready": ("gauge", "Pieces of work in the queue of a stage, ready to be taken."),
    "store_requests_total": ("counter", "Requests to stores that were answered."),
    "store_retries_total": ("counter", "Requests to stores that were sent again after a fault."),
    "store_bytes_total": ("counter", "Bytes that came from stores."),
    "store_cache_hits_total": ("counter", "Ranges of remote files that the cache on disk had."),
    "store_cache_misses_total": ("counter", "Ranges of remote files that the cache on disk had not."),
    "memory_bytes": ("gauge", "Bytes of large arrays that this process holds."),
}
"""Every metric: its kind, and what it tells."""


def samples() -> Iterator[Sample]:
    """The metrics of all passes of this process."""
    memory = None
    for it in live_iterators():
        found = snapshot(it)
        labels = {"pass": str(found["pass"])}
        starved = found["starvation"]
        yield "delivered_total", labels, found["delivered"]
        yield "epoch", labels, found["epoch"]
        yield "starved_seconds_total", labels, starved["waited_s"]
        yield "computed_seconds_total", labels, starved["computed_s"]
        yield "first_seconds", labels, starved["first_s"]
        for number, stage in enumerate(found["stages"]):
            of_stage = {**labels, "stage": f"{number}_{stage['operation']}"}
            yield "stage_rows_total", of_stage, stage["rows"]
            yield "stage_bytes_total", of_stage, stage["bytes"]
            yield "stage_busy_seconds_total", of_stage, stage["busy_s"]
            yield "stage_waiting_seconds_total", of_stage, stage["waiting_s"]
            yield "stage_input_seconds_total", of_stage, stage["input_s"]
            yield "stage_room_seconds_total", of_stage, stage["room_s"]
            yield "stage_memory_seconds_total", of_stage, stage["memory_s"]
            yield "stage_ready", of_stage, stage["ready"]
        for name in ("requests", "retries", "bytes", "cache_hits", "cache_misses"):
            if name in found["store"]:
                yield f"store_{name}_total", labels, found["store"][name]
        memory = found["memory"]
    if memory is not None:
        yield "memory_bytes", {}, memory["in_use"]


def serve_metrics(port: int = 0, host: str = "127.0.0.1") -> MetricsServer:
    """Serve the metrics of all passes of this process to Prometheus.

    Args:
        port: The port, 0 for any that is free.
        host: The address to listen on; by default only this machine can connect.

    Returns:
        A server with `port` and `close()`.

    >>> from urllib.request import urlopen
    >>> it = iter(hr.Dataset.range(3))
    >>> _ = next(it)
    >>> with hr.observe.serve_metrics() as server:
    ...     b"headrace_delivered_total" in urlopen(f"http://127.0.0.1:{server.port}/metrics").read()
    True
    """
    return MetricsServer(lambda: text_form(samples(), METRICS), port, host, "headrace-metrics")


def export_to_opentelemetry(meter: LibraryObject = None) -> None:
    """Register the metrics of all passes of this process as observable instruments of OpenTelemetry.

    Args:
        meter: A meter of `opentelemetry.metrics`; by default that of the global provider.

    Raises:
        ImportError: The package opentelemetry-api is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise ImportError("export_to_opentelemetry needs the package opentelemetry-api") from error
    meter = metrics.get_meter("headrace") if meter is None else meter

    def observe(name: str) -> AnyFunction:
        def callback(options: object) -> Iterator[Any]:  # noqa: ARG001 - the form that the API asks for
            return (metrics.Observation(value, labels) for found, labels, value in samples() if found == name)

        return callback

    for name, (kind, told) in METRICS.items():
        make = meter.create_observable_counter if kind == "counter" else meter.create_observable_gauge
        make(f"headrace.{name.removesuffix('_total')}", callbacks=[observe(name)], description=told)
