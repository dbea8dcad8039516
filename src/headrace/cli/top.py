"""What workers are at, again and again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.output import Json, say, show_json
from headrace.cluster.addresses import location_of
from headrace.cluster.members import ClusterWorker, Gone
from headrace.errors import WorkerError


def top(
    addresses: Annotated[list[str], typer.Argument(help="Workers, as HOST:PORT.", show_default=False)],
    token: Annotated[str | None, typer.Option(envvar="HEADRACE_TOKEN", help="What they were started with.")] = None,
    tls_root_cert: Annotated[Path | None, typer.Option(help="The certificate that theirs are signed by.")] = None,
    seconds: Annotated[float, typer.Option(help="How long to wait between two looks.")] = 2.0,
    count: Annotated[int, typer.Option(help="How many looks; 0 until it is interrupted.")] = 0,
    as_json: Json = False,
) -> None:
    """Show what workers are at: rows and megabytes a second, splits, and how much lies ready.

    Example:

      headrace top 10.0.0.7:4711 10.0.0.8:4711
    """
    tls = None if tls_root_cert is None else tls_root_cert.read_bytes()
    members = [ClusterWorker(location_of(a, tls=tls is not None), token=token, tls=tls, timeout=5.0) for a in addresses]
    before: dict[str, dict[str, Any]] = {}
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


def _status(member: ClusterWorker) -> dict[str, Any]:
    try:
        return {"worker": member.name, "at": time.monotonic(), **member.status()}
    except (Gone, WorkerError) as error:
        return {"worker": member.name, "error": str(error)}


def _show(found: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
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
