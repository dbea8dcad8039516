"""Show the status of workers repeatedly."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import Json, say, show_json
from headrace.cli.top_process import watch_process
from headrace.cluster.addresses import location_of
from headrace.cluster.members import ClusterWorker, Gone
from headrace.core.types import JsonObject
from headrace.errors import WorkerError


def top(
    addresses: Annotated[
        list[str],
        typer.Argument(
            help="Workers, as HOST:PORT; or one process of this machine, by its id.",
            metavar="ADDRESS…|PID",
            show_default=False,
        ),
    ],
    token: Annotated[
        str | None, typer.Option(envvar="HEADRACE_TOKEN", help="Secret that the workers were started with.")
    ] = None,
    tls_root_cert: Annotated[Path | None, typer.Option(help="Certificate that signed those of the workers.")] = None,
    seconds: Annotated[float, typer.Option(help="Seconds between two updates.")] = 2.0,
    count: Annotated[int, typer.Option(help="Number of updates; 0 continues until interrupted.")] = 0,
    as_json: Json = False,
) -> None:
    """Show the throughput, splits and buffers of workers, and update them until interrupted.

    A process of this machine that called `hr.observe.serve_top()` is shown by its id: passes, stages, starvation.

    Example:

      headrace top 10.0.0.7:4711 10.0.0.8:4711

      headrace top 4711
    """
    if len(addresses) == 1 and addresses[0].isdigit():
        watch_process(int(addresses[0]), seconds, count, as_json=as_json)
        return
    tls = None if tls_root_cert is None else tls_root_cert.read_bytes()
    members = [ClusterWorker(location_of(a, tls=tls is not None), token=token, tls=tls, timeout=5.0) for a in addresses]
    before: dict[str, JsonObject] = {}
    looks = 0
    try:
        while True:
            found = {member.name: _status(member) for member in members}
            if as_json:
                show_json(list(found.values()))
            else:
                if looks and os.isatty(1):
                    say("\x1b[H\x1b[2J")
                _show(found, before)
            before, looks = found, looks + 1
            if looks == count:
                return
            time.sleep(seconds)
    finally:
        for member in members:
            member.close()


def _status(member: ClusterWorker) -> JsonObject:
    try:
        return {"worker": member.name, "at": time.monotonic(), **member.status()}
    except (Gone, WorkerError) as error:
        return {"worker": member.name, "error": str(error)}


def _show(found: dict[str, JsonObject], before: dict[str, JsonObject]) -> None:
    say(f"{'worker':24} {'rows/s':>10} {'MB/s':>8} {'passes':>7} {'splits':>7} {'ready MB':>9}  up")
    for name, now in found.items():
        if "error" in now:
            say(f"{name:24} {now['error']}")
            continue
        last = before.get(name, {})
        same = "at" in last and last["pid"] == now["pid"]
        span = now["at"] - last["at"] if same else now["seconds"]
        rows = (now["rows_sent"] - (last["rows_sent"] if same else 0)) / max(span, 1e-9)
        size = (now["bytes_sent"] - (last["bytes_sent"] if same else 0)) / max(span, 1e-9)
        splits = [split for session in now["sessions"] for split in session["splits"]]
        ready = sum(split["waiting_bytes"] for split in splits)
        say(
            f"{name:24} {rows:>10,.0f} {size / 1e6:>8,.1f} {len(now['sessions']):>7} {len(splits):>7} "
            f"{ready / 1e6:>9,.1f}  {now['seconds']:,.0f} s, process {now['pid']} of {now['host']}"
        )
