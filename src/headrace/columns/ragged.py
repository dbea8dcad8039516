"""Rows that differ in the length of their first axis: hr.Ragged as a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns.dense import fits
from headrace.columns.kind import Column, Indices, Kind, kind_named, kind_of, register_kind
from headrace.plan.spec import TensorSpec
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.plan.spec import Shape


class RaggedKind(Kind):
    """A column of any kind holds the rows of all rows; the offsets say where each begins."""

    name = "ragged"

    def rows(self, column: Ragged) -> Iterator[Any]:
        return iter(column)

    def take(self, column: Ragged, indices: Indices) -> Ragged:
        return column.take(indices)

    def join(self, columns: Sequence[Ragged]) -> Ragged | None:
        from headrace.columns import join_alike

        inner = join_alike([c.inner for c in columns])
        if inner is None:
            return None
        lengths = np.concatenate([c.row_lengths() for c in columns])
        return Ragged._of(inner, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))

    def stack(self, column: Ragged, size: int) -> Column | str:
        from headrace.columns.stacked import Stacked

        lengths, inner = column.row_lengths(), column.inner
        if not isinstance(inner, np.ndarray) or inner.dtype.hasobject:
            return Stacked(column, (size,))
        if (lengths == lengths[0]).all():
            dense = inner.reshape(len(column), int(lengths[0]), *inner.shape[1:])
            stacked: Column | str = kind_of(dense).stack(dense, size)
            return stacked
        other = int(np.flatnonzero(lengths != lengths[0])[0])
        return f"differ: shape {column[0].shape} against {column[other].shape}, element {other} of those put together"

    def group(self, column: Ragged, size: int) -> Column | str:
        from headrace.columns.stacked import Stacked

        return Stacked(column, (size,))

    def pad(self, column: Ragged, size: int, shape: Shape, filler: Any) -> Column | str:
        inner = column.inner
        if not isinstance(inner, np.ndarray) or (shape is not None and not fits(inner.shape[1:], shape[1:])):
            return super().pad(column, size, shape, filler)
        groups, length = len(column) // size, None if shape is None else shape[0]
        longest = column.row_lengths().reshape(groups, size).max(1, initial=0)
        if length is not None and longest.max(initial=0) > length:
            return f"an element of length {longest.max()} does not fit into {length}"
        from headrace.columns import column_of
        from headrace.columns.padding import default_filler

        fill = default_filler(column.dtype) if filler is None else filler
        batches = [
            column[i * size : (i + 1) * size].to_padded(fill, int(longest[i]) if length is None else length)
            for i in range(groups)
        ]
        return column_of(batches)

    def unstack(self, column: Ragged) -> tuple[Column, Indices]:
        return column.inner, column.row_lengths()

    def nbytes(self, column: Ragged) -> int:
        return kind_of(column.inner).nbytes(column.inner) + column.offsets.nbytes

    def spec(self, column: Ragged) -> TensorSpec:
        inner = kind_of(column.inner).spec(column.inner)
        return TensorSpec(None if inner.shape is None else (None, *inner.shape), inner.dtype)

    def lock(self, column: Ragged) -> Ragged:
        return Ragged._of(kind_of(column.inner).lock(column.inner), column.offsets)

    def copy(self, column: Ragged) -> Ragged:
        return Ragged._of(kind_of(column.inner).copy(column.inner), column.offsets.copy())

    def to_arrow(self, column: Ragged) -> tuple[pa.Array, dict[str, Any]]:
        import pyarrow as pa

        values, notes = kind_of(column.inner).to_arrow(column.inner)
        return pa.LargeListArray.from_arrays(pa.array(column.offsets), values), {"kind": self.name, "values": notes}

    def from_arrow(self, array: pa.Array, notes: dict[str, Any]) -> Ragged:
        inner = notes["values"]
        return Ragged._of(kind_named(inner["kind"]).from_arrow(array.values, inner), array.offsets.to_numpy())


def as_ragged(dense: NDArray[Any]) -> Ragged:
    """Rows of one length as ragged ones."""
    rows, length = dense.shape[:2]
    return Ragged._of(dense.reshape(rows * length, *dense.shape[2:]), np.arange(rows + 1) * length)


register_kind(RaggedKind(), Ragged)
