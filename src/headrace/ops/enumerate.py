"""Number the elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Made, Stream
from headrace.ops.shared.arguments import integer
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF, Structure, tuple_of

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def enumerate(self: Dataset[Element], start: int = 0, name: str | None = None) -> Dataset[tuple[np.int64, Element]]:
    """Pair each element with its position, counted from `start`.

    Args:
        start: Number of the first element.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.from_tensor_slices(["a", "b"]).enumerate(start=5))
    [(np.int64(5), 'a'), (np.int64(6), 'b')]
    """
    first = integer("start", start)
    if abs(first) >= 2**63:
        raise ValueError(f"start must fit into 64 bits, not {first}")
    return self._then(Enumerate, first, name=name)


@dataclass(frozen=True, eq=False)
class Enumerate(Node):
    """Adds a column of ordinals."""

    input: Node
    start: int = 0

    one_to_one = True
    follows_device = True

    @property
    def spec(self) -> Spec:
        return Spec.tuple_of([Spec(LEAF, (TensorSpec((), np.int64),)), self.input.spec])

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@lru_cache(maxsize=64)
def _pair(structure: Structure) -> Structure:
    return tuple_of([LEAF, structure])


def number_rows(block: Block, numbers: Indices) -> Block:
    """Return the block with a column of numbers in front."""
    return Block(_pair(block.structure), [numbers, *block.columns], block.rows, block.mark, block.ids)


@fetches(Enumerate)
def fetch_numbered(node: Enumerate, ctx: Context, indices: Indices) -> Block:
    """Return rows with their numbers."""
    return number_rows(ctx.fetch(node.input, indices), indices + node.start)


@opens(Enumerate)
class EnumerateStream(Stream):
    """The input's own ordinals are the numbers: a failure has one too."""

    def __init__(self, node: Enumerate, ctx: Context, at: At) -> None:
        self._start = node.start
        self._input = ctx.open(node.input, at.inputs, any_order=True)

    def pull(self, want: int) -> Made:
        first = self._start + self._input.ordinal
        item = self._input.pull(want)
        if not isinstance(item, Block):
            return item
        return number_rows(item, np.arange(item.rows) + np.int64(first))

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)
