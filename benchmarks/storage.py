"""Replay a file cache, beside reading the same bytes from the page cache and doing nothing with them."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case, batches, main

import headrace as hr

ROWS = 1_000_000
ROW_BYTES = 1_000
READ_BYTES = 4 << 20


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="headrace-bench-")


def cached() -> Any:
    data = np.arange(ROWS, dtype=np.int64)
    rows = hr.Dataset.from_tensor_slices(data).batch(1000).map(_wide).unbatch()
    return rows.cache(Path(folder().name) / "cache")


def _wide(numbers: Any) -> Any:
    return np.repeat(numbers.astype(np.uint8)[:, None], ROW_BYTES, axis=1)


@cache
def written() -> Path:
    for _ in cached().batch(1000):
        pass
    return Path(folder().name) / "cache"


def replay(size: int) -> Any:
    def job() -> int:
        written()
        return batches(lambda: cached().batch(size))()

    return job


def read() -> int:
    """Every byte of the same files into one buffer, which stays the same."""
    buffer = bytearray(READ_BYTES)
    total = 0
    for path in sorted(written().glob("*.arrow")):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
    assert total >= ROWS * ROW_BYTES
    return ROWS


CASES = [
    Case(
        "replay of 10⁶ cached rows of 1 kB",
        {"read() of the page cache": 0.5},
        {"headrace": {"batch(1000)": replay(1000), "batch(128)": replay(128)}, "read() of the page cache": read},
        ROWS,
    ),
]

if __name__ == "__main__":
    sys.exit(main("headrace: storage", CASES, description=__doc__))
