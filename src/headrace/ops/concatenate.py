"""One dataset after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, folded, gathered
from headrace.errors import SpecError
from headrace.execute.context import OBJECTS, Context
from headrace.execute.inputs import Input
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.zip import branch_context
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import START, At, Marks, OwnMark
from headrace.plan.node import Node, places, user_site
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def concatenate(self: Dataset[Element], dataset: Dataset[Element], name: str | None = None) -> Dataset[Element]:
    """Append the elements of `dataset` to those of this dataset; `ds1 + ds2` does the same.

    Args:
        dataset: Dataset whose elements come after those of this one.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(2).concatenate(hr.Dataset.range(5, 7)))
    [np.int64(0), np.int64(1), np.int64(5), np.int64(6)]
    """
    other = getattr(dataset, "_node", None)
    if not isinstance(other, Node):
        raise TypeError(f"concatenate takes a Dataset, not {dataset!r}")
    reason = self._node.spec.mismatch(other.spec)
    if reason is not None:
        raise SpecError(f"concatenate: the elements of the two datasets differ: {reason}")
    first = self._node.branches if isinstance(self._node, Concatenate) and self._node.name is None else (self._node,)
    branches = (*first, other)
    return type(self)(Concatenate(branches, places(branches), site=user_site(), name=name))


@dataclass(frozen=True, eq=False)
class Concatenate(Node):
    """All rows of each branch in turn."""

    branches: tuple[Node, ...]
    places: tuple[int, ...] = field(repr=False)

    @property
    def spec(self) -> Spec:
        return reduce(Spec.common, [node.spec for node in self.branches])

    @property
    def cardinality(self) -> Cardinality:
        return reduce(Cardinality.plus, [node.cardinality for node in self.branches])

    @property
    def indexable(self) -> bool:
        *front, last = self.branches
        return all(node.indexable and node.cardinality.known for node in front) and last.indexable


@fetches(Concatenate)
def fetch_concatenated(node: Concatenate, ctx: Context, indices: Indices) -> Block:
    """Return the rows of whichever branch has them."""
    starts = np.cumsum([0, *(child.cardinality for child in node.branches[:-1])])

    def read(branch: int, rows: Indices) -> Block:
        return on_branch(branch_context(ctx, node.places[branch]).fetch(node.branches[branch], rows), branch)

    return gathered(starts, indices, read)


def on_branch(block: Block, branch: int) -> Block:
    """Give the rows of each dataset their own ids."""
    block.ids = folded(block.ids, branch + 1)
    return block


@dataclass(slots=True)
class Branch(OwnMark):
    """Which branch it is that rows come from."""

    number: int

    rereads = False


@opens(Concatenate, own=Branch)
class ConcatenateStream(Stream):
    """The branches in turn."""

    def __init__(self, node: Concatenate, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._branch: int = 0 if at.own is None else at.own.number
        self._input = self._open(at.inputs)

    def _open(self, marks: Marks) -> Input:
        node, place = self._node.branches[self._branch], self._node.places[self._branch]
        return branch_context(self._ctx, place).open(node, marks, slot=self._branch, form=OBJECTS, flush=True)

    def _next(self) -> bool:
        if self._branch + 1 == len(self._node.branches):
            return False
        self._input.close()
        self._branch += 1
        self._input = self._open(START)
        return True

    def pull(self, want: int) -> Made:
        while True:
            item = self._input.pull(want)
            if item is not END:
                item.own = Branch(self._branch)
                return on_branch(item, self._branch) if isinstance(item, Block) else item
            if not self._next():
                return END

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = self._input.skip(count, replay=replay)
        while done < count and self._next():
            done += self._input.skip(count - done, replay=replay)
        return done
