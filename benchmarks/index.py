"""Index space: access by number, shuffles of everything, resumes, mixtures and packing; packing against Grain.

Files are written to a temporary folder and read from the page cache. The sides take turns in one run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, Share, batches, fresh, main

import headrace as hr
from headrace import _native

D = hr.Dataset
IMAGES, NUMBERS = 60_000, 2_000_000
RECORDS, SHARDS, BYTES = 200_000, 8, 880
DOCUMENTS, PEERS_DOCUMENTS, LENGTH = 1_000_000, 20_000, 2_048
_folder = TemporaryDirectory(prefix="headrace-benchmark-")


@cache
def images() -> Any:
    return np.random.default_rng(0).integers(0, 256, (IMAGES, 784), np.uint8)


@cache
def numbers() -> Any:
    return np.arange(NUMBERS)


@cache
def records() -> Any:
    """Indexed files of records."""
    random, rows = np.random.default_rng(0), RECORDS // SHARDS
    names = []
    for i in range(SHARDS):
        data = _native.frame(random.integers(0, 256, rows * BYTES, np.uint8), np.arange(rows + 1) * BYTES)
        names.append(Path(_folder.name, f"shard-{i}"))
        names[-1].write_bytes(data.tobytes())
    return hr.TFRecordDataset(names, index=True)


@cache
def documents(count: int) -> hr.Ragged:
    """Documents of 10 to 2,000 tokens."""
    random = np.random.default_rng(0)
    lengths = random.integers(10, 2_001, count)
    tokens = np.resize(random.integers(0, 50_000, 10_000_000, np.int32), lengths.sum())
    return hr.Ragged(tokens, np.concatenate([[0], np.cumsum(lengths)]))


def speed(build: Callable[[], Any]) -> Callable[[], float]:
    """Rows a second of one pass."""
    job = batches(build)

    def rate() -> float:
        started = perf_counter()
        return job() / (perf_counter() - started)

    return rate


def shuffled(source: Callable[[], Any], size: int | None) -> Callable[[], float]:
    return speed(lambda: D.from_tensor_slices(source()).shuffle(size, seed=1).batch(128))


FIRST = """
import psutil, time, headrace as hr
next(iter(hr.Dataset.range(10).shuffle(seed=1).batch(2)))
before = psutil.Process().memory_info().rss
started = time.perf_counter()
it = iter(hr.Dataset.range(10**9).shuffle(seed=1).batch(128))
next(it)
took = time.perf_counter() - started
for _ in range(10_000):
    next(it)
print(took * 1e3, (psutil.Process().memory_info().rss - before) / 1e6)
"""


def first_batch(which: int) -> Callable[[int], list[float]]:
    return lambda rounds: [float(fresh("-c", FIRST).split()[which]) for _ in range(rounds)]


def skipped(source: Callable[[], Any]) -> Callable[[int], list[float]]:
    """Milliseconds to the element after 10⁸."""

    def measure(rounds: int) -> list[float]:
        found = []
        for _ in range(rounds):
            ds = source().skip(10**8)
            started = perf_counter()
            with iter(ds) as it:
                next(it)
            found.append((perf_counter() - started) * 1e3)
        return found

    return measure


@cache
def long_file() -> Any:
    """A file of more than 10⁸ records of a byte each."""
    path = Path(_folder.name, "long")
    path.write_bytes(bytes(10**8 + 1000))
    return hr.FixedLengthRecordDataset(path, 1)


def packed(count: int, strategy: str = "first_fit") -> Any:
    return D.from_tensor_slices(documents(count)).pack(LENGTH, strategy)


def rows_packed(count: int, strategy: str = "first_fit") -> float:
    """Rows a second."""
    ds, rows = packed(count, strategy), 0
    started = perf_counter()
    for _ in ds:
        rows += 1
    return rows / (perf_counter() - started)


@cache
def grain_documents() -> list[Any]:
    docs = documents(PEERS_DOCUMENTS)
    return [{"tokens": docs[i]} for i in range(len(docs))]


def rows_packed_by_grain(bins: int) -> float:
    import grain
    from grain.experimental import FirstFitPackIterDataset

    source = grain.MapDataset.source(grain_documents()).to_iter_dataset()
    ds, rows = FirstFitPackIterDataset(source, length_struct={"tokens": LENGTH}, num_packing_bins=bins), 0
    started = perf_counter()
    for _ in ds:
        rows += 1
    return rows / (perf_counter() - started)


def emptiness(rounds: int) -> list[float]:
    """What part of the cells of a million documents' rows is padding, in per cent."""
    it = iter(packed(DOCUMENTS))
    for _ in it:
        pass
    (fill,) = (stage["fill"] for stage in it.stats()["stages"] if "fill" in stage)
    return [100 * (1 - fill)] * min(rounds, 1)


def state_bytes(rounds: int) -> list[float]:
    """The largest state in the middle of packing."""
    most = 0
    with iter(packed(DOCUMENTS // 10)) as it:
        for row, _ in enumerate(it):
            if row % 997 == 0:
                most = max(most, len(json.dumps(it.state())))
    return [most] * min(rounds, 1)


def mixed() -> Any:
    parts = np.array_split(numbers(), 3)
    datasets = {str(i): D.from_tensor_slices(part) for i, part in enumerate(parts)}
    return hr.mix(datasets, [5, 3, 2], seed=1).take(NUMBERS).batch(128)


CASES: list[Case | Bound | Share] = [
    Bound("shuffle() of 10⁹ numbers, first batch", 50, "ms", first_batch(0), max),
    Bound("shuffle() of 10⁹ numbers, memory after 10⁴ batches", 10, "MB", first_batch(1), max),
    Share("shuffle() of images in memory", 0.7, shuffled(images, None), {"shuffle(10000)": shuffled(images, 10_000)}),
    Share("shuffle() of int64 in memory", 0.7, shuffled(numbers, None), {"shuffle(10000)": shuffled(numbers, 10_000)}),
    Share(
        "shuffle() of TFRecords",
        0.5,
        speed(lambda: records().shuffle(seed=1).batch(128)),
        {"in order": speed(lambda: records().batch(128))},
    ),
    Bound("skip to element 10⁸ of a range", 10, "ms", skipped(lambda: D.range(10**9))),
    Bound("skip to element 10⁸ of an indexed file", 10, "ms", skipped(long_file)),
    Share("mix of three, by number", 0.1, speed(mixed), {"one alone": shuffled(numbers, None)}),
    Bound("packing 10⁶ documents, padding", 3, "%", emptiness),
    Bound("packing, state", 4096, "B", state_bytes),
    Share(
        "packing, first_fit",
        20,
        lambda: rows_packed(PEERS_DOCUMENTS),
        {f"Grain, {bins} bins": lambda bins=bins: rows_packed_by_grain(bins) for bins in (16, 64)},
    ),
    Share(
        "packing, concat",
        20,
        lambda: rows_packed(PEERS_DOCUMENTS, "concat"),
        {"Grain": lambda: rows_packed_by_grain(16)},
    ),
]

if __name__ == "__main__":
    sys.exit(main("headrace: index space", CASES, description=__doc__))
