"""Digests of data: arrays, Ragged and Arrow columns, by all their bytes, or by a sample if they are large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.core.ragged import Ragged
from headrace.core.types import Array
from headrace.identity.digests import hash_parts

if TYPE_CHECKING:
    from headrace.columns.kind import Column

    pass

CHUNK_BYTES = 1 << 20
"""Bytes are digested in runs of this size:

CRC32C of each (7 GB/s), then BLAKE2 of these, which alone is ten times slower.
"""
SAMPLE_BYTES = 1 << 16
"""Of a large array, evenly spread runs of this many bytes are read."""


def array_digest(array: Array, whole: int) -> bytes:
    """Return the dtype, the shape and the bytes of an array without objects in it."""
    kind = repr((np.lib.format.dtype_to_descr(array.dtype), array.shape)).encode()
    return hash_parts(kind, *_checksums(array, whole))


def _checksums(array: Array, whole: int) -> Iterator[bytes]:
    """Yield a checksum of each run of bytes; of an array of more than `whole` bytes, of a sample of that size."""
    run = CHUNK_BYTES if array.nbytes <= whole else SAMPLE_BYTES
    if array.flags.c_contiguous:
        array, rows = array.reshape(-1).view(np.uint8), run
    else:
        rows = max(1, run * len(array) // array.nbytes)
    starts = np.arange(0, len(array), rows)
    if run == SAMPLE_BYTES:
        starts = starts[np.unique(np.linspace(0, len(starts) - 1, max(2, whole // run)).astype(np.int64))]
    for start in starts.tolist():
        part = np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8)
        yield _native.crc32c(part.data).to_bytes(4, "little")


def ragged_digest(column: Ragged, whole: int) -> bytes:
    """Return the offsets and the values."""
    values = column.values
    inner = ragged_digest(values, whole) if isinstance(values, Ragged) else array_digest(values, whole)
    return hash_parts(array_digest(column.offsets, whole), inner)


def arrow_digest(column: Column, whole: int) -> bytes | None:
    """Return the digest of an Arrow array by its rows, ignoring the rest of its buffers; None if it must be read row by
    row.
    """
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


def _text_digest(column: Column, width: type, whole: int) -> bytes:
    _, offsets, data = column.buffers()
    cuts: Array = np.frombuffer(offsets, width, len(column) + 1, column.offset * np.dtype(width).itemsize)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return hash_parts(array_digest(np.diff(cuts), whole), array_digest(content[cuts[0] : cuts[-1]], whole))
