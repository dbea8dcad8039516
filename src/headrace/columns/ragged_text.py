"""Rows that are arrays of text of different lengths, for example the words of lines, stored without objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.kind import Column, Indices, Kind, Notes, kind_named, kind_of, register_kind
from headrace.columns.stacked import Stacked
from headrace.columns.text import box_text, box_words
from headrace.core.override import override
from headrace.core.ragged import Ragged, row_views
from headrace.core.types import Component, Reduced
from headrace.plan import mismatch
from headrace.plan.spec import TensorSpec, leaf_spec

if TYPE_CHECKING:
    import pyarrow as pa


class RaggedText:
    """Row i is an array of the texts `inner[offsets[i]:offsets[i + 1]]`."""

    __slots__ = ("_inner", "_offsets")

    def __init__(self, inner: pa.Array, offsets: Indices) -> None:
        self._inner = inner
        self._offsets = offsets

    @property
    def inner(self) -> pa.Array:
        """The texts of all rows."""
        return self._inner[int(self._offsets[0]) : int(self._offsets[-1])]

    @property
    def offsets(self) -> Indices:
        """Return where each row begins in `inner`, and where the last one ends."""
        return self._offsets - self._offsets[0] if self._offsets[0] else self._offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, rows: slice) -> RaggedText:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            return KIND.take(self, np.arange(start, stop, step))
        return RaggedText(self._inner, self._offsets[start : max(start, stop) + 1])

    def boxed(self) -> Ragged:
        """Return all rows as an hr.Ragged of objects."""
        return Ragged._of(box_words(self.inner), self.offsets)

    def __reduce__(self) -> Reduced:
        return RaggedText, (self.inner, self.offsets)


class RaggedTextKind(Kind):
    """See RaggedText."""

    name = "ragged text"

    def values(self, column: RaggedText) -> Iterator[Component]:
        return iter(row_views(column.boxed()))

    def take(self, column: RaggedText, indices: Indices) -> RaggedText:
        places = Ragged._of(np.arange(len(column.inner)), column.offsets).take(np.asarray(indices))
        return RaggedText(kind_of(column.inner).take(column.inner, places.values), places.offsets)

    def join(self, columns: Sequence[RaggedText]) -> RaggedText | None:
        inner = kind_of(columns[0].inner).join([c.inner for c in columns])
        lengths = np.concatenate([np.diff(c.offsets) for c in columns])
        return None if inner is None else RaggedText(inner, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))

    def stack(self, column: RaggedText, size: int, path: str) -> Column | str:
        lengths = np.diff(column.offsets)
        if (lengths == lengths[0]).all():
            boxed = box_text(column.inner).reshape(len(column) // size, size, int(lengths[0]))
            return Stacked(column.inner, (size, int(lengths[0]))) if lengths[0] else boxed
        other = int(np.flatnonzero(lengths != lengths[0])[0])
        rows = column.boxed()
        return mismatch.why_components_differ(path, leaf_spec(rows[0]), leaf_spec(rows[other]), other)

    def unstack(self, column: RaggedText) -> tuple[Column, Indices]:
        return column.inner, np.diff(column.offsets)

    def nbytes(self, column: RaggedText) -> int:
        return kind_of(column.inner).nbytes(column.inner) + column.offsets.nbytes

    def spec(self, column: RaggedText) -> TensorSpec:
        return TensorSpec((None,), kind_of(column._inner).spec(column._inner).dtype)

    def to_arrow(self, column: RaggedText) -> tuple[pa.Array, Notes]:
        import pyarrow as pa

        return pa.LargeListArray.from_arrays(pa.array(column.offsets), column.inner), {"kind": self.name}

    @override
    def from_arrow(self, array: pa.Array, notes: Notes) -> RaggedText:
        if array.null_count:
            raise ValueError(f"{array.null_count} nulls where arrays of text were stored")
        offsets = array.offsets.to_numpy()
        inner = kind_named("text").from_arrow(array.values, {})
        if len(offsets) and (offsets[0] < 0 or offsets[-1] > len(inner) or (np.diff(offsets) < 0).any()):
            raise ValueError("arrays of text with wrong offsets")
        return RaggedText(inner, offsets)


KIND = RaggedTextKind()
register_kind(KIND, RaggedText)
