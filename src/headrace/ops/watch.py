"""Watch or slow down the elements as they pass: progress and throttle."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.passing import Passing
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def throttle(
    self: Dataset,
    *,
    rows_per_second: float | None = None,
    bytes_per_second: float | None = None,
    name: str | None = None,
) -> Dataset:
    """Give out no more than so many elements, or bytes, a second: to be kind to a shared disk or service.

    >>> list(hr.Dataset.range(3).throttle(rows_per_second=10_000))
    [np.int64(0), np.int64(1), np.int64(2)]
    """
    given = [rate for rate in (rows_per_second, bytes_per_second) if rate is not None]
    if len(given) != 1:
        raise TypeError("throttle takes either rows_per_second or bytes_per_second")
    if not given[0] > 0:
        raise ValueError(f"a rate must be above 0, not {given[0]!r}")
    return self._then(Throttle, float(given[0]), bytes_per_second is not None, name=name)


def progress(self: Dataset, description: str = "", *, name: str | None = None) -> Dataset:
    """Show a progress bar while elements are taken; with the time that is left where `len` is known.

    >>> len(list(hr.Dataset.range(3).progress("reading")))
    3
    """
    return self._then(Progress, description or self._node.operation, name=name)


@dataclass(frozen=True, eq=False)
class Throttle(Passing):
    """The input, slower."""

    rate: float = field(metadata=TUNING)
    by_bytes: bool = field(metadata=TUNING)

    pure = False
    live = True


@opens(Throttle)
class ThrottleStream(Stream):
    """Waits until what has been given out is due; closing ends the wait."""

    def __init__(self, node: Throttle, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, any_order=True)
        self._closed = threading.Event()
        self._due: float | None = None

    def pull(self, want: int) -> Made:
        if self._due is not None:
            self._closed.wait(max(0.0, self._due - perf_counter()))
        item = self._input.pull(want)
        if item is not END:
            amount = item.nbytes if self._node.by_bytes else item.rows
            self._due = max(self._due or 0.0, perf_counter()) + amount / self._node.rate
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)

    def close(self) -> None:
        self._closed.set()


@dataclass(frozen=True, eq=False)
class Progress(Passing):
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
            self._bar, self._task = started_bar(self._node.description, self._node.cardinality)
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


def started_bar(description: str, count: Cardinality) -> tuple[Any, Any]:
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
    bar, task = started_bar(text, count)
    try:
        yield lambda rows: bar.advance(task, rows)
    finally:
        bar.stop()
