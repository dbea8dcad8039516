"""A worker for `hr.cluster.addresses`."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import say
from headrace.cluster.metrics import serve_status
from headrace.cluster.serve import LOOPBACK, stop_server, warm_up
from headrace.cluster.server import start_server


def serve(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on; others than the local machine need a token.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_TOKEN", help="Secret that trainers must present. Default: generated and printed."
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="TLS certificate, to encrypt the connection.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of the certificate.")] = None,
    cpus: Annotated[int | None, typer.Option(help="Number of CPUs to use. Default: all.")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port for Prometheus metrics; 0 chooses a free one and prints it.")
    ] = None,
) -> None:
    """Run pipelines for trainers elsewhere, until it is interrupted: hr.cluster.addresses(["HOST:PORT"], token=…).

    A worker runs any code that a client with the token sends. It listens only on this machine unless --host is given.

    Example:

      HEADRACE_TOKEN=… headrace serve --host 0.0.0.0 --port 4711
    """
    if token is None and host not in LOOPBACK:
        raise ValueError(
            f"a worker runs whatever it is sent, so listening on {host} needs a token: --token, or HEADRACE_TOKEN"
        )
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("--tls-cert and --tls-key come together")
    made = token or secrets.token_hex(16)
    tls = None if tls_cert is None or tls_key is None else (tls_cert.read_bytes(), tls_key.read_bytes())
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    server = start_server(host, port, token=made, tls=tls, cpus=cpus)
    warm_up(server.work)
    metrics = None if metrics_port is None else serve_status(server.work.status, metrics_port, host)
    say(f"listening on {host}:{server.port}, process {os.getpid()}" + ("" if token else f", token {made}"))
    if metrics is not None:
        say(f"metrics on http://{host}:{metrics.port}/metrics")
    over.wait()
    if metrics is not None:
        metrics.close()
    stop_server(server)
