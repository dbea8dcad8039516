"""The status of workers and passes, for `headrace top` and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.core.types import JsonObject
from headrace.observe.metrics_server import MetricsServer, text_form

NAMES = {
    "workers": ("gauge", "Workers of the cluster that are believed to be there."),
    "worker_up": ("gauge", "Whether a worker answers."),
    "worker_rows_total": ("counter", "Rows that a worker has sent."),
    "worker_bytes_total": ("counter", "Bytes of rows that a worker has sent."),
    "worker_splits": ("gauge", "Splits that a worker has open."),
    "worker_waiting_bytes": ("gauge", "Bytes that are ready in a worker."),
    "pass_rows_total": ("counter", "Rows that have come for a pass."),
    "pass_ready_bytes": ("gauge", "Bytes that are ready in the trainer."),
    "pass_waits": ("gauge", "Whether the trainer waits for a worker."),
    "workers_lost_total": ("counter", "Workers that were given up."),
}
"""Every metric: its type, and its description."""


def prometheus_text(status: JsonObject) -> str:
    """Return the status of a cluster, or of a worker, in Prometheus's text form."""
    return text_form(_samples(status), NAMES)


def serve_status(status: Callable[[], JsonObject], port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Serve the status of a cluster, or of a worker, to Prometheus."""
    return MetricsServer(lambda: prometheus_text(status()), port, host, "metrics")


def _samples(status: JsonObject) -> Iterator[tuple[str, JsonObject, float]]:
    workers = status.get("workers")
    if workers is None:  # a worker speaks of itself
        yield from _worker_samples({}, status)
        return
    yield "workers", {}, len(workers)
    yield "workers_lost_total", {}, status["lost"]
    for worker in workers:
        labels = {"worker": worker["worker"]}
        yield "worker_up", labels, int("error" not in worker)
        if "error" not in worker:
            yield from _worker_samples(labels, worker)
    for each in status["passes"]:
        labels = {"pass": each["session"]}
        yield "pass_rows_total", labels, sum(split["rows"] for split in each["splits"])
        yield "pass_ready_bytes", labels, sum(split["ready_bytes"] for split in each["splits"])
        yield "pass_waits", labels, int(each["waits_for"] is not None)


def _worker_samples(labels: JsonObject, worker: JsonObject) -> Iterator[tuple[str, JsonObject, float]]:
    splits = [split for session in worker["sessions"] for split in session["splits"]]
    yield "worker_rows_total", labels, worker["rows_sent"]
    yield "worker_bytes_total", labels, worker["bytes_sent"]
    yield "worker_splits", labels, len(splits)
    yield "worker_waiting_bytes", labels, sum(split["waiting_bytes"] for split in splits)
