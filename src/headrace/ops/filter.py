"""Keep the elements for which a function is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.block import Block, Item, Mark
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.stream import Stream
from headrace.ops.arguments import function
from headrace.ops.calls import CallStream, Outcome, outcomes, with_failures
from headrace.ops.passing import Keeping
from headrace.plan.cardinality import UNKNOWN, Cardinality

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def filter(self: Dataset, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
    """Keep the elements for which `predicate` returns True.

    >>> list(hr.Dataset.range(6).filter(lambda x: x % 2 == 1))
    [np.int64(1), np.int64(3), np.int64(5)]
    """
    return self._then(Filter, function("filter", predicate, self._node.spec), name=name)


@dataclass(frozen=True, eq=False)
class Filter(Keeping):
    """Calls the predicate row by row."""

    predicate: Callable[..., Any]

    pure = False
    live = True

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return CallStream(ctx, self.input, mark, partial(kept, self), one_to_one=False)


def kept(node: Filter, block: Block) -> list[Item]:
    """The rows that stay, and failures where the predicate raised.

    Marks: an item begins where the rows before it were decided, so that none is decided twice or left out.
    """
    results: list[Outcome] = []
    for fine, value in outcomes(node.predicate, block, keep=True):
        if not fine:
            results.append((False, value))
        else:
            try:
                results.append((True, truth(value)))
            except SpecError as error:
                results.append((False, error))

    def good(start: int, stop: int) -> list[Item]:
        keep = np.array([value for _, value in results[start:stop]], bool)
        if keep.all():
            return [block.slice(start, stop)]
        chosen = block.slice(start, stop).take(np.flatnonzero(keep))
        return [chosen] if chosen.rows else []

    return with_failures(node, block, results, good)


def truth(value: Any) -> bool:
    """What a predicate may return: a bool, NumPy's or Python's, or an array that holds just one."""
    array = np.asarray(value)
    if array.dtype != bool or array.ndim:
        raise SpecError(f"the predicate must return a bool, not {value!r}")
    return bool(array)
