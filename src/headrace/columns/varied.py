"""Arrays of one dtype and rank that differ in shape, such as images of different sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.columns.dense import array_of, arrow_of, locked, number_dtype
from headrace.columns.kind import Column, Indices, Kind, Notes, register_kind
from headrace.core.extended import dtype_code
from headrace.core.types import Array, Component, DType, Reduced
from headrace.plan import mismatch
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa


class Varied:
    """Row i is the array of shape `shapes[i]` that begins at `starts[i]` of `data`, which is flat."""

    __slots__ = ("data", "shapes", "starts")

    def __init__(self, data: Array, shapes: NDArray[np.int64], starts: NDArray[np.int64] | None = None) -> None:
        self.data: Array = data
        self.shapes: NDArray[np.int64] = shapes
        self.starts: NDArray[np.int64] = np.cumsum(self.sizes) - self.sizes if starts is None else starts

    @classmethod
    def from_rows(cls, rows: Sequence[Array]) -> Varied:
        """Make a column of arrays of one dtype and rank."""
        shapes = np.array([row.shape for row in rows], np.int64).reshape(len(rows), rows[0].ndim)
        return cls(np.concatenate([row.ravel() for row in rows]), shapes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Return how many values each row has."""
        made: NDArray[np.int64] = self.shapes.prod(1)
        return made

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self.data.dtype

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, rows: slice) -> Varied:
        return Varied(self.data, self.shapes[rows], self.starts[rows])

    def __iter__(self) -> Iterator[Array]:
        for start, size, shape in zip(self.starts.tolist(), self.sizes.tolist(), self.shapes.tolist(), strict=True):
            yield self.data[start : start + size].reshape(shape)

    def packed(self) -> Array:
        """Return the concatenated values of the rows; shared if they are contiguous already."""
        if not len(self):
            return self.data[:0]
        ends = self.starts + self.sizes
        if (self.starts[1:] == ends[:-1]).all():
            return self.data[int(self.starts[0]) : int(ends[-1])]
        return np.concatenate([row.ravel() for row in self])

    def __reduce__(self) -> Reduced:
        return Varied, (self.packed(), self.shapes)


MAX_COUNTABLE_VALUES = 2.0**48
"""The most values that NumPy could count in any array, also one without any."""


class VariedKind(Kind):
    """See Varied."""

    name = "varied"

    def values(self, column: Varied) -> Iterator[Component]:
        return iter(list(column))

    def take(self, column: Varied, indices: Indices) -> Varied:
        chosen = Varied(column.data, column.shapes[indices], column.starts[indices])
        return Varied(np.concatenate([column.data[:0], *(row.ravel() for row in chosen)]), chosen.shapes)

    def join(self, columns: Sequence[Varied]) -> Varied | None:
        first = columns[0]
        if any(c.dtype != first.dtype or c.shapes.shape[1] != first.shapes.shape[1] for c in columns):
            return None
        return Varied(np.concatenate([c.packed() for c in columns]), np.concatenate([c.shapes for c in columns]))

    def stack(self, column: Varied, size: int, path: str) -> Column | str:
        first = column.shapes[0]
        others = np.flatnonzero((column.shapes != first).any(1))
        if not len(others):
            return column.packed().reshape(len(column) // size, size, *first.tolist())
        one, other = (TensorSpec(column.shapes[row].tolist(), column.dtype) for row in (0, others[0]))
        return mismatch.why_components_differ(path, one, other, int(others[0]))

    def unstack(self, column: Varied) -> tuple[list[Component], Indices]:
        return [inner for row in column for inner in row], column.shapes[:, 0].copy()

    def nbytes(self, column: Varied) -> int:
        return int(column.sizes.sum()) * column.dtype.itemsize + column.shapes.nbytes

    def spec(self, column: Varied) -> TensorSpec:
        """Return the last size, if all rows share it: more would only make a graph for every combination that comes."""
        last = column.shapes[:, -1]
        known = int(last[0]) if column.shapes.shape[1] > 2 and (last == last[0]).all() else None
        return TensorSpec([*[None] * (column.shapes.shape[1] - 1), known], column.dtype)

    def lock(self, column: Varied) -> Varied:
        return Varied(locked(column.data.view()), column.shapes, column.starts)

    def copy(self, column: Varied) -> Varied:
        return Varied(np.array(column.packed()), column.shapes)

    def to_arrow(self, column: Varied) -> tuple[pa.Array, Notes]:
        import pyarrow as pa

        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(column.sizes)])
        values = pa.LargeListArray.from_arrays(pa.array(offsets), arrow_of(column.packed()))
        made = pa.StructArray.from_arrays([values, arrow_of(column.shapes)], ["values", "shape"])
        return made, {"kind": self.name, "dtype": dtype_code(column.dtype)}

    def from_arrow(self, array: pa.Array, notes: Notes) -> Varied:
        values, shapes = array.flatten()
        sizes = array_of(shapes, np.dtype(np.int64)).reshape(len(array), shapes.type.list_size)
        made = Varied(array_of(values.flatten(), number_dtype(notes)), sizes)
        axes = sizes.astype(np.float64)  # in which nothing wraps
        beyond = axes.prod(1).sum() > len(made.data) or (np.maximum(axes, 1).prod(1) > MAX_COUNTABLE_VALUES).any()
        if (sizes < 0).any() or beyond or int(made.sizes.sum()) != len(made.data):
            raise ValueError("arrays of other sizes than their shapes say")
        return made


register_kind(VariedKind(), Varied)
