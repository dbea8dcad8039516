"""Call a user's function on rows when they are requested, and no sooner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns

import numpy as np

from headrace.columns.block import Block
from headrace.core.types import Component, JsonObject, Nested
from headrace.execute.inputs import Input
from headrace.execute.stages.starvation import Meter
from headrace.ops.shared.calls import One, rows_as_arguments


class Calling(Iterator[Nested]):
    """Call a function on the rows of a block, each when it is requested.

    So the rows that the function gets are read in blocks, while its calls come one by one, as elements are taken. The
    consumer counts the elements that it got, and drops this object after an interrupt. One thread calls it at a time.
    """

    def __init__(
        self,
        block: Block,
        source: Input,
        one: One,
        meter: Meter,
        stats: Callable[[], JsonObject],
        *,
        frozen: bool,
    ) -> None:
        self._rows = rows_as_arguments(block)
        self._row = 0
        self._mark = block.mark
        self._source = source
        self._one = one
        self._meter = meter
        self._stats = stats
        self._frozen = frozen

    def __next__(self) -> Nested:
        meter = self._meter
        arguments = next(self._rows)
        if self._row:  # for the first one it has been asked, and then the block was read
            meter.begin_wait()
        started = perf_counter_ns()
        self._row += 1
        try:
            structure, leaves = self._one(*arguments)
        except Exception as error:
            raise self._source.failed_call(error, self._mark, self._row - 1).copy() from error
        meter.end_wait(self._stats)
        self._source.add_work(perf_counter_ns() - started, self._mark, self._row - 1)
        if self._frozen:
            _freeze(leaves)
        return leaves[0] if structure.kind is None else structure.pack(leaves)


def _freeze(leaves: list[Component]) -> None:
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
