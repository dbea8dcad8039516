"""Change the sizes of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.block import Block, Failure, Item, concat, fold, folded, structures_differ
from headrace.core.override import override
from headrace.core.types import Array
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.remainder import end_of_rows
from headrace.execute.stream import END, Made, Pending, Pulled, Stream
from headrace.ops.ragged_batch import RaggedBatch, assemble_ragged
from headrace.ops.shared.arguments import integer, positive
from headrace.ops.shared.batching import BATCHED
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At, Mark, OwnMark
from headrace.plan.node import TUNING, Divides, Node
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def rebatch(
    self: Dataset, batch_size: int | Sequence[int], drop_remainder: bool = False, name: str | None = None
) -> Dataset:
    """Split batches into rows and combine these into batches of `batch_size`.

    Args:
        batch_size: Size of the new batches, or a list of sizes that take turns.
        drop_remainder: Whether to drop the last batch if it is short.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(6).batch(4).rebatch([1, 2]))
    [array([0]), array([1, 2]), array([3]), array([4, 5])]
    """
    rows = self.unbatch()
    known = self._node.leading
    if not isinstance(batch_size, Sequence):
        size = positive("batch_size", batch_size)
        group = rows.ragged_batch if ragged_rows(self._node) else rows.batch
        return group(size, drop_remainder or _divides(size, known), name=name)
    sizes = tuple(integer("batch_size", n) for n in batch_size)
    if not sizes or min(sizes) < 0 or max(sizes) == 0:
        raise ValueError(f"rebatch: batch_size must hold sizes of which one is at least 1, not {list(sizes)}")
    whole = bool(drop_remainder) or (len(set(sizes)) == 1 and _divides(sizes[0], known))
    return rows._then(Rebatch, sizes, whole, ragged_rows(self._node), name=name)


def ragged_rows(node: Node) -> bool:
    """Return whether the elements are ragged batches: those of `ragged_batch`, whatever was left out or reordered
    since.
    """
    while isinstance(node, UnchangedRows):
        node = node.input
    return isinstance(node, RaggedBatch)


def _divides(size: int, rows: int | None) -> bool:
    """Return whether batches of `rows` rows become batches of this size without a remainder: then the size is known."""
    return rows is not None and rows % size == 0


EMPTY = BATCHED + 1
"""Folded into the path of an empty batch's id, which is otherwise that of its number."""


@dataclass(frozen=True, eq=False)
class Rebatch(Node):
    """Split rows into batches whose sizes follow a cycle; a size of 0 is an empty batch, but none follows a
    short one.
    """

    input: Node
    sizes: tuple[int, ...]
    drop_remainder: bool = False
    ragged: bool = field(default=False, metadata=TUNING)

    divides = Divides.SHARES

    @property
    def spec(self) -> Spec:
        known = set(self.sizes)
        return self.input.spec.with_leading_axis(known.pop() if self.drop_remainder and len(known) == 1 else None)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.vague

    @property
    def drops_rows(self) -> bool:
        return self.drop_remainder


@dataclass(slots=True)
class BatchNumber(OwnMark):
    """Which batch it is; of an empty one, that of the batch before."""

    number: int


@opens(Rebatch, own=BatchNumber)
class RebatchStream(Stream):
    """Rebatch rows. The shape of an empty batch comes from the spec, or else from the row before it."""

    def __init__(self, node: Rebatch, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._number: int = 0 if at.own is None else at.own.number
        self._input = ctx.open(node.input, at.inputs)
        self._waiting = Pending()
        self._over = False
        self._last: Item | None = None
        self._before: tuple[Mark, int] | None = None

    @override
    def pull(self, want: int) -> Made:  # batches of different sizes come one by one
        if self._over:
            return END
        size = self._node.sizes[self._number % len(self._node.sizes)]
        made = self._batch(size) if size else self._empty()
        self._number += not self._over and made is not END
        return made

    def _batch(self, size: int) -> Made:
        parts: list[Item] = []
        rows = 0
        while rows < size:
            item = self._waiting.pull(size - rows) if self._waiting else self._input.pull(size - rows)
            if item is END:
                break
            parts.append(item)
            rows += item.rows
        self._over = rows < size
        if rows < size and self._node.drop_remainder:
            return end_of_rows(parts)
        if not rows:
            return END
        self._last = parts[-1].slice(parts[-1].rows - 1, parts[-1].rows)
        self._before = (parts[0].mark, self._number)
        made = self._stacked(parts, rows)
        made.mark, made.own = parts[0].mark, BatchNumber(self._number)
        return made

    def _stacked(self, parts: list[Item], rows: int) -> Item:
        blocks = []
        for part in parts:
            if isinstance(part, Failure):
                return Failure(part.error)
            blocks.append(part)
        made = structures_differ(blocks) or self._one(concat(blocks), rows)
        if isinstance(made, str):
            return Failure(self._node.error(SpecError(made), self._input.ordinal))
        made.ids = folded(made.ids, BATCHED)
        return made

    def _one(self, block: Block, rows: int) -> Block | str:
        return assemble_ragged(self._node.input, block, rows) if self._node.ragged else fold(block, rows)

    def _empty(self) -> Pulled:
        here = self._waiting.mark() if self._waiting else self._input.mark()
        mark, number = self._before or (here, self._number)
        made = self._no_rows(mark, BatchNumber(number))
        if made is not END:
            made.offset = self._number - number
        return made

    def _no_rows(self, mark: Mark, own: BatchNumber) -> Pulled:
        spec = spec_of_rows(self._node)
        if not spec.complete:
            row = self._last or self._peek()
            if not isinstance(row, Block):
                return END if row is END else Failure(row.error, mark, own)
            spec = Spec.of_leaves(row.structure, next(row.leaves())).without_sizes()
        ids = folded(self._ctx.ids(np.array([self._number])), EMPTY)
        assert spec.structure is not None
        return Block(spec.structure, [c[None] for c in no_rows(spec)], 1, mark, ids, own)

    def _peek(self) -> Pulled:
        if not self._waiting:
            item = self._input.pull(1)
            if item is END:
                return END
            self._waiting.add([item])
        return self._waiting.first()


def spec_of_rows(node: Rebatch) -> Spec:
    """Return the spec of the rows, regardless of what was evaluated before."""
    if not node.input.spec.complete:
        _ = dataset_of(node.input).element_spec
    return node.input.spec


def no_rows(spec: Spec) -> list[Array]:
    """Return the components of an empty batch; sizes that are not known are 0, as in tf.data."""
    made = []
    for s in spec.leaves:
        text = s.dtype is None or s.dtype.kind in "US"
        made.append(np.empty((0, *(n or 0 for n in s.shape or ())), object if text else s.dtype))
    return made
