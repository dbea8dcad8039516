"""Readers of files, against tf.data.

The files are written to a temporary folder and read from the page cache. The sides take turns in one run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, batches, fresh, main
from peers import forms, ours, tensorflow

import headrace as hr
from headrace import _native
from headrace.formats.shared.index import index_file
from headrace.formats.shared.sidecar import beside_path
from headrace.formats.tfrecord.format import TFRecords

RECORDS, SHARDS, BYTES = 100_000, 10, 880
LINES = 200_000
ROWS = 200_000
FLOATS, INTS = 8, 2
LARGE_FILE_BYTES = 4 << 30
CALLS = {"": None, "parallel": -1}
_folder = TemporaryDirectory(prefix="headrace-benchmark-")


@cache
def shards() -> list[str]:
    """Ten files of records."""
    random, rows = np.random.default_rng(0), RECORDS // SHARDS
    names = []
    for i in range(SHARDS):
        data = _native.frame(random.integers(0, 256, rows * BYTES, np.uint8), np.arange(rows + 1) * BYTES)
        names.append(_put(f"shard-{i}", data.tobytes()))
    return names


@cache
def text() -> str:
    random = np.random.default_rng(0)
    letters = random.integers(97, 123, 1000, np.uint8).tobytes()
    starts, lengths = random.integers(0, 900, LINES), random.integers(20, 100, LINES)
    return _put("lines.txt", b"".join(letters[a : a + n] + b"\n" for a, n in zip(starts, lengths, strict=True)))


@cache
def table() -> str:
    random = np.random.default_rng(0)
    reals, whole = random.random((ROWS, FLOATS)), random.integers(0, 100_000, (ROWS, INTS))
    rows = (",".join([*(f"{v:.6f}" for v in a), *map(str, b)]) for a, b in zip(reals, whole, strict=True))
    return _put("table.csv", ("\n".join(rows) + "\n").encode())


def _put(name: str, data: bytes) -> str:
    path = Path(_folder.name, name)
    path.write_bytes(data)
    return str(path)


def tf_records() -> dict[str, Callable[[], Any]]:
    return {
        "in order": lambda: tensorflow().data.TFRecordDataset(shards()).batch(1024),
        "2 reads": lambda: tensorflow().data.TFRecordDataset(shards(), num_parallel_reads=2).batch(1024),
        "interleave": lambda: interleaved(tensorflow().data, -1),
    }


def raw() -> Any:
    return hr.TFRecordDataset(shards(), index=False).batch(1024)


def ours_ahead() -> dict[str, Any]:
    """Read on one thread and made objects of on another."""
    return {"read ahead": batches(lambda: hr.TFRecordDataset(shards(), index=False).prefetch(hr.AUTOTUNE).batch(1024))}


def counted() -> int:
    return hr.TFRecordDataset(shards(), index=False).count()


def interleaved(data: Any, calls: int | None = None) -> Any:
    files = data.Dataset.from_tensor_slices(shards())
    return files.interleave(data.TFRecordDataset, cycle_length=SHARDS, num_parallel_calls=calls).batch(1024)


def in_turn(data: Any) -> Any:
    files = data.Dataset.from_tensor_slices(shards())
    return files.interleave(data.TFRecordDataset, cycle_length=4, block_length=16, num_parallel_calls=2).batch(256)


def csv(data: Any) -> Any:
    if data is hr:
        return hr.CsvDataset(table(), [np.float32] * FLOATS + [np.int32] * INTS).batch(1024)
    tf = tensorflow()
    kinds = [tf.float32] * FLOATS + [tf.int32] * INTS
    return tf.data.experimental.CsvDataset(table(), kinds).batch(1024)


def lines(data: Any) -> Any:
    return data.TextLineDataset(text()).batch(1024)


def indexed(rounds: int) -> list[float]:
    """Nanoseconds per byte to verify and index files in the page cache."""
    found = []
    for _ in range(rounds):
        for name in shards():
            Path(beside_path(name)).unlink(missing_ok=True)
        started = perf_counter()
        for name in shards():
            index_file(name, TFRecords(), beside=True)
        found.append((perf_counter() - started) / sum(Path(name).stat().st_size for name in shards()) * 1e9)
        for name in shards():
            Path(beside_path(name)).unlink()
    return found


STREAMING = """
import sys, psutil, headrace as hr
before = psutil.Process().memory_info().rss
most = 0
for i, batch in enumerate(hr.TFRecordDataset(sys.argv[1]).batch(1024)):
    if i % 50 == 0:
        most = max(most, psutil.Process().memory_info().rss)
print((most - before) / 2**20)
"""


def memory(rounds: int) -> list[float]:
    """Megabytes that a fresh interpreter grows by while it streams a large file."""
    path = Path(_folder.name, "large")
    data = np.random.default_rng(0).integers(0, 256, 10_000 * BYTES, np.uint8)
    piece = _native.frame(data, np.arange(10_001) * BYTES).tobytes()
    with path.open("wb") as file:
        for _ in range(LARGE_FILE_BYTES // len(piece)):
            file.write(piece)
    try:
        return [float(fresh("-c", STREAMING, str(path))) for _ in range(min(rounds, 1))]
    finally:
        path.unlink()


CASES: list[Case | Bound] = [
    Case(
        "raw TFRecords, batch(1024) of bytes",
        {"tf.data": 6},
        {"headrace": ours(raw) | ours_ahead(), "tf.data": forms(tf_records())},
        RECORDS,
    ),
    Case(
        "raw TFRecords, read and counted",
        {"tf.data": 15},
        {"headrace": counted, "tf.data": forms(tf_records(), batches)},
        RECORDS,
    ),
    Case(
        "interleave over 10 shards, batch(1024)",
        {"tf.data": 8},
        {
            "headrace": ours(lambda: interleaved(hr)),
            "tf.data": forms({n: lambda c=c: interleaved(tensorflow().data, c) for n, c in CALLS.items()}),
        },
        RECORDS,
    ),
    Case(
        "4 shards in turn by 16 rows, 2 calls, batch(256)",
        {"tf.data": 5},
        {"headrace": ours(lambda: in_turn(hr)), "tf.data": forms({"": lambda: in_turn(tensorflow().data)})},
        RECORDS,
    ),
    Case(
        "CSV, 8 floats and 2 ints",
        {"tf.data": 8},
        {"headrace": ours(lambda: csv(hr)), "tf.data": forms({"": lambda: csv(tensorflow().data)})},
        ROWS,
    ),
    Case(
        "lines of text",
        {"tf.data": 4},
        {"headrace": ours(lambda: lines(hr)), "tf.data": forms({"": lambda: lines(tensorflow().data)})},
        LINES,
    ),
    Bound("verify and index TFRecords", 0.5, "ns/byte", indexed),
    Bound("memory while streaming 4 GB", 200, "MB", memory, max),
]

if __name__ == "__main__":
    sys.exit(main("headrace: files", CASES, description=__doc__))
