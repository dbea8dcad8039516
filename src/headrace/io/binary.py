"""Columns of bytes: in Arrow's layout, as the kernels take them, and as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.columns import arrow_text
from headrace.core.types import Component, TensorLike
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa


def bytes_column(records: TensorLike) -> pa.LargeBinaryArray:
    """Return a column of bytes out of whatever holds some: a list, an object array, an Arrow array of bytes
    or strings.
    """
    import pyarrow as pa

    if isinstance(records, pa.ChunkedArray):
        records = records.combine_chunks()
    if isinstance(records, pa.Array):
        column = records if records.type == pa.large_binary() else records.cast(pa.large_binary())
        if column.null_count:
            raise ValueError(f"record {column.is_null().index(True).as_py()} is null where bytes are needed")
        return column
    rows = records.ravel().tolist() if isinstance(records, np.ndarray) else list(records)
    joined = _native.join_bytes(rows)
    if joined is not None:
        return arrow_text.binary(*joined)
    for number, row in enumerate(rows):
        if not isinstance(row, bytes | str | memoryview | bytearray):
            raise TypeError(f"record {number} is {type(row).__name__} where bytes are needed")
    return pa.array([row.encode() if isinstance(row, str) else row for row in rows], pa.large_binary())


def record_bytes(record: object) -> bytes:
    """Return one record as it is written. Raise if it is not bytes."""
    if isinstance(record, bytes):
        return record
    if isinstance(record, bytearray):
        return bytes(record)
    if isinstance(record, memoryview):
        if not record.c_contiguous:
            raise TypeError("a record is a run of bytes, not a memoryview with gaps: write bytes(view)")
        return record.tobytes()
    if isinstance(record, str):
        raise TypeError(f"a record is bytes, not str: write {record[:20]!r}.encode()")
    raise TypeError(
        f"a record is bytes, or a dict that becomes an Example, not {type(record).__name__}: "
        "write array.tobytes(), hr.io.serialize_tensor(array), or {'x': value}"
    )


def record(spec: object) -> bool:
    """Return whether a traced function has one record here; a batch of them it does not."""
    if not isinstance(spec, TensorSpec) or spec.shape != () or spec.dtype is None or spec.dtype.kind not in "SUO":
        raise ValueError(f"it is given {spec} where a single record is needed")
    return True


def batch_size(spec: object) -> int | None:
    """Return how many records a traced function has in one row, as far as known."""
    if not isinstance(spec, TensorSpec) or spec.rank != 1 or spec.dtype is None or spec.dtype.kind not in "SUO":
        raise ValueError(f"it is given {spec} where a row of records is needed")
    assert spec.shape is not None
    return spec.shape[0]


def bytes_shape(value: object) -> tuple[int, ...] | None:
    """Return the shape of an argument that holds bytes: () for one, None for an Arrow array."""
    if isinstance(value, bytes | str | bytearray | memoryview | np.bytes_):
        return ()
    if isinstance(value, np.ndarray):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, Sequence) else None


def one_record(value: object) -> list[Component]:
    """Return a column's worth of a single record, refusing more."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if bytes_shape(value) != ():
        raise TypeError(f"one serialized record is bytes, not {type(value).__name__}; for many there is the batch form")
    return [value]
