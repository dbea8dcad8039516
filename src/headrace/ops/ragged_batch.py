"""Batch elements that differ in length without padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns import Column, RaggedText, Varied, group_rows, in_own_kinds, kind_of
from headrace.columns.block import Block
from headrace.core.ragged import Ragged, as_ragged
from headrace.core.types import Array, Component
from headrace.ops.shared.arguments import positive
from headrace.ops.shared.batching import Batching
from headrace.plan.dtypes import numpy_dtype
from headrace.plan.node import Node
from headrace.plan.spec import LeafSpec, Shape, Spec
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def ragged_batch(
    self: Dataset,
    batch_size: int,
    drop_remainder: bool = False,
    row_splits_dtype: DTypeLike = np.int64,
    name: str | None = None,
) -> Dataset:
    """Combine every `batch_size` elements; components whose shape is not fixed become an hr.Ragged.

    All axes up to the last one that may differ are ragged, as in tf.data. The offsets of a Ragged are int64, so that is
    the only `row_splits_dtype` there is.

    Args:
        batch_size: Number of elements in a batch.
        drop_remainder: Whether to drop the last batch if it is short.
        row_splits_dtype: Data type of the row offsets.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> rows = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([[1], [2, 3], [4, 5, 6]]))
    >>> list(rows.ragged_batch(2))
    [Ragged([[1], [2, 3]], dtype=int64), Ragged([[4, 5, 6]], dtype=int64)]
    """
    if numpy_dtype(row_splits_dtype) != np.int64:
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
        leaves = (s if has_fixed_shape(s) else s.with_shape(_open(s.shape)) for s in known.leaves)
        return Spec(known.structure, tuple(leaves)).with_leading_axis(self.leading)

    def assemble(self, block: Block, size: int) -> Block | str:
        return assemble_ragged(self.input, block, size)


def assemble_ragged(rows: Node, block: Block, size: int) -> Block | str:
    """Return every `size` rows of a block that `rows` gave as one, or why not."""
    structure = block.structure
    columns: list[Column] = []
    for path, col, axes in zip(structure.paths, block.columns, ragged_axes(rows, structure), strict=True):
        made = ragged(col, size, path, axes)
        if isinstance(made, str):
            return made
        columns.append(made)
    return Block(structure, columns, block.rows // size, block.mark, None if block.ids is None else block.ids[::size])


def ragged_axes(rows: Node, structure: Structure) -> list[int | None]:
    """Return for each component how many of its axes are ragged in batches; None if it depends on the rows.

    What an element has shown of a function's results is ignored, because it depends on earlier calls.
    """
    known = rows.spec
    if known.structure != structure:
        return [None] * structure.leaves
    return [_ragged_axes(s.shape, tentative=rows.tentative) for s in known.leaves]


def has_fixed_shape(spec: LeafSpec) -> bool:
    """Return whether all elements have one shape, as far as is known."""
    return spec.shape is not None and None not in spec.shape


def _open(shape: Shape) -> Shape:
    """Return the shape of elements in a ragged batch: their first axis has no one length."""
    return (None, *shape[1:]) if shape else shape


def _ragged_axes(shape: Shape, *, tentative: bool) -> int | None:
    if shape is None or tentative:
        return None
    return max((axis + 1 for axis, size in enumerate(shape) if size is None), default=0)


def ragged(col: Column, size: int, path: str, axes: int | None) -> Column | str:
    """Return every `size` rows of a column together: stacked if no axis is ragged or there are none, else ragged."""
    col = in_own_kinds(col)
    if isinstance(col, RaggedText):
        col = col.boxed()
    arrays = [row for row in col if isinstance(row, np.ndarray)] if isinstance(col, list) else []
    if arrays:
        if len({(row.ndim, row.dtype) for row in arrays}) > 1 or len(arrays) < len(col) or not arrays[0].ndim:
            return f"component{path}: {UNEVEN}" if path else UNEVEN
        col = Varied.from_rows(arrays)
    if not isinstance(col, np.ndarray | Ragged | Varied) or axes == 0 or (isinstance(col, np.ndarray) and col.ndim < 2):
        return kind_of(col).stack(col, size, path)
    return group_rows(_with_ragged_axes(col, axes), size)


def _with_ragged_axes(col: Array | Ragged | Varied, axes: int | None) -> Ragged:
    """Return the rows with `axes` ragged axes; if None, with as many as they need, but at least one."""
    if isinstance(col, Varied):
        differ = np.flatnonzero((col.shapes != col.shapes[0]).any(0))
        needed = int(differ[-1]) + 1 if len(differ) else 1
        return _nested(col.packed(), col.shapes, needed if axes is None else max(axes, needed))
    made = as_ragged(col) if isinstance(col, np.ndarray) else col
    inner = made._values
    if axes is None or axes < 2 or (isinstance(inner, np.ndarray) and inner.ndim < 2):
        return made
    return Ragged._of(_with_ragged_axes(inner, axes - 1), made._offsets)


def _nested(values: Array, shapes: NDArray[np.int64], axes: int) -> Ragged:
    """Return arrays of these shapes, whose values are concatenated, with their first `axes` axes ragged."""
    offsets = []
    for axis in range(axes):
        lengths = np.repeat(shapes[:, axis], shapes[:, :axis].prod(1))
        offsets.append(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
    made: Component = values.reshape(int(offsets[-1][-1]), *shapes[0, axes:])
    for cuts in reversed(offsets):
        made = Ragged._of(made, cuts)
    ragged: Ragged = made
    return ragged


UNEVEN = "elements that differ in rank or dtype cannot make a ragged batch"
