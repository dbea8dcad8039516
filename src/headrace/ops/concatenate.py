"""One dataset after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.block import Block, Indices, Mark, concat, folded
from headrace.errors import SpecError
from headrace.execute.context import Context, Input
from headrace.execute.stream import END, Pulled, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import Node, places
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def concatenate(self: Dataset, dataset: Dataset, *, name: str | None = None) -> Dataset:
    """The elements of this dataset, then those of `dataset`. `ds1 + ds2` says the same.

    >>> list(hr.Dataset.range(2).concatenate(hr.Dataset.range(5, 7)))
    [np.int64(0), np.int64(1), np.int64(5), np.int64(6)]
    """
    other = getattr(dataset, "_node", None)
    if not isinstance(other, Node):
        raise TypeError(f"concatenate takes a Dataset, not {dataset!r}")
    reason = self._node.spec.mismatch(other.spec)
    if reason is not None:
        raise SpecError(f"concatenate: the elements of the two datasets differ: {reason}")
    return self._then(Concatenate, other, places([self._node, other])[1], name=name)


@dataclass(frozen=True, eq=False)
class Concatenate(Node):
    """All rows of `input`, then all of `second`."""

    input: Node
    second: Node
    place: int = field(default=0, repr=False)

    @property
    def spec(self) -> Spec:
        return self.input.spec.common(self.second.spec)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.plus(self.second.cardinality)

    @property
    def indexable(self) -> bool:
        first = self.input
        return first.indexable and first.cardinality.known and self.second.indexable

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return ConcatenateStream(self, ctx, mark)

    def context(self, ctx: Context, branch: int) -> Context:
        """Where a branch is opened; see `places`."""
        return ctx.branch(self.place) if branch and self.place else ctx

    def at(self, ctx: Context, indices: Indices) -> Block:
        length = self.input.cardinality
        second = indices >= length
        parts = []
        for branch, (node, chosen) in enumerate(((self.input, ~second), (self.second, second))):
            if chosen.any():
                rows = indices[chosen] - length * branch
                parts.append(on_branch(node.at(self.context(ctx, branch), rows), branch))
        if len(parts) == 1:
            return parts[0]
        return concat(parts).take(np.argsort(np.argsort(second, kind="stable")))


def on_branch(block: Block, branch: int) -> Block:
    """The rows of the two datasets have different ids."""
    block.ids = folded(block.ids, branch + 1)
    return block


class ConcatenateStream(Stream):
    """The two inputs in turn; the mark says which."""

    def __init__(self, node: Concatenate, ctx: Context, mark: Mark) -> None:
        self._node = node
        self._ctx = ctx
        branch, inner = mark or (0, None)
        self._branch: int = branch
        self._input = self._open(inner)

    def _open(self, mark: Mark) -> Input:
        node = self._node.second if self._branch else self._node.input
        return self._node.context(self._ctx, self._branch).open(node, mark, slot=self._branch)

    def _next(self) -> bool:
        if self._branch:
            return False
        self._input.close()
        self._branch = 1
        self._input = self._open(None)
        return True

    def pull(self, want: int) -> Pulled:
        while True:
            item = self._input.pull(want)
            if item is not END:
                item.mark = (self._branch, item.mark)
                return on_branch(item, self._branch) if isinstance(item, Block) else item
            if not self._next():
                return END

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = self._input.skip(count, replay=replay)
        if done < count and self._next():
            done += self._input.skip(count - done, replay=replay)
        return done
