"""Arrays of one dtype and rank that differ in shape, such as images of different sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns.kind import Column, Indices, Kind, register_kind
from headrace.plan.spec import TensorSpec
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = NDArray[np.int64]


class Varied:
    """Row i is the array of shape `shapes[i]` that begins at `starts[i]` of `data`, which is flat."""

    __slots__ = ("data", "shapes", "starts")

    def __init__(self, data: NDArray[Any], shapes: Offsets, starts: Offsets | None = None) -> None:
        self.data = data
        self.shapes = shapes
        self.starts = np.concatenate([[0], np.cumsum(shapes.prod(1))[:-1]]) if starts is None else starts

    @classmethod
    def from_rows(cls, rows: Sequence[NDArray[Any]]) -> Varied:
        """Of arrays of one dtype and rank."""
        shapes = np.array([row.shape for row in rows], np.int64).reshape(len(rows), rows[0].ndim)
        return cls(np.concatenate([row.ravel() for row in rows]), shapes)

    @property
    def sizes(self) -> Offsets:
        """How many values each row has."""
        return self.shapes.prod(1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.data.dtype

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, rows: slice) -> Varied:
        return Varied(self.data, self.shapes[rows], self.starts[rows])

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for start, size, shape in zip(self.starts.tolist(), self.sizes.tolist(), self.shapes.tolist(), strict=True):
            yield self.data[start : start + size].reshape(shape)

    def packed(self) -> NDArray[Any]:
        """The values of the rows, one row after another."""
        if not len(self):
            return self.data[:0]
        ends = self.starts + self.sizes
        if (self.starts[1:] == ends[:-1]).all():
            return self.data[int(self.starts[0]) : int(ends[-1])]
        return np.concatenate([row.ravel() for row in self])

    def __reduce__(self) -> tuple[Any, ...]:
        return Varied, (self.packed(), self.shapes)


class VariedKind(Kind):
    """See Varied."""

    name = "varied"

    def rows(self, column: Varied) -> Iterator[Any]:
        return iter(column)

    def take(self, column: Varied, indices: Indices) -> Varied:
        return Varied(column.data, column.shapes[indices], column.starts[indices])

    def join(self, columns: Sequence[Varied]) -> Varied | None:
        first = columns[0]
        if any(c.dtype != first.dtype or c.shapes.shape[1] != first.shapes.shape[1] for c in columns):
            return None
        shapes = np.concatenate([c.shapes for c in columns])
        if all(c.data is first.data for c in columns):
            return Varied(first.data, shapes, np.concatenate([c.starts for c in columns]))
        return Varied(np.concatenate([c.packed() for c in columns]), shapes)

    def stack(self, column: Varied, size: int) -> Column | str:
        first = column.shapes[0]
        other = np.flatnonzero((column.shapes != first).any(1))
        if len(other):
            shapes = tuple(first.tolist()), tuple(column.shapes[other[0]].tolist())
            return f"differ: shape {shapes[0]} against {shapes[1]}, element {other[0]} of those put together"
        return column.packed().reshape(len(column) // size, size, *first.tolist())

    def group(self, column: Varied, size: int) -> Column | str:
        from headrace.columns.stacked import Stacked

        if (column.shapes[:, 1:] == column.shapes[:1, 1:]).all():
            return Stacked(as_rows(column), (size,))
        return "elements that differ in more than their first axis cannot make a ragged batch"

    def nbytes(self, column: Varied) -> int:
        return int(column.sizes.sum()) * column.dtype.itemsize + column.shapes.nbytes

    def spec(self, column: Varied) -> TensorSpec:
        first = column.shapes[0]
        alike = (column.shapes == first).all(0)
        return TensorSpec([int(n) if same else None for n, same in zip(first, alike, strict=True)], column.dtype)

    def lock(self, column: Varied) -> Varied:
        view = column.data.view()
        view.flags.writeable = False
        return Varied(view, column.shapes, column.starts)

    def copy(self, column: Varied) -> Varied:
        return Varied(column.packed().copy(), column.shapes)

    def to_arrow(self, column: Varied) -> tuple[pa.Array, dict[str, Any]]:
        import pyarrow as pa

        from headrace.columns.dense import arrow_of

        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(column.sizes)])
        values = pa.LargeListArray.from_arrays(pa.array(offsets), arrow_of(column.packed()))
        made = pa.StructArray.from_arrays([values, arrow_of(column.shapes)], ["values", "shape"])
        return made, {"kind": self.name, "dtype": column.dtype.str, "rank": column.shapes.shape[1]}

    def from_arrow(self, array: pa.Array, notes: dict[str, Any]) -> Varied:
        from headrace.columns.dense import array_of

        values, shapes = array.flatten()
        dims = array_of(shapes, np.dtype(np.int64)).reshape(len(array), notes["rank"])
        data = array_of(values.flatten(), np.dtype(notes["dtype"]))
        made = Varied(data, dims)
        if (dims < 0).any() or int(made.sizes.sum()) != len(data):
            raise ValueError("shapes and values do not fit together")
        return made


def as_rows(column: Varied) -> Ragged:
    """Rows that differ in their first axis alone, as ragged ones."""
    lengths = column.shapes[:, 0]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Ragged._of(column.packed().reshape(-1, *column.shapes[0, 1:].tolist()), offsets)


register_kind(VariedKind(), Varied)
