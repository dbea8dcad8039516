"""Show a progress bar while elements are taken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.unchanged_rows import PassThrough
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def progress(self: Dataset, description: str = "", *, name: str | None = None) -> Dataset:
    """Show a progress bar while elements are taken; with the time that is left where `len` is known.

    >>> len(list(hr.Dataset.range(3).progress("reading")))
    3
    """
    return self._then(Progress, description or self._node.operation, name=name)


@dataclass(frozen=True, eq=False)
class Progress(PassThrough):
    """The input, counted on the screen."""

    description: str = field(metadata=TUNING)

    pure = False
    live = True


@opens(Progress)
class ProgressStream(Stream):
    """A bar from the first row to the last, or to the closing."""

    def __init__(self, node: Progress, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, any_order=True)
        self._bar: Any = None
        self._task: Any = None

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
    """A bar on standard error; silent where that is no terminal."""
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
    """A function that takes how many rows more are done; None shows them where standard error is a terminal."""
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    bar, task = start_bar(text, count)
    try:
        yield lambda rows: bar.advance(task, rows)
    finally:
        bar.stop()


@contextmanager
def bytes_bars(text: str, progress: bool | None) -> Iterator[Callable[[str, int | None], Callable[[int], None]]]:
    """A function that makes a bar for one file of a known or unknown size: it takes how many bytes more are done.

    `text` stands above the bars, which show sizes and rates; None shows them where standard error is a terminal.
    """
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda name, size: lambda more: None  # noqa: ARG005
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
