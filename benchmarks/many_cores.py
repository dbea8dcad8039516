"""What many cores bring: large rows, threads over records, processes, with the speed one core gives beside each.

For a machine with many cores; the lines about a GPU are skipped where there is none. `--only processes` and the like
choose lines. Sides of a line take turns.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Line, UnsupportedError, main
from images import jpegs

import headrace as hr

IMAGES = 12_000
RECORDS = 60_000
SHARDS = 32
CALLS = 20_000
PICTURES = 4_096
SPIN = 4_600
"""How far to count for a quarter of a millisecond, about."""
WIDTHS = [n for n in (1, 2, 4, 8, 16, 32) if n <= 2 * (os.cpu_count() or 1)]
Rate = Callable[[], float]
"""Rows a second."""


@cache
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (IMAGES, 224, 224, 3), np.uint8)


@cache
def shards() -> list[str]:
    made = tempfile.TemporaryDirectory(prefix="headrace-cores-")
    _kept.append(made)
    names = [str(Path(made.name, f"{i}.tfrecord")) for i in range(SHARDS)]
    row = np.random.default_rng(0).integers(0, 256, 12_288, np.uint8).tobytes()
    for name in names:
        with hr.io.TFRecordWriter(name) as writer:
            for i in range(RECORDS // SHARDS):
                writer.write({"image": row, "label": i})
    return names


_kept: list[Any] = []


def timed(ds: Any, rows: int) -> float:
    """Rows a second of one pass."""
    started = perf_counter()
    for _ in ds:
        pass
    _wait_for_device()
    return rows / (perf_counter() - started)


def _wait_for_device() -> None:
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.synchronize()


def needs_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        raise UnsupportedError("there is no GPU")


def to_gpu(ds: hr.Dataset) -> Rate:
    return lambda: timed(ds.to_torch("cuda"), IMAGES)


def flip(image: Any, rng: Any) -> Any:
    return image[:, ::-1] if rng.random() < 0.5 else image


def gathered(threads: int) -> Rate:
    """Batches gathered by threads into page-locked buffers, copies beside it: what is possible."""

    def rate() -> float:
        needs_gpu()
        from concurrent.futures import ThreadPoolExecutor

        import torch

        order = np.random.default_rng(1).permutation(IMAGES)
        rooms = [torch.empty((256, 224, 224, 3), dtype=torch.uint8, pin_memory=True) for _ in range(2 * threads)]

        def gather(i: int) -> Any:
            some = order[i * 256 : (i + 1) * 256]
            room = rooms[i % len(rooms)].numpy()[: len(some)]
            np.take(images(), some, axis=0, out=room)
            return rooms[i % len(rooms)][: len(some)]

        started = perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            for batch in pool.map(gather, range(-(-IMAGES // 256))):
                batch.to("cuda")
        torch.cuda.synchronize()
        return IMAGES / (perf_counter() - started)

    return rate


FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


def parse(record: Any) -> Any:
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8), row["label"]


def records(calls: int) -> Rate:
    reads = None if calls == 1 else calls

    def rate() -> float:
        ds = hr.TFRecordDataset(shards(), num_parallel_reads=reads, index=False)
        return timed(ds.map(parse, num_parallel_calls=calls).shuffle(10_000, seed=1).batch(512), RECORDS)

    return rate


def records_alone() -> float:
    """As `records(1)`, by a single thread: the kernels of the other one have helpers on all processors."""
    ds = hr.TFRecordDataset(shards(), index=False).map(parse).shuffle(10_000, seed=1).batch(512)
    return timed(ds.with_options(hr.Options(cpu_budget=1)), RECORDS)


def picture(data: Any) -> Any:
    return hr.image.resize(hr.image.decode_jpeg(data), (224, 224)) / np.float32(255)


def pictures(calls: int) -> Rate:
    def rate() -> float:
        ds = hr.Dataset.from_tensor_slices(jpegs()).repeat(PICTURES // len(jpegs()))
        return timed(ds.map(picture, num_parallel_calls=calls).batch(32), PICTURES)

    return rate


def spin(x: Any) -> Any:
    total = 0
    for i in range(SPIN):
        total += i * i
    return x + total % 2


@cache
def spun(workers: int) -> hr.Dataset:
    return hr.Dataset.range(CALLS).map(spin, num_parallel_calls=workers, mode="process")


def processes(workers: int) -> Rate:
    """One pass without the time that the first row takes, which is that of starting in a first pass."""

    def rate() -> float:
        with iter(spun(workers)) as it:
            next(it)
            started = perf_counter()
            rows = sum(1 for _ in it)
            return rows / (perf_counter() - started)

    return rate


@dataclass(frozen=True)
class Speeds:
    """A line a width: rows a second, and how many times those of the first width."""

    name: str
    make: Callable[[int], Rate]
    widths: Sequence[int]
    asked: Callable[[int], float | None] = lambda _: None

    def run(self, rounds: int) -> Iterator[Line]:
        jobs = {width: self.make(width) for width in self.widths}
        found: dict[int, list[float]] = {width: [] for width in jobs}
        for _ in range(rounds):
            for width, rate in jobs.items():
                found[width].append(rate())
        first = found[self.widths[0]]
        for width, rates in found.items():
            ratios = [a / b for a, b in zip(rates, first, strict=True)]
            median, asked = statistics.median(ratios), self.asked(width)
            met = None if asked is None else median >= asked
            name = f"{self.name}, {'AUTOTUNE' if width == hr.AUTOTUNE else width}"
            yield Line(name, f"{self.widths[0]}", asked, "×", median, ratios, met, statistics.median(rates))


@dataclass(frozen=True)
class Against:
    """Our rows a second, and what part they are of another way's."""

    name: str
    asked: float | None
    ours: Rate
    other: str
    theirs: Rate

    def run(self, rounds: int) -> Iterator[Line]:
        pairs = [(self.ours(), self.theirs()) for _ in range(rounds)]
        ratios = [mine / theirs for mine, theirs in pairs]
        median = statistics.median(ratios)
        met = None if self.asked is None else median >= self.asked
        speed = statistics.median(mine for mine, _ in pairs)
        yield Line(self.name, self.other, self.asked, "×", median, ratios, met, speed)


def in_memory() -> hr.Dataset:
    return hr.Dataset.from_tensor_slices(images()).shuffle(IMAGES, seed=1)


def lazily(make: Callable[[], Rate]) -> Rate:
    """A rate whose data is made when it is measured, on a GPU."""

    def rate() -> float:
        needs_gpu()
        return make()()

    return rate


def linear(share: float, width: int) -> float | None:
    """A share of what this many cores could do, if there are as many."""
    return share * width if 1 < width <= (os.cpu_count() or 1) else None


def start(rounds: int) -> list[float]:
    """Seconds from a new dataset to its first row, a worker for each core."""

    def first() -> float:
        started = perf_counter()
        with iter(hr.Dataset.range(CALLS).map(lambda x: x, os.cpu_count(), mode="process")) as it:
            next(it)
            return perf_counter() - started

    return [first() for _ in range(rounds)]


ITEMS: list[Any] = [
    Against(
        "images shuffled, batch(256), to CUDA",
        0.7,
        lazily(lambda: to_gpu(in_memory().batch(256).prefetch(4))),
        "8 threads that gather into page-locked memory",
        gathered(8),
    ),
    Against(
        "images shuffled and flipped, batch(256), to CUDA",
        None,
        lazily(lambda: to_gpu(in_memory().random_map(flip, 2, num_parallel_calls=hr.AUTOTUNE).batch(256).prefetch(4))),
        "not flipped",
        lazily(lambda: to_gpu(in_memory().batch(256).prefetch(4))),
    ),
    Speeds(
        "records of 12 kB read, parsed, shuffled, batch(512), threads",
        records,
        [*WIDTHS, hr.AUTOTUNE],
        lambda width: 6.0 if 8 <= width <= (os.cpu_count() or 1) else None,
    ),
    *(
        Against(
            f"records of 12 kB, {width} threads",
            6.0,
            records(width),
            "one thread, and no others that help it",
            records_alone,
        )
        for width in WIDTHS
        if 8 <= width <= (os.cpu_count() or 1)
    ),
    Speeds(
        "JPEGs of 500×375 decoded, resized, batch(32), threads",
        pictures,
        [*WIDTHS, hr.AUTOTUNE],
        lambda width: 10.0 if width == 16 <= (os.cpu_count() or 1) else None,
    ),
    Speeds("processes for a function of 0.23 ms", processes, WIDTHS, partial(linear, 0.7)),
    Bound("processes: from a new dataset to its first row", None, "s", start),
]

if __name__ == "__main__":
    sys.exit(main("headrace: many cores", ITEMS, description=__doc__))
