"""Batches of elements that differ in length, kept as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace.block import Block, Column, stackable, values
from headrace.ops.arguments import positive
from headrace.ops.batching import Batching
from headrace.plan.spec import LeafSpec, Spec
from headrace.ragged import Ragged, as_ragged

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def ragged_batch(
    self: Dataset,
    batch_size: int,
    drop_remainder: bool = False,
    row_splits_dtype: DTypeLike = np.int64,
    name: str | None = None,
) -> Dataset:
    """Combine every `batch_size` elements; components without a fixed shape become an hr.Ragged.

    The offsets of a Ragged are int64, so that is the only `row_splits_dtype` there is.

    >>> rows = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([[1], [2, 3], [4, 5, 6]]))
    >>> list(rows.ragged_batch(2))
    [Ragged([[1], [2, 3]], dtype=int64), Ragged([[4, 5, 6]], dtype=int64)]
    """
    if np.dtype(row_splits_dtype) != np.int64:
        raise ValueError(f"row_splits_dtype must be int64, as in an hr.Ragged, not {row_splits_dtype!r}")
    return self._then(RaggedBatch, positive("batch_size", batch_size), bool(drop_remainder), name=name)


@dataclass(frozen=True, eq=False)
class RaggedBatch(Batching):
    """Rows kept at their own lengths."""

    @property
    def operation(self) -> str:
        return "ragged_batch"

    @property
    def spec(self) -> Spec:
        known = self.input.spec
        leaves = (
            s if s.shape is None or has_fixed_shape(s) else s.with_shape((None, *s.shape[1:])) for s in known.leaves
        )
        return Spec(known.structure, tuple(leaves)).with_leading_axis(self.leading)

    def assemble(self, block: Block, size: int) -> Block | str:
        groups, structure = block.rows // size, block.structure
        known = self.input.spec.leaves if self.input.spec.structure == structure else (None,) * structure.leaves
        columns: list[Column] = []
        for path, col, spec in zip(structure.paths, block.columns, known, strict=True):
            made = ragged_rows(col, groups, size, dense=spec is not None and has_fixed_shape(spec))
            if isinstance(made, str):
                return f"component{path}: {made}" if path else made
            columns.append(made)
        return Block(structure, columns, groups, block.mark, None if block.ids is None else block.ids[::size])


def has_fixed_shape(spec: LeafSpec) -> bool:
    """Whether all elements have one shape, as far as is known."""
    return spec.shape is not None and None not in spec.shape


def ragged_rows(col: Column, groups: int, size: int, *, dense: bool) -> Column | str:
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
