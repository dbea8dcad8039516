"""Digests of data: arrays, Ragged and Arrow's columns, by all their bytes, or by a sample where they are many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.identity.digests import hash_parts
from headrace.ragged import Ragged

CHUNK = 1 << 20
"""Bytes are digested in runs of so many: CRC32C of each (7 GB/s), BLAKE2 of these, which alone is ten times slower."""
SAMPLE = 1 << 16
"""Of an array that is too large, runs of so many are read, evenly spread."""


def array_digest(array: NDArray[Any], whole: int) -> bytes:
    """The dtype, the shape and the bytes of an array without objects in it."""
    kind = repr((np.lib.format.dtype_to_descr(array.dtype), array.shape)).encode()
    return hash_parts(kind, *_checksums(array, whole))


def _checksums(array: NDArray[Any], whole: int) -> Iterator[bytes]:
    """A checksum of each run of bytes; of an array of more than `whole` bytes, of as many as that."""
    run = CHUNK if array.nbytes <= whole else SAMPLE
    if array.flags.c_contiguous:
        array, rows = array.reshape(-1).view(np.uint8), run
    else:
        rows = max(1, run * len(array) // array.nbytes)
    starts = np.arange(0, len(array), rows)
    if run == SAMPLE:
        starts = starts[np.unique(np.linspace(0, len(starts) - 1, max(2, whole // run)).astype(np.int64))]
    for start in starts.tolist():
        part = np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8)
        yield _native.crc32c(part.data).to_bytes(4, "little")


def ragged_digest(column: Ragged, whole: int) -> bytes:
    """The offsets and the values."""
    values = column.values
    inner = ragged_digest(values, whole) if isinstance(values, Ragged) else array_digest(values, whole)
    return hash_parts(array_digest(column.offsets, whole), inner)


def arrow_digest(column: Any, whole: int) -> bytes | None:
    """An Arrow array by its rows, whatever lies around them; None where its kind has to be read row by row."""
    import pyarrow as pa

    kind = column.type
    valid = b""
    if column.null_count:
        valid = array_digest(column.is_valid().to_numpy(zero_copy_only=False), whole)
        column = column.drop_null()
    head = hash_parts(str(kind).encode(), str(len(column)).encode(), valid)
    if not len(column):
        return head
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        return hash_parts(head, _text_digest(column, np.int64, whole))
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return hash_parts(head, _text_digest(column, np.int32, whole))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = arrow_digest(column.flatten(), whole)
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        return None if inner is None else hash_parts(head, array_digest(lengths, whole), inner)
    if pa.types.is_fixed_size_list(kind):
        inner = arrow_digest(column.flatten(), whole)
        return None if inner is None else hash_parts(head, inner)
    try:
        values = column.to_numpy(zero_copy_only=False)
    except (pa.ArrowException, NotImplementedError):
        return None
    return None if values.dtype.hasobject else hash_parts(head, array_digest(values, whole))


def _text_digest(column: Any, width: type, whole: int) -> bytes:
    _, offsets, data = column.buffers()
    cuts: NDArray[Any] = np.frombuffer(offsets, width, len(column) + 1, column.offset * np.dtype(width).itemsize)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return hash_parts(array_digest(np.diff(cuts), whole), array_digest(content[cuts[0] : cuts[-1]], whole))
