"""Where a small change of a pipeline must not make it many times slower: the slower form beside the fast one.

Both sides take turns in one run, so the ratios stand on a noisy machine. `≥ 0.5×` reads: no more than twice as slow.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from harness import Bound, Case, Job, alternating, batches, elements, main

import headrace as hr

RECORDS = 3_000
SHARDS = 4
NUMBERS = 100_000
SINGLE = 20_000
CHILDREN = 2_000
LARGE_ROWS = 300
BATCH = 10

FEATURES = {"x": hr.io.FixedLenFeature([8], np.float32), "y": hr.io.FixedLenFeature([], np.int64)}
FACTORS = [1.0, 2.0]
SETTINGS = {"factor": 2.0}


@cache
def folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="headrace-cliffs-")
    _kept.append(made)
    return Path(made.name)


_kept: list[Any] = []


@cache
def files() -> list[str]:
    names = [str(folder() / f"{i}.tfrecord") for i in range(SHARDS)]
    for name in names:
        with hr.io.TFRecordWriter(name) as writer:
            for i in range(RECORDS):
                writer.write({"x": np.arange(8, dtype=np.float32), "y": i})
    return names


@cache
def mapped() -> np.ndarray:
    made = np.memmap(folder() / "mapped", np.float64, "w+", shape=(10,))
    made[:] = 2
    return made


@cache
def large() -> np.ndarray:
    return np.random.default_rng(0).random((LARGE_ROWS, 100, 500))


def parse(record: Any) -> Any:
    return hr.io.parse_single_example(record, FEATURES)


def names() -> Any:
    return hr.Dataset.from_tensor_slices(files())


def numbers() -> Any:
    return hr.Dataset.range(NUMBERS)


def by_memmap() -> Any:
    table = mapped()
    return numbers().map(lambda x: x * table[1]).batch(128)


def drawn(*_: Any) -> float:
    """Cannot be traced."""
    return random.random()


def called(build: Callable[[], Any], rows: int) -> Callable[[int], Sequence[float]]:
    """Microseconds of the processor a row, beyond those of calling the function, one by one."""

    def measure(rounds: int) -> list[float]:
        made = build()
        whole = timed(lambda: sum(1 for _ in made))
        alone = timed(lambda: sum(1 for _ in map(drawn, range(rows))))
        whole()
        return [(a - b) / rows * 1e6 for a, b in alternating(rounds, whole, alone)]

    return measure


def opened(fn: Callable[[Any], Any]) -> Callable[[int], Sequence[float]]:
    """Microseconds of the processor a child of two rows, all that comes with it included."""

    def measure(rounds: int) -> list[float]:
        made = hr.Dataset.range(CHILDREN).flat_map(fn)
        (seconds,) = zip(*alternating(rounds, timed(lambda: sum(1 for _ in made))), strict=True)
        return [s / CHILDREN * 1e6 for s in seconds]

    return measure


def timed(job: Job) -> Callable[[], float]:
    def seconds() -> float:
        started = process_time()
        job()
        return process_time() - started

    return seconds


def cached(rows: Callable[[], Any]) -> Job:
    return batches(lambda: rows().cache().shuffle(LARGE_ROWS).batch(BATCH))


def generated() -> Any:
    return hr.Dataset.from_generator(lambda: iter(large()), output_signature=hr.TensorSpec((100, 500), np.float64))


def gathered() -> int:
    rows, order = large(), np.random.permutation(LARGE_ROWS)
    for i in range(0, LARGE_ROWS, BATCH):
        rows[order[i : i + BATCH]]
    return LARGE_ROWS


@cache
def sequences() -> hr.Ragged:
    lengths = np.random.default_rng(0).integers(4, 20, SINGLE)
    return hr.Ragged.from_rows([np.arange(n) for n in lengths])


def eager(calls: str = "filter") -> Any:
    rows = hr.Dataset.from_tensor_slices(sequences())
    if calls == "map":
        return rows.map(lambda row: row if drawn() < 2 else None)
    return rows.filter(lambda row: drawn(row) < 2)


def bucketed(rows: Any) -> Any:
    return rows.bucket_by_sequence_length(len, [8, 12, 16], [64] * 4)


def grouped(rows: Any) -> Any:
    return rows.group_by_window(lambda row: len(row) // 5, lambda _, group: group.padded_batch(64), 64)


def without_cliff(name: str, least: float, made: Callable[[], Any], plain: Callable[[], Any]) -> Case:
    """After an untraced function, beside padded_batch after the same."""
    return Case(name, {"padded_batch": least}, {"headrace": batches(made), "padded_batch": batches(plain)}, SINGLE)


RECORDS_READ = {"headrace": elements(lambda: names().interleave(hr.TFRecordDataset, cycle_length=SHARDS).map(parse))}
PLAIN = elements(lambda: hr.TFRecordDataset(files()).map(parse))


def cases() -> list[Case | Bound]:
    read, many = SHARDS * RECORDS, "without it"
    plain = batches(lambda: numbers().map(lambda x: x * 2.0).batch(128))
    return [
        Case("interleave of a reader, then parse, one by one", {many: 0.3}, {**RECORDS_READ, many: PLAIN}, read),
        Case(
            "flat_map of a reader, then parse, one by one",
            {many: 0.3},
            {"headrace": elements(lambda: names().flat_map(hr.TFRecordDataset).map(parse)), many: PLAIN},
            read,
        ),
        Case(
            "parse within an interleave, one by one",
            {many: 0.3},
            {"headrace": elements(lambda: names().interleave(lambda f: hr.TFRecordDataset(f).map(parse))), many: PLAIN},
            read,
        ),
        Case(
            "a function that holds a list",
            {many: 0.5},
            {"headrace": batches(lambda: numbers().map(lambda x: x * FACTORS[1]).batch(128)), many: plain},
            NUMBERS,
        ),
        Case(
            "a function that holds a dict",
            {many: 0.5},
            {"headrace": batches(lambda: numbers().map(lambda x: x * SETTINGS["factor"]).batch(128)), many: plain},
            NUMBERS,
        ),
        Case("a function that holds a memmap", {many: 0.3}, {"headrace": batches(by_memmap), many: plain}, NUMBERS),
        Bound("an untraced function, one by one", 3, "µs", called(lambda: hr.Dataset.range(SINGLE).map(drawn), SINGLE)),
        Bound(
            "an untraced function behind a parse, one by one",
            3,
            "µs",
            called(lambda: hr.TFRecordDataset(files()).map(parse).map(drawn), read),
        ),
        without_cliff(
            "an untraced filter, then bucket_by_sequence_length",
            0.3,
            lambda: bucketed(eager()),
            lambda: eager().padded_batch(64),
        ),
        without_cliff(
            "an untraced filter, a shuffle, then bucket_by_sequence_length",
            0.3,
            lambda: bucketed(eager().shuffle(1000)),
            lambda: eager().shuffle(1000).padded_batch(64),
        ),
        without_cliff(
            "an untraced map, then bucket_by_sequence_length",
            0.5,
            lambda: bucketed(eager("map")),
            lambda: eager("map").padded_batch(64),
        ),
        without_cliff(
            "an untraced filter, then group_by_window",
            0.15,
            lambda: grouped(eager()),
            lambda: eager().padded_batch(64),
        ),
        Bound("a child of two rows", 30, "µs", opened(lambda _: hr.Dataset.range(2))),
        Bound("a child with a function", 30, "µs", opened(lambda _: hr.Dataset.range(2).map(lambda x: x + 1))),
        Bound(
            "a child with a function of its parent",
            30,
            "µs",
            opened(lambda n: hr.Dataset.range(2).map(lambda x: x + n)),
        ),
        Case(
            "cached rows of 400 kB, shuffled and batched",
            {"NumPy": 0.7},
            {"headrace": cached(lambda: hr.Dataset.from_tensor_slices(large())), "NumPy": gathered},
            LARGE_ROWS,
        ),
        Case(
            "cached rows of a generator, shuffled and batched",
            {"NumPy": 0.7},
            {"headrace": cached(generated), "NumPy": gathered},
            LARGE_ROWS,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main("Cliffs", cases(), description=__doc__))
