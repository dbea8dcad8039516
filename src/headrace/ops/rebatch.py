"""Batches of other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.block import Block, Column, Failure, Item, Mark, concat, fold, folded
from headrace.errors import ElementError, SpecError
from headrace.execute.context import Context
from headrace.execute.stream import END, Pending, Pulled, Stream
from headrace.ops.arguments import integer, positive
from headrace.ops.batch import BATCHED
from headrace.plan.cardinality import INFINITE, UNKNOWN, Cardinality
from headrace.plan.node import Node
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def rebatch(
    self: Dataset, batch_size: int | Sequence[int], drop_remainder: bool = False, name: str | None = None
) -> Dataset:
    """Take batches apart and put their rows into batches of `batch_size`; of several sizes, in turn, if it is a list.

    >>> list(hr.Dataset.range(6).batch(4).rebatch([1, 2]))
    [array([0]), array([1, 2]), array([3]), array([4, 5])]
    """
    rows = self.unbatch()
    if not isinstance(batch_size, Sequence):
        return rows.batch(positive("batch_size", batch_size), drop_remainder, name=name)
    sizes = tuple(integer("batch_size", n) for n in batch_size)
    if not sizes or min(sizes) < 0 or max(sizes) == 0:
        raise ValueError(f"rebatch: batch_size must hold sizes of which one is at least 1, not {list(sizes)}")
    return rows._then(Rebatch, sizes, bool(drop_remainder), name=name)


@dataclass(frozen=True, eq=False)
class Rebatch(Node):
    """Rows in batches whose sizes follow a cycle; a size of 0 is an empty batch."""

    input: Node
    sizes: tuple[int, ...]
    drop_remainder: bool = False

    @property
    def spec(self) -> Spec:
        known = set(self.sizes)
        return self.input.spec.stacked(known.pop() if self.drop_remainder and len(known) == 1 else None)

    @property
    def cardinality(self) -> Cardinality:
        return INFINITE if self.input.cardinality == INFINITE else UNKNOWN

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return RebatchStream(self, ctx, mark)


class RebatchStream(Stream):
    """The mark is the input's where the batch began, and its turn in the cycle."""

    def __init__(self, node: Rebatch, ctx: Context, mark: Mark) -> None:
        self._node = node
        inner, turn = mark or (None, 0)
        self._turn: int = turn
        self._input = ctx.open(node.input, inner)
        self._waiting = Pending(own=False)
        self._over = False

    def pull(self, want: int) -> Pulled:  # noqa: ARG002 - batches of different sizes come one by one
        if self._over:
            return END
        size = self._node.sizes[self._turn]
        first = self._peek(max(size, 1))
        if first is END:
            self._over = True
            return END
        mark = (first.mark, self._turn)
        parts: list[Item] = []
        rows = 0
        while rows < size:
            item = self._peek(size - rows)
            if item is END:
                self._over = True
                break
            parts.append(self._waiting.pull(size - rows))
            rows += parts[-1].rows
        if rows < size and self._node.drop_remainder:
            return END
        made = self._stacked(parts, rows) if size else self._empty(first)
        self._turn = (self._turn + 1) % len(self._node.sizes)
        made.mark = mark
        return made

    def _peek(self, want: int) -> Pulled:
        if not self._waiting:
            item = self._input.pull(want)
            if item is END:
                return END
            self._waiting.add([item])
        return self._waiting.first()

    def _stacked(self, parts: list[Item], rows: int) -> Item:
        blocks = []
        for part in parts:
            if isinstance(part, Failure):
                return Failure(part.error)
            blocks.append(part)
        made = fold(concat(blocks), rows) if len({b.structure for b in blocks}) == 1 else "the elements differ"
        if isinstance(made, str):
            return Failure(self._error(made))
        made.ids = folded(made.ids, BATCHED)
        return made

    def _empty(self, like: Item) -> Item:
        if isinstance(like, Failure):
            return Failure(like.error)
        row = fold(like.slice(0, 1), 1)
        if isinstance(row, str):
            return Failure(self._error(row))
        columns: list[Column] = [c[:, :0] for c in row.columns if isinstance(c, np.ndarray)]
        return Block(row.structure, columns, 1, None, folded(row.ids, BATCHED + 1 + self._turn))

    def _error(self, why: str) -> ElementError:
        return self._node.error(SpecError(why), self._input.ordinal)
