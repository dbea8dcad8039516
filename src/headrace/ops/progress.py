"""Show a progress bar while elements are taken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.core.types import LibraryObject
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.notebook_bar import NotebookBar, in_notebook
from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.plan.capabilities import shown_inputs
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Node

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def progress(self: Dataset[Element], description: str = "", *, name: str | None = None) -> Dataset[Element]:
    """Show a progress bar while elements are taken; with the remaining time if `len` is known.

    In a terminal it is a line on standard error, in a notebook a bar under the cell.

    Args:
        description: Text before the progress bar. Default: the name of the dataset, or of its source.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        The same elements.

    >>> len(list(hr.Dataset.range(3).progress("reading")))
    3
    """
    return self._then(Progress, description or dataset_name(self._node), name=name)


def dataset_name(node: Node) -> str:
    """Return a name for a dataset: its last `name=`, or else what it is read from."""
    while not node.name and (inputs := shown_inputs(node)):
        node = inputs[0]
    return node.name or node.operation


@dataclass(frozen=True, eq=False)
class Progress(PassThrough):
    """The input, counted by a progress bar."""

    description: str = field(metadata=TUNING)

    pure = False
    live = True


@opens(Progress)
class ProgressStream(Stream):
    """Show a bar from the first row until the last one, or until the stream is closed."""

    def __init__(self, node: Progress, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, any_order=True)
        self._bar: LibraryObject = None
        self._task: LibraryObject = None

    def pull(self, want: int) -> Made:
        if self._bar is None:
            self._bar, self._task = start_bar(self._node.description, self._node.cardinality)
        item = self._input.pull(want)
        if item is END:
            self.close()
        else:
            self._bar.update(self._task, completed=self._input.ordinal)
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def start_bar(description: str, count: Cardinality) -> tuple[Any, Any]:
    """Return a bar under the cell in a notebook, else on standard error; silent if that is not a terminal."""
    if in_notebook():
        return NotebookBar(description, int(count) if count.known else None), None
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
    bar.start()
    return bar, bar.add_task(description, total=count if count.known else None)


@contextmanager
def progress_bar(text: str, count: Cardinality, progress: bool | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many more rows are done. None shows a bar in a notebook or on a terminal."""
    if progress is False or (progress is None and not sys.stderr.isatty() and not in_notebook()):
        yield lambda _: None
        return
    bar, task = start_bar(text, count)
    try:
        yield lambda rows: bar.advance(task, rows)
    finally:
        bar.stop()


@contextmanager
def bytes_bars(text: str, progress: bool | None) -> Iterator[Callable[[str, int | None], Callable[[int], None]]]:
    """Yield a function that makes a bar for one file, of known or unknown size, which takes how many more bytes are
    done.

    `text` is shown above the bars, which show sizes and rates; None shows them if standard error is a terminal.
    """
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda name, _size: lambda _more: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    console.print(text, markup=False, highlight=False)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bars:

        def bar(name: str, size: int | None) -> Callable[[int], None]:
            task = bars.add_task(name, total=size)
            return lambda more: bars.advance(task, more)

        yield bar
