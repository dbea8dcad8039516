"""Batches of elements that differ in length, kept as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.block import Block, Column, Indices, Mark, stackable, values
from headrace.execute.context import Context
from headrace.execute.stream import Stream
from headrace.ops.arguments import positive
from headrace.ops.batch import BatchStream, batches_at
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import Node
from headrace.plan.spec import Spec, TensorSpec
from headrace.ragged import Ragged, as_ragged

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def ragged_batch(self: Dataset, batch_size: int, drop_remainder: bool = False, *, name: str | None = None) -> Dataset:
    """Combine every `batch_size` elements; components without a fixed shape become an hr.Ragged.

    >>> rows = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([[1], [2, 3], [4, 5, 6]]))
    >>> list(rows.ragged_batch(2))
    [Ragged([[1], [2, 3]], dtype=int64), Ragged([[4, 5, 6]], dtype=int64)]
    """
    return self._then(RaggedBatch, positive("batch_size", batch_size), bool(drop_remainder), name=name)


@dataclass(frozen=True, eq=False)
class RaggedBatch(Node):
    """Every `batch_size` rows become one, each of its own length."""

    input: Node
    batch_size: int
    drop_remainder: bool = False

    boxes_text = False

    @property
    def operation(self) -> str:
        return "ragged_batch"

    @property
    def spec(self) -> Spec:
        known = self.input.spec
        leaves = (
            TensorSpec(s.shape and (s.shape if fixed(s) else (None, *s.shape[1:])), s.dtype) for s in known.leaves
        )
        return Spec(known.structure, tuple(leaves)).stacked(self.batch_size if self.drop_remainder else None)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.divided(self.batch_size, up=not self.drop_remainder)

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return BatchStream(self, ctx, mark)

    def at(self, ctx: Context, indices: Indices) -> Block:
        return batches_at(self, ctx, indices)

    def assemble(self, block: Block, size: int) -> Block | str:
        """Every `size` rows of a block as one, or why not."""
        groups, structure = block.rows // size, block.structure
        known = self.input.spec.leaves if self.input.spec.structure == structure else (None,) * structure.leaves
        columns: list[Column] = []
        for path, col, spec in zip(structure.paths, block.columns, known, strict=True):
            made = ragged(col, groups, size, dense=spec is not None and fixed(spec))
            if isinstance(made, str):
                return f"component{path}: {made}" if path else made
            columns.append(made)
        return Block(structure, columns, groups, block.mark, None if block.ids is None else block.ids[::size])


def fixed(spec: TensorSpec) -> bool:
    """Whether all elements have one shape, as far as is known."""
    return spec.shape is not None and None not in spec.shape


def ragged(col: Column, groups: int, size: int, *, dense: bool) -> Column | str:
    """Every `size` rows of a column together: stacked if they are `dense` or have no axes, else ragged."""
    rows = col if isinstance(col, np.ndarray | Ragged) else None
    if rows is None:
        listed = list(values(col))
        if any(isinstance(r, np.ndarray) for r in listed):
            shapes = {np.shape(r)[1:] for r in listed}
            if len(shapes) > 1 or not all(np.ndim(r) for r in listed):
                return "elements that differ in more than their first axis cannot make a ragged batch"
            rows = Ragged.from_rows(listed)
    if rows is None or dense or (isinstance(rows, np.ndarray) and rows.ndim == 1):
        stacked = stackable(col)
        return stacked if isinstance(stacked, str) else stacked.reshape(groups, size, *stacked.shape[1:])
    whole = rows if isinstance(rows, Ragged) else as_ragged(rows)
    return [whole[i * size : (i + 1) * size] for i in range(groups)]
