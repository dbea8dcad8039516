"""Limit the rate of elements."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.plan.marks import At
from headrace.plan.node import TUNING

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def throttle(
    self: Dataset[Element],
    *,
    rows_per_second: float | None = None,
    bytes_per_second: float | None = None,
    name: str | None = None,
) -> Dataset[Element]:
    """Limit the number of elements or bytes per second, for a shared disk or service.

    Args:
        rows_per_second: Largest number of elements per second.
        bytes_per_second: Largest number of bytes per second.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(3).throttle(rows_per_second=10_000))
    [np.int64(0), np.int64(1), np.int64(2)]
    """
    rates = [rate for rate in (rows_per_second, bytes_per_second) if rate is not None]
    if len(rates) != 1:
        raise TypeError("throttle takes either rows_per_second or bytes_per_second")
    if not rates[0] > 0:
        raise ValueError(f"a rate must be above 0, not {rates[0]!r}")
    return self._then(Throttle, float(rates[0]), bytes_per_second is not None, name=name)


@dataclass(frozen=True, eq=False)
class Throttle(PassThrough):
    """The input, slower."""

    rate: float = field(metadata=TUNING)
    by_bytes: bool = field(metadata=TUNING)

    pure = False
    live = True


@opens(Throttle)
class ThrottleStream(Stream):
    """Wait until the rows returned so far are due; closing ends the wait."""

    def __init__(self, node: Throttle, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, any_order=True)
        self._closed = threading.Event()
        self._due: float | None = None
        self._run = ctx.run
        self._run.watch(self)  # a thread that reads ahead may be the one that waits

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

    def cancel(self) -> None:
        """End all waits."""
        self._closed.set()

    def close(self) -> None:
        self.cancel()
        self._run.forget(self)
