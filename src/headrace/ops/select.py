"""Rows in steps: what `ds[i:j:k]` means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.block import Block, Failure, Indices
from headrace.errors import NotIndexableError
from headrace.execute.context import Context
from headrace.execute.passes import Pass
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.ops.arguments import integer
from headrace.ops.gather import NumberStream
from headrace.ops.unchanged_rows import UnchangedRows
from headrace.ops.with_options import merge_options
from headrace.plan.cardinality import INFINITE, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import obstacle
from headrace.plan.prepared import Prepared

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def select_rows(self: Dataset, index: int | slice) -> Any:
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
    run = Pass(options=merge_options(node))
    try:
        context = run.context(Prepared.of(node)).epoch(0)
        item = context.fetch_items(node, np.array([number]))[0]
    finally:
        run.close()
    if isinstance(item, Failure):
        raise item.error.copy()
    try:
        (element,) = item.elements()
    except Exception as error:
        raise node.error(error, number) from error
    return element


@dataclass(frozen=True, eq=False)
class Select(UnchangedRows):
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


@opens(Select)
def open_selected(node: Select, ctx: Context, at: At) -> Stream:  # noqa: ARG001 - a place is a number
    """The rows by number."""
    return NumberStream(ctx, node.input, node.count, lambda a, b: node.start + np.arange(a, b) * node.step)


@fetches(Select)
def fetch_selected(node: Select, ctx: Context, indices: Indices) -> Block:
    """Every n-th row."""
    return ctx.fetch(node.input, node.start + indices * node.step)
