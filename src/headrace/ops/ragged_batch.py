"""Batches of elements that differ in length, kept as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace.block import Block
from headrace.columns import Column, RaggedText, Varied, group_rows, kind_of
from headrace.ops.arguments import positive
from headrace.ops.batching import Batching
from headrace.plan.spec import LeafSpec, Spec
from headrace.ragged import Ragged

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def ragged_batch(
    self: Dataset,
    batch_size: int,
    drop_remainder: bool = False,
    row_splits_dtype: DTypeLike = np.int64,
    name: str | None = None,
) -> Dataset:
    """Combine every `batch_size` elements; components without a has_fixed_shape shape become an hr.Ragged.

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
            made = ragged(col, size, path, dense=spec is not None and has_fixed_shape(spec))
            if isinstance(made, str):
                return made
            columns.append(made)
        return Block(structure, columns, groups, block.mark, None if block.ids is None else block.ids[::size])


def has_fixed_shape(spec: LeafSpec) -> bool:
    """Whether all elements have one shape, as far as is known."""
    return spec.shape is not None and None not in spec.shape


def ragged(col: Column, size: int, path: str, *, dense: bool) -> Column | str:
    """Every `size` rows of a column together: stacked if they are `dense` or have no axes, else ragged."""
    if isinstance(col, list) and any(isinstance(row, np.ndarray) for row in col):
        if len({np.shape(row)[1:] for row in col}) > 1 or not all(np.ndim(row) for row in col):
            return f"component{path}: {UNEVEN}" if path else UNEVEN
        col = Ragged.from_rows(col)
    if isinstance(col, RaggedText):
        col = col.boxed()
    if isinstance(col, Varied):
        return f"component{path}: {UNEVEN}" if path else UNEVEN
    keep = isinstance(col, np.ndarray | Ragged) and not dense and len(col.shape) > 1
    return group_rows(col, size) if keep else kind_of(col).stack(col, size, path)


UNEVEN = "elements that differ in more than their first axis cannot make a ragged batch"
