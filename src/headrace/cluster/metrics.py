"""What workers and passes are at, for people (`headrace top`) and for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAMES = {
    "workers": ("gauge", "Workers of the cluster that are believed to be there."),
    "worker_up": ("gauge", "Whether a worker answers."),
    "worker_rows_total": ("counter", "Rows that a worker has sent."),
    "worker_bytes_total": ("counter", "Bytes of rows that a worker has sent."),
    "worker_splits": ("gauge", "Splits that a worker has open."),
    "worker_waiting_bytes": ("gauge", "Bytes that lie ready in a worker."),
    "pass_rows_total": ("counter", "Rows that have come for a pass."),
    "pass_ready_bytes": ("gauge", "Bytes that lie ready in the trainer."),
    "pass_waits": ("gauge", "Whether the trainer waits for a worker."),
    "workers_lost_total": ("counter", "Workers that were given up."),
}
"""Every metric: its kind, and what it tells."""


def prometheus_text(status: dict[str, Any]) -> str:
    """The status of a cluster, or of a worker, in Prometheus's text form."""
    found: dict[str, list[str]] = {}
    for name, labels, value in _samples(status):
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        found.setdefault(name, []).append(
            f"headrace_{name}{{{shown}}} {value}" if shown else f"headrace_{name} {value}"
        )
    lines = []
    for name, samples in found.items():
        kind, told = NAMES[name]
        lines += [f"# HELP headrace_{name} {told}", f"# TYPE headrace_{name} {kind}", *samples]
    return "\n".join(lines) + "\n"


def _escaped(text: Any) -> str:
    return str(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _samples(status: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], float]]:
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


def _worker_samples(labels: dict[str, Any], worker: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], float]]:
    splits = [split for session in worker["sessions"] for split in session["splits"]]
    yield "worker_rows_total", labels, worker["rows_sent"]
    yield "worker_bytes_total", labels, worker["bytes_sent"]
    yield "worker_splits", labels, len(splits)
    yield "worker_waiting_bytes", labels, sum(split["waiting_bytes"] for split in splits)


class MetricsServer:
    """Answers Prometheus on a port, until it is closed."""

    def __init__(self, status: Callable[[], dict[str, Any]], port: int, host: str = "127.0.0.1") -> None:
        class Answer(BaseHTTPRequestHandler):
            """GET /metrics."""

            def do_GET(self) -> None:
                """What there is to tell."""
                body = prometheus_text(status()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """A scrape every few seconds is no news."""

        self._server = ThreadingHTTPServer((host, port), Answer)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
