"""A view of a pass in a notebook that follows it while other cells run."""

from __future__ import annotations

import html
import threading
import weakref
from typing import TYPE_CHECKING

from headrace.core.frameworks import framework
from headrace.core.types import JsonObject, LibraryObject
from headrace.observe.live import snapshot
from headrace.ops.shared.notebook_bar import in_notebook

if TYPE_CHECKING:
    from headrace.iterator import Iterator

UPDATE_SECONDS = 1.0


def html_of(self: Iterator) -> str:
    """A small view for notebooks: what the pass has delivered, how long it waited, the load of each stage."""
    found = snapshot(self)
    total = max((stage["busy_s"] for stage in found["stages"]), default=0.0) or 1.0
    rows = "".join(
        f"<tr><td style='text-align:left'>{html.escape(stage['stage'])}</td><td>{stage['rows']:,}</td>"
        f"<td><meter max='1' value='{stage['busy_s'] / total:.3f}'></meter> {stage['busy_s']:.3f} s</td>"
        f"<td>{ready_text(stage)}</td></tr>"
        for stage in found["stages"]
    )
    starved = found["starvation"]
    return (
        f"<div><b>{html.escape(found['plan'])}</b><br>waited {starved['waited_s']:.2f} s, computed "
        f"{starved['computed_s']:.2f} s<table><tr><th>stage</th><th>rows</th><th>busy</th><th>ready</th></tr>{rows}"
        "</table></div>"
    )


def ready_text(stage: JsonObject) -> str:
    """How much of a stage's queue is filled; nothing if it has none."""
    return f"{stage['ready']} of {stage['room']}" if stage["room"] else ""


def show_live(self: Iterator) -> None:
    """Show the view under the cell, and update it every second until the pass is over."""
    if not in_notebook():
        raise NotImplementedError  # IPython then shows the repr
    LiveView(self)


class LiveView:
    """One output of a notebook, drawn again by a thread until the pass is over or its iterator is let go."""

    def __init__(self, it: Iterator, seconds: float = UPDATE_SECONDS) -> None:
        self._seconds = seconds
        self._stop = stop = threading.Event()
        self._iterator = weakref.ref(it, lambda _: stop.set())
        self._drawn = shown_as(it)
        show: LibraryObject = framework("IPython.display", "the live view of an iterator").display
        self._shown: LibraryObject = show(self._drawn, raw=True, display_id=True)
        self._thread = threading.Thread(target=self._follow, name="headrace-live-view", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        over = False
        while not over:
            self._stop.wait(self._seconds)
            it = self._iterator()
            if it is None:
                return
            over = it.is_over
            self._draw(shown_as(it))
            del it

    def _draw(self, made: dict[str, str]) -> None:
        if made != self._drawn:
            self._drawn = made
            self._shown.update(made, raw=True)


def shown_as(it: Iterator) -> dict[str, str]:
    """The forms of the view, as notebooks keep them."""
    return {"text/html": html_of(it), "text/plain": repr(it)}
