"""Serve metrics to Prometheus: its text form, and a small web server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

Sample = tuple[str, Mapping[str, Any], float]
"""The name of a metric without its prefix, its labels, and its value."""


def text_form(samples: Iterable[Sample], metrics: Mapping[str, tuple[str, str]]) -> str:
    """Return samples in Prometheus's text form.

    Args:
        samples: The samples, in any order.
        metrics: The type and the description of every metric, by name.
    """
    found: dict[str, list[str]] = {}
    for name, labels, value in samples:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        found.setdefault(name, []).append(
            f"headrace_{name}{{{shown}}} {value}" if shown else f"headrace_{name} {value}"
        )
    lines = []
    for name, of_name in found.items():
        kind, description = metrics[name]
        lines += [f"# HELP headrace_{name} {description}", f"# TYPE headrace_{name} {kind}", *of_name]
    return "\n".join(lines) + "\n"


def _escaped(text: object) -> str:
    return str(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsServer:
    """Answer `GET /metrics` on a port until it is closed. Also a context manager.

    Attributes:
        port: The port, also if 0 was asked for.
    """

    def __init__(self, text: Callable[[], str], port: int, host: str, name: str) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # slow to import

        class Answer(BaseHTTPRequestHandler):
            """GET /metrics."""

            def do_GET(self) -> None:
                """Answer with the metrics."""
                body = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Log nothing: there is a request every few seconds."""

        self._server = ThreadingHTTPServer((host, port), Answer)
        self._server.daemon_threads = True
        self.port: int = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
