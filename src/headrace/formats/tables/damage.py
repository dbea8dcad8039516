"""Validate arrays from a file: that all offsets are in range, and that text is valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import Array
from headrace.formats.tables.arrow import decoded, ids, is_bytes, is_encoded, is_list, is_stored_as, is_text, list_size

if TYPE_CHECKING:
    import pyarrow as pa


def check_layout(array: pa.Array) -> None:
    """Raise ValueError if an offset or an index is out of range. Call this before anything reads the array.

    Only the part between the array's own bounds is checked, so that halves of it locate the bad row.
    """
    _check_offset(array)
    array.validate()  # that there are buffers, and that they are long enough
    _check_inside(array)


def _check_offset(array: pa.Array) -> None:
    if array.offset < 0:  # Arrow checks only that the array does not end behind its buffers
        raise ValueError(f"it begins {-array.offset} rows before its values")


def _check_inside(array: pa.Array) -> None:
    _check_offset(array)
    kind, known = array.type, ids()
    if kind.id in known.plain or kind.id == known.sized_bytes:
        return
    if kind.id == known.dictionary:
        _check_indices(array)
        _check_inside(array.dictionary)
    elif kind.id == known.run_ends:
        array.validate(full=True)  # that the runs end in order, behind the last row
        _check_inside(array.values)
    elif kind.id == known.extension:
        _check_inside(array.storage)
    elif kind.id in known.views:
        _as_bytes(array).validate(full=True)
    elif is_text(kind) or is_bytes(kind):
        _bounds(array)
    else:
        for child in _children(array):
            _check_inside(child)


def _children(array: pa.Array) -> Iterator[pa.Array]:
    """Yield what the rows of an array hold, once it is known to be there."""
    from pyarrow import types as t

    kind = array.type
    if t.is_struct(kind):
        yield from (array.field(i) for i in range(kind.num_fields))
    elif t.is_map(kind):
        start, stop = _bounds(array)
        yield from (array.keys[start:stop], array.items[start:stop])
    elif is_list(kind):
        size = list_size(kind)
        if size is not None:
            yield array.values.slice(array.offset * size, len(array) * size)
        else:
            start, stop = _bounds(array)
            yield array.values[start:stop]


def _bounds(array: pa.Array) -> tuple[int, int]:
    """Return the first and the last offset. Raise ValueError if they are out of range or not increasing.

    An array of no rows has an offset, too, which Arrow follows.
    """
    kind, known, buffers = array.type, ids(), array.buffers()
    if not len(array) and not buffers[1]:
        return 0, 0
    if is_text(kind) or is_bytes(kind):
        end = 0 if buffers[2] is None else buffers[2].size
    else:
        end = len(array.values if is_list(kind) else array.keys)
    number = np.int64 if kind.id in known.wide else np.int32
    if kind.id in known.list_views:
        starts, sizes = (_numbers(buffers[i], number, array.offset, len(array)) for i in (1, 2))
        if ((starts < 0) | (sizes < 0) | (starts > end) | (sizes > end - starts)).any():
            raise ValueError("its offsets point beyond its values")
        return (int(starts.min()), int((starts + sizes).max())) if len(array) else (0, 0)
    offsets = _numbers(buffers[1], number, array.offset, len(array) + 1)
    start, stop = int(offsets[0]), int(offsets[-1])
    if start < 0 or stop > end or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("its offsets point beyond its values")
    return start, stop


def _numbers(buffer: pa.Buffer, kind: pa.DataType, first: int, count: int) -> Array:
    return np.frombuffer(buffer, kind, count, first * np.dtype(kind).itemsize)


def _check_indices(array: pa.Array) -> None:
    indices = array.indices.drop_null() if array.null_count else array.indices
    if not len(indices):
        return
    numbers, count = indices.to_numpy(), len(array.dictionary)
    least, most = int(numbers.min()), int(numbers.max())
    if least < 0 or most >= count:
        raise ValueError(f"index {least if least < 0 else most} is none of its {count} categories")


def check_text(array: pa.Array) -> None:
    """Raise ValueError if a string is not UTF-8. The column has no fields and a valid layout."""
    kind = array.type
    while (listed := is_list(kind)) or is_encoded(kind) or is_stored_as(kind):
        array = array.flatten() if listed else array.storage if is_stored_as(kind) else decoded(array)
        kind = array.type
    if not len(array) or not is_text(kind) or _is_ascii(array):
        return
    try:
        array.validate(full=True)
    except ValueError:
        raise ValueError("holds no UTF-8") from None


def _is_ascii(array: pa.Array) -> bool:
    """Return whether all the bytes are; several times as fast as to look at each string."""
    kind, known = array.type, ids()
    if kind.id in known.views:
        return False
    _, offsets, content = array.buffers()
    ends = _numbers(offsets, np.int64 if kind.id in known.wide else np.int32, array.offset, len(array) + 1)
    start, stop = int(ends[0]), int(ends[-1])
    return start == stop or bool(np.frombuffer(content, np.uint8, stop - start, start).max() < 128)


def _as_bytes(array: pa.Array) -> pa.Array:
    """Views of strings as views of bytes, for which any bytes will do."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.binary_view(), len(array), array.buffers(), offset=array.offset)
