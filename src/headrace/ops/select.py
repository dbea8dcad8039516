"""Rows in steps: what `ds[i:j:k]` means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.block import Block, Failure, Indices, Mark, scalar_block
from headrace.errors import NotIndexableError
from headrace.execute.context import Context, Run
from headrace.execute.stream import Stream
from headrace.ops.arguments import integer
from headrace.ops.gather import NumberStream, fetched
from headrace.ops.passing import Keeping
from headrace.ops.with_options import merged
from headrace.plan.cardinality import INFINITE, Cardinality
from headrace.plan.node import obstacle

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def getitem(self: Dataset, index: int | slice) -> Any:
    """An element by its number, or a dataset of a slice, where the operations allow it. Randomness is that of epoch 0.

    >>> ds = hr.Dataset.range(10).batch(4)
    >>> ds[-1]
    array([8, 9])
    >>> list(ds[:2])
    [array([0, 1, 2, 3]), array([4, 5, 6, 7])]
    """
    node = self._node
    blocker = obstacle(node)
    if blocker is not None:
        raise NotIndexableError(f"{blocker.operation} ({blocker.site}) cannot be indexed, so neither can this dataset")
    count = node.cardinality
    if isinstance(index, slice):
        endless = any(v is None or v < 0 for v in (index.start or 0, index.stop)) or (index.step or 1) < 0
        if count == INFINITE and endless:
            raise IndexError("a slice of an infinite dataset needs a start and a stop from the beginning")
        length = count if count.known else index.stop
        rows = range(*index.indices(length))
        return self._then(Select, rows.start, len(rows), rows.step)
    number = integer("index", index)
    if count.known and not -count <= number < count:
        raise IndexError(f"element {number} of a dataset of {count}")
    if count == INFINITE and number < 0:
        raise IndexError("an infinite dataset has no end to count from")
    number = number + count if number < 0 else number
    item = fetched(node, Context(Run(options=merged(node))).epoch(0), scalar_block(np.array([number])))[0]
    if isinstance(item, Failure):
        raise item.error.copy()
    try:
        (element,) = item.elements()
    except Exception as error:
        raise node.error(error, number) from error
    return element


@dataclass(frozen=True, eq=False)
class Select(Keeping):
    """Rows start, start + step, … of an indexable input, `count` of them."""

    start: int
    count: int
    step: int

    @property
    def operation(self) -> str:
        return "slice"

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.count)

    indexable = True
    positional = True

    def open(self, ctx: Context, mark: Mark) -> Stream:  # noqa: ARG002
        return NumberStream(ctx, self.input, self.count, lambda a, b: self.start + np.arange(a, b) * self.step)

    def at(self, ctx: Context, indices: Indices) -> Block:
        return self.input.at(ctx, self.start + indices * self.step)
