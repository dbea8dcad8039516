"""Columns of bytes and strings in Arrow's layout: the bytes of all rows, and where each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]


def binary(values: Bytes | bytes, offsets: Offsets, kind: pa.DataType | None = None) -> pa.Array:
    """A column of bytes, or of the `kind` of strings that has the same layout, sharing the memory of both."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.large_binary() if kind is None else kind, len(offsets) - 1, buffers)


def parts(column: pa.Array) -> tuple[Bytes, Offsets]:
    """The bytes of all rows, and where each begins, sharing the column's memory, which nobody may write to."""
    _, offsets, values = column.buffers()
    if offsets is None or not len(column):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    cuts = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    content = np.frombuffer(values, np.uint8) if values is not None and values.size else np.empty(0, np.uint8)
    content.flags.writeable = False
    return content, cuts


def nbytes(column: pa.Array) -> int:
    """The memory of an Arrow column."""
    import pyarrow as pa

    if column.type not in (pa.large_binary(), pa.large_string()) or not len(column):
        return int(column.nbytes)
    cuts = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)
    return int(cuts[-1] - cuts[0]) + cuts.nbytes  # which Arrow takes several times as long to say


def pick_text(columns: Sequence[pa.Array], order: NDArray[np.int64]) -> pa.Array:
    """Rows of several columns of one kind, by their numbers among all of them; each is copied once."""
    import pyarrow as pa

    kind = columns[0].type
    if kind not in (pa.large_string(), pa.large_binary()) or any(c.null_count for c in columns):
        return pa.concat_arrays(columns).take(pa.array(order))
    starts = np.cumsum([0, *map(len, columns)])
    which = np.searchsorted(starts, order, side="right") - 1
    values, offsets = _native.text_pick([parts(c) for c in columns], which, order - starts[which])
    return binary(values, offsets, kind)
