"""Rows of one shape: an array with the rows on its first axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns.kind import Column, Indices, Kind, register_kind
from headrace.plan.spec import TensorSpec, text_dtype

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.plan.spec import Shape

Array = NDArray[Any]


class Dense(Kind):
    """An array; of objects too, where they have no better kind."""

    name = "dense"

    def rows(self, column: Array) -> Iterator[Any]:
        return iter(column)

    def take(self, column: Array, indices: Indices) -> Array:
        return column.take(indices, axis=0)

    def join(self, columns: Sequence[Array]) -> Array | None:
        first = columns[0]
        if any(c.dtype != first.dtype or c.shape[1:] != first.shape[1:] for c in columns):
            return None
        return np.concatenate(columns)

    def stack(self, column: Array, size: int) -> Array:
        groups = len(column) // size
        return column[None] if groups == 1 else column.reshape(groups, size, *column.shape[1:])

    def group(self, column: Array, size: int) -> Column:
        from headrace.columns.ragged import as_ragged
        from headrace.columns.stacked import Stacked

        return self.stack(column, size) if column.ndim == 1 else Stacked(as_ragged(column), (size,))

    def pad(self, column: Array, size: int, shape: Shape, filler: Any) -> Column | str:
        if shape is None or fits(column.shape[1:], shape):
            return self.stack(column, size)
        return super().pad(column, size, shape, filler)

    def unstack(self, column: Array) -> tuple[Array, Indices] | None:
        if column.ndim < 2:
            return None
        rows, size = column.shape[:2]
        return column.reshape(rows * size, *column.shape[2:]), np.full(rows, size)

    def nbytes(self, column: Array) -> int:
        if column.dtype.kind != "O":
            return column.nbytes
        from headrace.columns.objects import object_bytes

        return object_bytes(column.ravel())

    def spec(self, column: Array) -> TensorSpec:
        return TensorSpec(column.shape[1:], text_dtype(column) if column.dtype == object else column.dtype)

    def lock(self, column: Array) -> Array:
        view = column.view()
        view.flags.writeable = False
        return view

    def copy(self, column: Array) -> Array:
        return column.copy()

    def to_arrow(self, column: Array) -> tuple[pa.Array, dict[str, Any]]:
        import pyarrow as pa

        if column.dtype.kind == "V":
            raise TypeError(f"values of dtype {column.dtype} cannot be stored; map them to plain numbers or text")
        if column.dtype.hasobject:
            from headrace.columns.objects import Objects

            return Objects().to_arrow(list(column))
        notes = {"kind": self.name, "dtype": column.dtype.str, "shape": list(column.shape[1:])}
        return (pa.nulls(len(column)) if 0 in column.shape[1:] else arrow_of(column)), notes

    def from_arrow(self, array: pa.Array, notes: dict[str, Any]) -> Array:
        dtype, shape = np.dtype(notes["dtype"]), tuple(notes["shape"])
        if dtype.hasobject:
            raise ValueError(f"no column of {dtype} is stored")
        if 0 in shape:
            return np.empty((len(array), *shape), dtype)
        return array_of(array, dtype).reshape(len(array), *shape)


def fits(shape: tuple[int | None, ...], target: tuple[int | None, ...]) -> bool:
    """Whether rows of this shape need no filling up."""
    return len(shape) == len(target) and all(b is None or a == b for a, b in zip(shape, target, strict=True))


def arrow_of(values: Array) -> pa.Array:
    """Numbers as Arrow's own types, so that other tools can read them; what Arrow packs or lacks as its bytes."""
    import pyarrow as pa

    flat = np.ascontiguousarray(values).reshape(-1)
    size = int(np.prod(values.shape[1:]))
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8 or not values.dtype.isnative:
        width = values.dtype.itemsize * size
        return pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(flat.view(np.uint8))])
    numbers = pa.array(flat)
    return pa.FixedSizeListArray.from_arrays(numbers, size) if values.ndim > 1 else numbers


def array_of(array: pa.Array, dtype: np.dtype[Any]) -> Array:
    """All the numbers of an array that `arrow_of` made, as a view."""
    import pyarrow as pa

    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        return data[array.offset * width : (array.offset + len(array)) * width].view(dtype)
    flat = array.flatten() if pa.types.is_fixed_size_list(array.type) else array
    numbers: Array = flat.to_numpy()
    return numbers.view(dtype)


register_kind(Dense(), np.ndarray)
