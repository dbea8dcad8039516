"""IDX: MNIST's format, one array a file."""

from __future__ import annotations

import gzip
import zlib
from math import prod

import numpy as np

from headrace.core.types import Array
from headrace.errors import StorageError

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(data: bytes, name: object) -> Array:
    """Return the array of an IDX file, which may be compressed by gzip; errors call the file `name`."""
    try:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{name} is corrupt: {error}") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in DTYPES:
        raise StorageError(f"{name} is no IDX file: it begins with {data[:4].hex(' ')}")
    dtype, rank = np.dtype(DTYPES[data[2]]), data[3]
    begin = 4 + 4 * rank
    if len(data) < begin:
        raise StorageError(f"{name} ends within its header")
    shape = [int.from_bytes(data[at : at + 4], "big") for at in range(4, begin, 4)]
    count = prod(shape)
    if len(data) - begin < count * dtype.itemsize:
        raise StorageError(f"{name} ends after {len(data):,} bytes: an array of shape {tuple(shape)} was promised")
    found = np.frombuffer(data, dtype, count, begin).reshape(shape)
    return found.astype(dtype.newbyteorder("="), copy=False)
