"""Pictures in arrays of bytes: rows of labels and pixels, plane by plane, as in the binary files of CIFAR and STL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Array
from headrace.errors import StorageError

ROWS_PER_READ = 1024


def fixed_rows(file: IO[bytes], row_bytes: int, name: str) -> Iterator[NDArray[np.uint8]]:
    """Yield the rows of a file of fixed-length rows, many at a time; errors call the file `name`."""
    while data := _read_fully(file, ROWS_PER_READ * row_bytes):
        if len(data) % row_bytes:
            raise StorageError(f"{name} ends within a row of {row_bytes:,} bytes")
        yield np.frombuffer(data, np.uint8).reshape(-1, row_bytes)


def labelled_planes(file: IO[bytes], labels: int, size: int, name: str) -> Iterator[tuple[list[int], Array]]:
    """Yield the labels and the picture of each row: `labels` bytes, then red, green and blue planes of
    `size` × `size`.
    """
    for rows in fixed_rows(file, labels + 3 * size * size, name):
        pictures = np.ascontiguousarray(rows[:, labels:].reshape(-1, 3, size, size).transpose(0, 2, 3, 1))
        yield from zip(rows[:, :labels].tolist(), pictures, strict=True)


def _read_fully(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    while data and len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data
