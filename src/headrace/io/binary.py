"""Columns of bytes: in Arrow's layout, as the kernels take them, and as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]


def binary(records: Any) -> pa.LargeBinaryArray:
    """A column of bytes out of whatever holds some: a list, an object array, an Arrow array of bytes or strings."""
    import pyarrow as pa

    if isinstance(records, pa.ChunkedArray):
        records = records.combine_chunks()
    if isinstance(records, pa.Array):
        column = records if records.type == pa.large_binary() else records.cast(pa.large_binary())
        if column.null_count:
            raise ValueError(f"record {column.is_null().index(True).as_py()} is null where bytes are needed")
        return column
    rows = records.ravel().tolist() if isinstance(records, np.ndarray) else list(records)
    if set(map(type, rows)) == {bytes}:
        return pa.array(rows, pa.large_binary())
    for number, row in enumerate(rows):
        if not isinstance(row, bytes | str | memoryview | bytearray):
            raise TypeError(f"record {number} is {type(row).__name__} where bytes are needed")
    return pa.array([row.encode() if isinstance(row, str) else row for row in rows], pa.large_binary())


def record(spec: Any) -> bool:
    """Whether a traced function has one record here; a batch of them it does not."""
    if not isinstance(spec, TensorSpec) or spec.shape != () or spec.dtype is None or spec.dtype.kind not in "SUO":
        raise ValueError(f"it is given {spec} where a single record is needed")
    return True


def parts(column: pa.LargeBinaryArray) -> tuple[Bytes, Offsets]:
    """The bytes of all rows, and where each begins, sharing the column's memory, which nobody may write to."""
    _, offsets, values = column.buffers()
    if offsets is None or not len(column):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    cuts = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    content = np.frombuffer(values, np.uint8) if values is not None and values.size else np.empty(0, np.uint8)
    content.flags.writeable = False
    return content, cuts


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an argument that holds bytes: () for one, None where it is an Arrow array."""
    if isinstance(value, bytes | str | bytearray | memoryview | np.bytes_):
        return ()
    if isinstance(value, np.ndarray):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, Sequence) else None


def one(value: Any) -> list[Any]:
    """A column's worth of a single record, refusing more."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if shape_of(value) != ():
        raise TypeError(f"one serialized record is bytes, not {type(value).__name__}; for many there is the batch form")
    return [value]
