"""Rows that are arrays of text of one shape, for example batches, for which objects are created lazily."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.dense import sizes
from headrace.columns.kind import Column, Indices, Kind, Notes, kind_named, kind_of, register_kind
from headrace.columns.text import box_text
from headrace.core.override import override
from headrace.core.types import Array, Component, Reduced
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa


class Stacked:
    """Row i is an array of the given shape, of the `inner` texts that come next."""

    __slots__ = ("inner", "shape")

    def __init__(self, inner: pa.Array, shape: tuple[int, ...]) -> None:
        self.inner: Column = inner
        self.shape: tuple[int, ...] = shape

    @property
    def size(self) -> int:
        """Return how many texts a row has."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return len(self.inner) // self.size

    def __getitem__(self, rows: slice) -> Stacked:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            return KIND.take(self, np.arange(start, stop, step))
        return Stacked(self.inner[start * self.size : max(start, stop) * self.size], self.shape)

    def boxed(self) -> Array:
        """Return all rows as one array of objects."""
        return box_text(self.inner).reshape(len(self), *self.shape)

    def __reduce__(self) -> Reduced:
        return Stacked, (self.inner, self.shape)


class StackedKind(Kind):
    """See Stacked."""

    name = "stacked"

    def values(self, column: Stacked) -> Iterator[Component]:
        return iter(column.boxed())

    def take(self, column: Stacked, indices: Indices) -> Stacked:
        inner = (indices[:, None] * column.size + np.arange(column.size)).ravel()
        return Stacked(kind_of(column.inner).take(column.inner, inner), column.shape)

    def join(self, columns: Sequence[Stacked]) -> Stacked | None:
        shapes = {c.shape for c in columns}
        inner = kind_of(columns[0].inner).join([c.inner for c in columns]) if len(shapes) == 1 else None
        return None if inner is None else Stacked(inner, shapes.pop())

    @override
    def stack(self, column: Stacked, size: int, path: str) -> Stacked:
        return Stacked(column.inner, (size, *column.shape))

    def unstack(self, column: Stacked) -> tuple[Column, Indices]:
        first, *rest = column.shape
        return Stacked(column.inner, tuple(rest)) if rest else column.inner, np.full(len(column), first)

    def nbytes(self, column: Stacked) -> int:
        return kind_of(column.inner).nbytes(column.inner)

    def spec(self, column: Stacked) -> TensorSpec:
        return TensorSpec(column.shape, kind_of(column.inner).spec(column.inner).dtype)

    def to_arrow(self, column: Stacked) -> tuple[pa.Array, Notes]:
        import pyarrow as pa

        lists = pa.FixedSizeListArray.from_arrays(column.inner, column.size)
        return lists, {"kind": self.name, "shape": list(column.shape)}

    def from_arrow(self, array: pa.Array, notes: Notes) -> Stacked:
        shape, inner = sizes(notes), kind_named("text").from_arrow(array.flatten(), {})
        if not shape or math.prod(shape) * len(array) != len(inner) or not math.prod(shape):
            raise ValueError(f"{len(inner)} texts in {len(array)} arrays of shape {shape}")
        return Stacked(inner, shape)


KIND = StackedKind()
register_kind(KIND, Stacked)
