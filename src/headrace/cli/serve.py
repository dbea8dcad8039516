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
from headrace.cluster.metrics import MetricsServer
from headrace.cluster.serve import LOOPBACK, stop_server, warm_up
from headrace.cluster.server import start_server


def serve(
    port: Annotated[int, typer.Option(help="Where to listen; 0 takes one that is free.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None,
        typer.Option(envvar="HEADRACE_TOKEN", help="What trainers must know; made up and printed where none is given."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="A certificate, to encrypt what is sent.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    cpus: Annotated[int | None, typer.Option(help="How many processors to use; all, unless you say.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Where to answer Prometheus.")] = None,
) -> None:
    """Run pipelines for trainers elsewhere, until it is interrupted: hr.cluster.addresses(["HOST:PORT"], token=…).

    A worker runs whatever code comes with the token. It listens to this machine alone unless --host says otherwise.

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
    metrics = None if metrics_port is None else MetricsServer(server.work.status, metrics_port, host)
    say(f"listening on {host}:{server.port}, process {os.getpid()}" + ("" if token else f", token {made}"))
    over.wait()
    if metrics is not None:
        metrics.close()
    stop_server(server)
