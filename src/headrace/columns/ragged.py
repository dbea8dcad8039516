"""Rows that differ in the length of their first axis: hr.Ragged as a column.

If its values are ragged again, the rows are hr.Ragged themselves, else arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.kind import Column, Indices, Kind, Notes, kind_named, kind_of, register_kind
from headrace.core.ragged import Ragged, as_ragged, joined_ragged, row_views
from headrace.core.types import Array, Component
from headrace.plan import mismatch
from headrace.plan.spec import TensorSpec, leaf_spec

if TYPE_CHECKING:
    import pyarrow as pa


class RaggedKind(Kind):
    """An hr.Ragged."""

    name = "ragged"

    def values(self, column: Ragged) -> Iterator[Component]:
        return iter(row_views(column))

    def take(self, column: Ragged, indices: Indices) -> Ragged:
        return column.take(indices)

    def join(self, columns: Sequence[Ragged]) -> Ragged | None:
        first = columns[0]
        alike = all(c.dtype == first.dtype and c.shape[2:] == first.shape[2:] for c in columns)
        return joined_ragged(columns) if alike and len({_depth(c) for c in columns}) == 1 else None

    def stack(self, column: Ragged, size: int, path: str) -> Column | str:
        if isinstance(column.values, Ragged):
            return group_rows(column, size)
        lengths, dense = column.row_lengths(), column.values
        if (lengths == lengths[0]).all():
            return dense.reshape(len(column) // size, size, int(lengths[0]), *dense.shape[1:])
        other = int(np.flatnonzero(lengths != lengths[0])[0])
        return mismatch.why_components_differ(path, leaf_spec(column[0]), leaf_spec(column[other]), other)

    def unstack(self, column: Ragged) -> tuple[Column, Indices]:
        return column.values, column.row_lengths()

    def nbytes(self, column: Ragged) -> int:
        return column.nbytes

    def spec(self, column: Ragged) -> TensorSpec:
        return TensorSpec((None, *column.values.shape[1:]), column.dtype)

    def lock(self, column: Ragged) -> Ragged:
        return Ragged._of(kind_of(column.values).lock(column.values), column.offsets)

    def copy(self, column: Ragged) -> Ragged:
        return Ragged._of(kind_of(column.values).copy(column.values), column.offsets.copy())

    def to_arrow(self, column: Ragged) -> tuple[pa.Array, Notes]:
        import pyarrow as pa

        if column.dtype.hasobject:
            return kind_named("objects").to_arrow(list(column))
        inner, notes = kind_of(column.values).to_arrow(column.values)
        return pa.LargeListArray.from_arrays(pa.array(column.offsets), inner), {"kind": self.name, "values": notes}

    def from_arrow(self, array: pa.Array, notes: Notes) -> Ragged:
        inner = notes["values"]
        if inner["kind"] not in ("dense", self.name):
            raise ValueError(f"ragged rows of {inner['kind']}")
        return Ragged(kind_named(inner["kind"]).from_arrow(array.values, inner), array.offsets.to_numpy())


def _depth(rows: Ragged | Array) -> int:
    return 1 + _depth(rows.values) if isinstance(rows, Ragged) else 0


def group_rows(rows: Array | Ragged, size: int) -> Ragged:
    """Return every `size` rows as one, each an hr.Ragged: rows of arrays, or of ragged rows, keep their lengths."""
    ragged = rows if isinstance(rows, Ragged) else as_ragged(rows)
    return Ragged._of(ragged, np.arange(len(ragged) // size + 1) * size)


register_kind(RaggedKind(), Ragged)
