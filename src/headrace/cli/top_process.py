"""A live view of the passes of a process on this machine."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from headrace.cli.output import printable, show_json
from headrace.core.types import JsonObject
from headrace.observe.local_socket import ask_process
from headrace.observe.notebook import ready_text


def watch_process(pid: int, seconds: float, count: int, *, as_json: bool) -> None:
    """Show the passes of a process again and again; `count` times, or until it is interrupted or the process ends."""
    before: dict[int, JsonObject] = {}
    found = ask_process(pid)
    if as_json:
        show_json(found)
        return
    looks = 0
    with Live(view(found, before), console=Console(), auto_refresh=False) as live:
        while True:
            looks += 1
            if looks == count:
                return
            before = {each["pass"]: each for each in found}
            time.sleep(seconds)
            found = ask_process(pid)
            live.update(view(found, before), refresh=True)


def view(found: list[JsonObject], before: dict[int, JsonObject]) -> Group:
    """The passes as tables: rates since the last look, or since the start."""
    return Group(*(_pass(each, before.get(each["pass"])) for each in found))


def _pass(now: JsonObject, last: JsonObject | None) -> Table:
    starved = now["starvation"]
    span = now["time"] - last["time"] if last else starved["waited_s"] + starved["computed_s"] + starved["first_s"]
    was = {name: last[name] for name in ("delivered",)} if last else {"delivered": 0}
    rate = (now["delivered"] - was["delivered"]) / max(span, 1e-9)
    title = f"{now['plan']}  ·  {rate:,.1f} elements/s  ·  starved {starved['share']:.0%}"
    table = Table(title=printable(title), title_justify="left", expand=True)
    table.add_column("stage")
    for name in ("rows", "rows/s", "busy", "queue", "waiting"):
        table.add_column(name, justify="right")
    for number, stage in enumerate(now["stages"]):
        past = last["stages"][number] if last and number < len(last["stages"]) else {"rows": 0, "busy_s": 0.0}
        busy = (stage["busy_s"] - past["busy_s"]) / max(span, 1e-9)
        table.add_row(
            printable(stage["stage"]),
            f"{stage['rows']:,}",
            f"{(stage['rows'] - past['rows']) / max(span, 1e-9):,.0f}",
            f"{busy:.0%}",
            ready_text(stage),
            f"{stage['waiting_s']:.2f} s",
        )
    return table
