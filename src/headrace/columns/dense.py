"""Rows of one dtype and shape: an array with the rows on its first axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native
from headrace.columns.kind import Indices, Kind, Notes, register_kind
from headrace.core.extended import dtype_code, dtype_of, is_extended
from headrace.core.override import override
from headrace.core.ragged import address_of, as_bytes, join_values
from headrace.core.types import Array, Component, DType
from headrace.errors import StorageError
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

Dense = Array

NUMBERS = "biufcmMSU"
"""Kinds of dtypes whose values are their bytes."""


def is_number(dtype: DType) -> bool:
    """Return whether the values of a dtype are their bytes, so that they can be stored."""
    return dtype.kind in NUMBERS or is_extended(dtype)


class DenseKind(Kind):
    """An array; of objects too, if batches hold what has no better kind."""

    name = "dense"

    def values(self, column: Dense) -> Iterator[Component]:
        return iter(column)

    def take(self, column: Dense, indices: Indices) -> Dense:
        return take_rows(column, indices)

    def join(self, columns: Sequence[Dense]) -> Dense | None:
        first = columns[0]
        alike = all(c.dtype == first.dtype and c.shape[1:] == first.shape[1:] for c in columns)
        if not alike or first.dtype.hasobject or sum(c.nbytes for c in columns) < MIN_THREADED_COPY_BYTES:
            return join_values(columns) if alike else None
        whole = neighbours(columns)
        return join_large(columns) if whole is None else whole

    @override
    def pick(self, columns: Sequence[Dense], order: Indices) -> Dense | None:
        if any(c.dtype.kind != "O" or c.ndim != 1 for c in columns):
            return super().pick(columns, order)
        made = _native.pick_objects(list(columns), order)
        said = next((c.dtype for c in columns if c.dtype.metadata), None)
        return made if said is None else made.view(said)

    @override
    def stack(self, column: Dense, size: int, path: str) -> Dense:
        groups = len(column) // size
        return column[None] if groups == 1 else column.reshape(groups, size, *column.shape[1:])

    def unstack(self, column: Dense) -> tuple[Dense, Indices] | None:
        if column.ndim < 2:
            return None
        rows, size = column.shape[:2]
        return column.reshape(rows * size, *column.shape[2:]), np.full(rows, size)

    def nbytes(self, column: Dense) -> int:
        from headrace.columns.objects import object_bytes

        return object_bytes(column.ravel()) if column.dtype.kind == "O" else column.nbytes

    def spec(self, column: Dense) -> TensorSpec:
        return TensorSpec(column.shape[1:], column.dtype)

    def lock(self, column: Dense) -> Dense:
        return locked(column.view())

    def copy(self, column: Dense) -> Dense:
        return column.copy()

    def to_arrow(self, column: Dense) -> tuple[pa.Array, Notes]:
        import pyarrow as pa

        if column.dtype == object:
            from headrace.columns.objects import boxes_to_arrow

            return boxes_to_arrow(column)
        if not is_number(column.dtype):
            raise StorageError(f"values of dtype {column.dtype} cannot be stored; map them to plain numbers or text")
        notes = {"kind": self.name, "dtype": dtype_code(column.dtype), "shape": list(column.shape[1:])}
        return (pa.nulls(len(column)) if 0 in column.shape[1:] else arrow_of(column)), notes

    def from_arrow(self, array: pa.Array, notes: Notes) -> Dense:
        dtype, shape = number_dtype(notes), sizes(notes)
        if 0 in shape:
            return np.empty((len(array), *shape), dtype)
        return array_of(array, dtype).reshape(len(array), *shape)


def take_rows(column: Dense, indices: Indices) -> Dense:
    """Copy rows; on several threads if there is much to copy."""
    row_bytes = column.nbytes // len(column) if len(column) else 0
    if (
        row_bytes * len(indices) < MIN_THREADED_COPY_BYTES
        or row_bytes < MIN_THREADED_ROW_BYTES
        or column.dtype.hasobject
        or not column.flags.c_contiguous
    ):
        return column.take(indices, axis=0)
    out = pooled((len(indices), *column.shape[1:]), column.dtype)
    _native.gather(as_bytes(column), np.ascontiguousarray(indices, np.int64), as_bytes(out))
    return out


def join_large(columns: Sequence[Dense]) -> Dense:
    """Concatenate large columns on several threads."""
    rows = sum(map(len, columns))
    out = pooled((rows, *columns[0].shape[1:]), columns[0].dtype)
    done = 0
    for column in columns:
        _native.copy_rows(column, out[done : done + len(column)])
        done += len(column)
    return out


def stack_rows(rows: Sequence[Dense]) -> Dense:
    """Return arrays of one shape and dtype as rows of one, copied."""
    first = rows[0]
    if first.nbytes * len(rows) >= MIN_THREADED_COPY_BYTES and not first.dtype.hasobject:
        return np.stack(rows, out=pooled((len(rows), *first.shape), first.dtype))
    return np.stack(rows) if first.dtype.metadata is None else np.stack(rows).view(first.dtype)


def choose_rows(chosen: Dense, yes: Dense, no: Dense) -> Dense:
    """Return rows of `yes` if they are chosen, else of `no`; both of one dtype and shape."""
    if yes[:1].nbytes < MIN_LAYOUT_CHECK_BYTES or yes.dtype.hasobject:
        made = np.array(no, order="C")
        rows = np.flatnonzero(chosen)
        made[rows] = yes[rows]
        return made
    made = room_for(yes.shape, yes.dtype)
    for side, rows in ((yes, np.flatnonzero(chosen)), (no, np.flatnonzero(np.logical_not(chosen)))):
        _native.copy_rows(side, made, rows, rows)
    return made


def room_for(shape: tuple[int, ...], dtype: DTypeLike) -> Dense:
    """Allocate an array, from the pool if it is large."""
    made = np.dtype(dtype).itemsize * math.prod(shape)
    return pooled(shape, dtype) if made >= MIN_THREADED_COPY_BYTES else np.empty(shape, dtype)


def put_rows(out: Dense, places: Indices, column: Dense, indices: Indices | None) -> None:
    """Copy rows of a column, those with these indices or all, to these places of an array in C order."""
    if out[:1].nbytes < MIN_LAYOUT_CHECK_BYTES or out.dtype.hasobject:
        out[places] = column if indices is None else column[indices]
    else:
        _native.copy_rows(column, out, indices, places)


def copy_with_help(array: Dense, out: Dense) -> None:
    """Copy an array into another like it, in C order; a large one on several threads."""
    while out.ndim > 1 and len(out) == 1:
        array, out = array[0], out[0]
    if out.dtype.hasobject or not out.ndim:
        np.copyto(out, array)
    else:  # which keeps the GIL for a small one, unlike NumPy
        _native.copy_rows(array, out)


def neighbours(columns: Sequence[Dense]) -> Dense | None:
    """Return the columns as one without a copy, if they are consecutive rows of one array.

    Only if they are writable: then they belong to the caller.
    """
    first, base = columns[0], columns[0].base
    if not isinstance(base, np.ndarray) or base.dtype != first.dtype or base.shape[1:] != first.shape[1:]:
        return None
    if not base.flags.c_contiguous or not base.nbytes:
        return None
    origin, row_bytes = address_of(base), base.strides[0]
    start = stop = (address_of(first) - origin) // row_bytes
    for column in columns:
        ours = column.base is base and column.flags.writeable and column.flags.c_contiguous
        if not ours or address_of(column) != origin + stop * row_bytes:
            return None
        stop += len(column)
    return base[start:stop]


def copy_in_order(array: Dense) -> Dense:
    """Return a copy in C order."""
    if not _in_pieces(array):
        return array.copy()
    out = np.empty(array.shape, array.dtype)
    copy_into(array, out)
    return out


def copy_into(array: Dense, out: Dense) -> None:
    """Copy an array into another one of its shape and dtype, which is in C order.

    Copy a small one with the GIL: if many threads want it, the copy is done before it would be acquired again.
    """
    if array.nbytes < MIN_THREADED_COPY_BYTES and array.ndim and not array.dtype.hasobject:
        _native.copy_rows(array[None], out[None])
    elif _in_pieces(array):
        _native.copy_rows(array, out)
    else:
        out[...] = array


def _in_pieces(array: Dense) -> bool:
    """Return whether small pieces are apart, like those of a mirrored image, which NumPy copies slowly."""
    if array.nbytes < MIN_LAYOUT_CHECK_BYTES or array.ndim < 2 or array.flags.c_contiguous or array.dtype.hasobject:
        return False
    return array.strides[-1] == array.itemsize and array.shape[-1] * array.itemsize <= SMALL_PIECE_BYTES


SMALL_PIECE_BYTES = 32
"""The largest contiguous piece that counts as small."""
MIN_LAYOUT_CHECK_BYTES = 1 << 12
"""The memory layout of an array of at least this size is checked."""


def pooled(shape: int | tuple[int, ...], dtype: DTypeLike) -> Dense:
    """Return a new array, in pooled memory if there is some: new pages cost more than a copy."""
    before = _native.use_pool()
    try:
        return np.empty(shape, dtype)
    finally:
        _native.use_pool(before)


MIN_THREADED_COPY_BYTES = 1 << 20
"""Copies of at least this size use several threads."""
MIN_THREADED_ROW_BYTES = 256
"""Rows of at least this size are copied on threads; NumPy copies smaller ones as fast."""


def locked(array: Dense) -> Dense:
    """Make the array read-only and return it."""
    array.flags.writeable = False
    return array


def number_dtype(notes: Notes) -> DType:
    """Return the dtype in notes, if values can be stored under it."""
    dtype = dtype_of(notes["dtype"])
    if not is_number(dtype) or not dtype.itemsize:
        raise ValueError(f"values of dtype {dtype}")
    return dtype


def sizes(notes: Notes) -> tuple[int, ...]:
    """Return the shape in notes, if it is valid."""
    shape = tuple(notes["shape"])
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"values of shape {shape}")
    return shape


def arrow_of(values: Dense) -> pa.Array:
    """Return numbers as Arrow's own types, so that other tools can read them; what Arrow packs or lacks as
    its bytes.
    """
    import pyarrow as pa

    flat = np.ascontiguousarray(values).reshape(-1)
    size = int(np.prod(values.shape[1:]))
    if (
        values.dtype.kind not in "iuf"
        or values.dtype.itemsize > 8
        or not values.dtype.isnative
        or is_extended(values.dtype)
    ):
        width = values.dtype.itemsize * size
        return pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(flat.view(np.uint8))])
    numbers = pa.array(flat)
    return pa.FixedSizeListArray.from_arrays(numbers, size) if values.ndim > 1 else numbers


def array_of(array: pa.Array, dtype: DType) -> Dense:
    """Return all the numbers of an array that `arrow_of` made, as a view."""
    import pyarrow as pa

    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        return data[array.offset * width : (array.offset + len(array)) * width].view(dtype)
    flat = array.flatten() if pa.types.is_fixed_size_list(array.type) else array
    numbers: Dense = flat.to_numpy()
    return numbers.view(dtype)


register_kind(DenseKind(), np.ndarray)
