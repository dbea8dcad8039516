"""Columns of bytes and strings in Arrow's layout: the bytes of all rows, and their offsets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.core.ragged import address_of
from headrace.core.types import Array

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]


def binary(values: Bytes | bytes, offsets: Offsets, kind: pa.DataType | None = None) -> pa.Array:
    """Return a column of bytes, or of the `kind` of strings that has the same layout, sharing the memory of both."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.large_binary() if kind is None else kind, len(offsets) - 1, buffers)


class FreshBytes(threading.local):
    """The bytes of columns that a kernel has just made for one run of a function, by address, while it is noted.

    Arrow arrays are read-only. If no column keeps them, their memory can be reused by what was read from them in place,
    such as raw numbers.
    """

    noted: dict[int, Bytes] | None = None

    @contextmanager
    def note(self) -> Iterator[dict[int, Bytes]]:
        """Note what is made from here on, in this thread."""
        before, self.noted = self.noted, {}
        try:
            yield self.noted
        finally:
            self.noted = before


FRESH = FreshBytes()


def fresh_binary(values: Bytes, offsets: Offsets) -> pa.Array:
    """Make a binary array from bytes that have no other owner."""
    if FRESH.noted is not None and values.nbytes >= MIN_NOTED_BYTES:
        FRESH.noted[address_of(values)] = values
    return binary(values, offsets)


def take_over(noted: dict[int, Bytes], array: Array) -> Array | None:
    """Return the array as a writable one, without a copy, if it begins at noted bytes; only once."""
    if not noted or not array.flags.c_contiguous:
        return None
    values = noted.pop(address_of(array), None)
    if values is None or values.nbytes < array.nbytes:
        return None
    return values[: array.nbytes].view(array.dtype).reshape(array.shape)


MIN_NOTED_BYTES = 1 << 16
"""The smallest column whose memory is worth reusing."""


def parts(column: pa.Array) -> tuple[Bytes, Offsets]:
    """Return the bytes of all rows, and their offsets, sharing the column's memory, which must not be written to."""
    _, offsets, values = column.buffers()
    if offsets is None or not len(column):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    cuts = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    content = np.frombuffer(values, np.uint8) if values is not None and values.size else np.empty(0, np.uint8)
    content.flags.writeable = False
    return content, cuts


def is_plain(column: pa.Array) -> bool:
    """Return whether `parts` supports an Arrow column: bytes or strings, none of them null."""
    import pyarrow as pa

    return column.type in (pa.large_binary(), pa.large_string()) and not column.null_count


def nbytes(column: pa.Array) -> int:
    """Return the memory of an Arrow column."""
    import pyarrow as pa

    if column.type not in (pa.large_binary(), pa.large_string()) or not len(column):
        return int(column.nbytes)
    cuts = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)
    return int(cuts[-1] - cuts[0]) + cuts.nbytes  # which Arrow takes several times as long to say


def pick_text(columns: Sequence[pa.Array], order: NDArray[np.int64]) -> pa.Array:
    """Return rows of several columns of one kind, by their numbers among all of them; each is copied once."""
    import pyarrow as pa

    kind = columns[0].type
    if not all(map(is_plain, columns)):
        return pa.concat_arrays(columns).take(pa.array(order))
    if len(columns) == 1:
        values, offsets = _native.text_pick([parts(columns[0])], np.zeros(len(order), np.int64), order)
        return binary(values, offsets, kind)
    starts = np.cumsum([0, *map(len, columns)])
    which = np.searchsorted(starts, order, side="right") - 1
    values, offsets = _native.text_pick([parts(c) for c in columns], which, order - starts[which])
    return binary(values, offsets, kind)
