"""Rows on which a user's function is called when somebody asks for them, and no sooner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import numpy as np

from headrace.block import Block
from headrace.errors import ElementError
from headrace.execute.inputs import Input
from headrace.execute.starvation import Meter
from headrace.ops.calls import One, rows_as_arguments


class Calling(Iterator[Any]):
    """What a function makes of the rows of a block, each when it is asked for; `length_hint` says how many are left.

    So the rows that the function gets are read in blocks, while its calls come one by one, as elements are taken. A row
    is passed once its call is over: an interrupt leaves it to be made again.
    """

    def __init__(
        self,
        block: Block,
        source: Input,
        one: One,
        lock: threading.RLock,
        meter: Meter,
        stats: Callable[[], dict[str, Any]],
        *,
        frozen: bool,
    ) -> None:
        self._rows = rows_as_arguments(block)
        self._count = self._left = block.rows
        self._mark = block.mark
        self._source = source
        self._one = one
        self._lock = lock
        self._meter = meter
        self._stats = stats
        self._frozen = frozen

    def __length_hint__(self) -> int:
        return self._left

    def __next__(self) -> Any:
        meter = self._meter
        with self._lock:
            if not self._left:
                raise StopIteration
            if self._left < self._count:  # for the first one it has been asked, and then the block was read
                meter.begin_wait()
            started = perf_counter_ns()
            try:
                structure, leaves = self._one(*next(self._rows))
            except Exception as error:
                raise self._failure(error).copy() from error
            self._left -= 1
            meter.end_wait(self._stats)
            self._source.add_work(perf_counter_ns() - started)
            if self._frozen:
                _freeze(leaves)
            return leaves[0] if structure.kind is None else structure.pack(leaves)

    def _failure(self, error: Exception) -> ElementError:
        row = self._count - self._left
        self._left -= 1
        return self._source.failed_call(error, self._mark, row)


def _freeze(leaves: list[Any]) -> None:
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
