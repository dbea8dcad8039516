"""A progress bar under the cell of a notebook, in plain HTML: it needs no widget, and stays in the saved notebook."""

from __future__ import annotations

import html
import sys
from importlib import import_module
from time import monotonic

from headrace.core.types import LibraryObject

UPDATE_SECONDS = 0.1
"""A bar is drawn again after this long at the earliest: each drawing is a message to the browser."""


def in_notebook() -> bool:
    """Whether this is a kernel of Jupyter's, whose cells show HTML."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


class NotebookBar:
    """What `rich.progress.Progress` is in a terminal, as far as it is used: one task, advanced and stopped."""

    def __init__(self, description: str, total: int | None) -> None:
        self._description = description
        self._total = total
        self._done = 0
        self._began = self._drawn = monotonic()
        self._shown: LibraryObject = None
        self._draw()

    def update(self, task: object, *, completed: int) -> None:  # noqa: ARG002 - there is but one task
        """Set the number of elements that are done."""
        self._done = completed
        if monotonic() - self._drawn >= UPDATE_SECONDS:
            self._draw()

    def advance(self, task: object, more: int) -> None:
        """Add to the number of elements that are done."""
        self.update(task, completed=self._done + more)

    def stop(self) -> None:
        """Draw the bar for the last time."""
        if self._shown is not None:
            self._draw()
            self._shown = None

    def _draw(self) -> None:
        shown: LibraryObject = import_module("IPython.display")
        made = shown.HTML(self.html())
        self._drawn = monotonic()
        if self._shown is None:
            self._shown = shown.display(made, display_id=True)
        else:
            self._shown.update(made)

    def html(self) -> str:
        """Return the bar as HTML."""
        seconds = max(1e-9, monotonic() - self._began)
        rate = self._done / seconds
        bar, count, left = "", f"{self._done:,}", ""
        if self._total is not None:
            bar = f'<progress value="{self._done}" max="{max(1, self._total)}"></progress> '
            count = f"{self._done:,}/{self._total:,}"
            if rate and self._done < self._total:
                left = f", {(self._total - self._done) / rate:.0f} s left"
        return f"<span>{html.escape(self._description)} {bar}{count} in {seconds:.1f} s ({rate:,.0f}/s){left}</span>"
