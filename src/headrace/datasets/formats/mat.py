"""MATLAB's MAT-files of version 5: numeric arrays by name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np

from headrace.core.types import Array
from headrace.errors import StorageError

HEADER_BYTES = 128
MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}


def read_mat(path: Path) -> dict[str, Array]:
    """Return the numeric arrays of a MAT-file; structs, cells and complex numbers are left out."""
    data = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None:
        raise StorageError(f"{path} is no MAT-file of version 5")
    try:
        return dict(_arrays(memoryview(data)[HEADER_BYTES:], order))
    except (ValueError, IndexError, KeyError, zlib.error) as error:
        raise StorageError(f"{path} is corrupt: {error}") from None


def _arrays(data: memoryview, order: str) -> Iterator[tuple[str, Array]]:
    for kind, content in _elements(data, order):
        if kind == COMPRESSED:
            yield from _arrays(memoryview(zlib.decompress(content)), order)
        elif kind == MATRIX:
            found = _matrix(content, order)
            if found is not None:
                yield found


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield the elements that follow each other: a tag of 8 bytes and a content, or both in 8 bytes if they
    are small.
    """
    at = 0
    while at + 8 <= len(data):
        kind, size = (int(n) for n in np.frombuffer(data, f"{order}u4", 2, at))
        begin = at + 8
        if kind >> 16:  # small: the size is in the upper half
            kind, size, begin = kind & 0xFFFF, kind >> 16, at + 4
        if size > len(data) - begin:
            raise ValueError(f"an element of {size:,} bytes where {len(data) - begin:,} are left")
        yield kind, data[begin : begin + size]
        at = at + 8 if begin == at + 4 else begin + size + (-size % 8 if kind != COMPRESSED else 0)


def _matrix(content: memoryview, order: str) -> tuple[str, Array] | None:
    flags, sizes, name, *values = _elements(content, order)
    flag = int(np.frombuffer(flags[1], f"{order}u4", 1)[0])
    if flag & 0xFF not in CLASSES or flag & 0x800 or not values:
        return None
    shape = np.frombuffer(sizes[1], f"{order}i4").tolist()
    kind, stored = values[0]
    array = np.frombuffer(stored, f"{order}{STORED[kind]}")
    if min(shape, default=0) < 0 or prod(shape) != len(array):
        raise ValueError(f"{len(array):,} values for an array of shape {tuple(shape)}")
    return bytes(name[1]).decode("latin-1"), array.astype(CLASSES[flag & 0xFF]).reshape(shape, order="F")
