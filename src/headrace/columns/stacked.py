"""Rows that are arrays of rows of another column, all of one shape: batches of text, batches of ragged rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns.kind import Column, Indices, Kind, kind_named, kind_of, register_kind
from headrace.columns.text import Text
from headrace.plan.spec import TensorSpec
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa


class Stacked:
    """Row i is an array of the given shape whose items are the rows of `inner` that come next."""

    __slots__ = ("inner", "shape")

    def __init__(self, inner: Column, shape: tuple[int, ...]) -> None:
        self.inner = inner
        self.shape = shape

    @property
    def size(self) -> int:
        """How many inner rows a row has."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return len(self.inner) // self.size

    def __getitem__(self, rows: slice) -> Stacked:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            return StackedKind().take(self, np.arange(start, stop, step))
        return Stacked(self.inner[start * self.size : max(start, stop) * self.size], self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return Stacked, (self.inner, self.shape)


class StackedKind(Kind):
    """See Stacked. Text comes out as arrays of objects, ragged rows as an hr.Ragged of one rank more."""

    name = "stacked"

    def rows(self, column: Stacked) -> Iterator[Any]:
        inner, shape = column.inner, column.shape
        if isinstance(inner, Text):
            return iter(inner.objects().reshape(len(column), *shape))
        if isinstance(inner, Ragged):
            return (nest(inner[i : i + column.size], shape) for i in range(0, len(inner), column.size))
        return (_boxes(row, shape) for row in _runs(list(kind_of(inner).rows(inner)), column.size))

    def take(self, column: Stacked, indices: Indices) -> Stacked:
        inner = (indices[:, None] * column.size + np.arange(column.size)).ravel()
        return Stacked(kind_of(column.inner).take(column.inner, inner), column.shape)

    def join(self, columns: Sequence[Stacked]) -> Stacked | None:
        from headrace.columns import join_alike

        shapes = {c.shape for c in columns}
        inner = join_alike([c.inner for c in columns]) if len(shapes) == 1 else None
        return None if inner is None else Stacked(inner, shapes.pop())

    def stack(self, column: Stacked, size: int) -> Column:
        return Stacked(column.inner, (size, *column.shape))

    def unstack(self, column: Stacked) -> tuple[Column, Indices]:
        first, *rest = column.shape
        inner = Stacked(column.inner, tuple(rest)) if rest else column.inner
        return inner, np.full(len(column), first)

    def nbytes(self, column: Stacked) -> int:
        return kind_of(column.inner).nbytes(column.inner)

    def spec(self, column: Stacked) -> TensorSpec:
        inner = kind_of(column.inner).spec(column.inner)
        return TensorSpec(None if inner.shape is None else (*column.shape, *inner.shape), inner.dtype)

    def lock(self, column: Stacked) -> Stacked:
        return Stacked(kind_of(column.inner).lock(column.inner), column.shape)

    def copy(self, column: Stacked) -> Stacked:
        return Stacked(kind_of(column.inner).copy(column.inner), column.shape)

    def to_arrow(self, column: Stacked) -> tuple[pa.Array, dict[str, Any]]:
        import pyarrow as pa

        inner, notes = kind_of(column.inner).to_arrow(column.inner)
        lists = pa.FixedSizeListArray.from_arrays(inner, column.size) if column.size else pa.nulls(len(column))
        return lists, {"kind": self.name, "shape": list(column.shape), "values": notes}

    def from_arrow(self, array: pa.Array, notes: dict[str, Any]) -> Stacked:
        inner = notes["values"]
        return Stacked(kind_named(inner["kind"]).from_arrow(array.flatten(), inner), tuple(notes["shape"]))


def nest(rows: Ragged, shape: tuple[int, ...]) -> Ragged:
    """Ragged rows in an array of this shape: every axis but the last makes rows of rows."""
    for size in reversed(shape[1:]):
        rows = Ragged._of(rows, np.arange(len(rows) // size + 1) * size)
    return rows


def _runs(rows: list[Any], size: int) -> Iterator[list[Any]]:
    return (rows[i : i + size] for i in range(0, len(rows), size))


def _boxes(rows: list[Any], shape: tuple[int, ...]) -> Any:
    boxes = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        boxes[i] = row
    return boxes.reshape(shape)


register_kind(StackedKind(), Stacked)
