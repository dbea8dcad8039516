"""Pipelines with a planted bottleneck: does `why_slow` name it, and does the first remedy gain what it says?

    python benchmarks/why_slow.py --pipelines 100 --seconds 1

Each kind of bottleneck is planted with random parameters. The gain of a remedy is measured if applying it is a
change of the pipeline: the pipeline is run again with that change, with the same step. The line at the end counts
verdicts and gives the median error of the predicted gains.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem

import headrace as hr
from headrace.adapters.feed import Feed, PlainTarget
from headrace.observe.measure_headroom import timed_steps

D = hr.Dataset
ROWS = 400


@dataclass(frozen=True)
class Planted:
    """A pipeline with a bottleneck, the step that consumes it, and the pipeline with the first remedy applied."""

    limit: str
    ds: hr.Dataset | Feed
    step: Callable[[Any], Any]
    remedied: Callable[[str], hr.Dataset | Feed | None] = lambda _: None
    whole: bool = False  # whether the first element counts


def pause(seconds: float) -> Callable[[Any], None]:
    return lambda _: time.sleep(seconds)


def spin(seconds: float) -> Callable[[Any], Any]:
    """A Python function that computes for so long of CPU time."""

    def compute(x: Any) -> Any:
        stop = time.thread_time() + seconds
        while time.thread_time() < stop:
            pass
        return x

    return compute


def apply(
    ds: hr.Dataset, size: int, fn: Callable[[Any], Any] | None = None
) -> Callable[[str], hr.Dataset | Feed | None]:
    """From what a remedy says to the pipeline with that change: a cache, or the function in other processes."""

    def change(what: str) -> hr.Dataset | None:
        if what.startswith(".cache()"):
            kept = ds.cache()
            kept.count()
            return kept.repeat().batch(size)
        if what.startswith('mode="process"') and fn is not None:
            made = D.range(ROWS).map(fn, mode="process", num_parallel_calls=hr.AUTOTUNE).repeat().batch(size)
            with made.iterator() as it:
                next(it)  # the workers stay for the next pass
            return made
        return None

    return change


def always(ds: hr.Dataset | Feed) -> Callable[[str], hr.Dataset | Feed | None]:
    return lambda _: ds


def slow_function(draw: random.Random) -> Planted:
    fn, size = spin(draw.uniform(0.0005, 0.002)), draw.choice([4, 8, 16])
    ds = D.range(ROWS).map(fn, mode="eager")
    return Planted("CPU", ds.repeat().batch(size), pause(0.002), apply(ds, size, fn))


def gil_bound(draw: random.Random) -> Planted:
    fn, size = spin(draw.uniform(0.0005, 0.002)), draw.choice([4, 8, 16])
    ds = D.range(ROWS).map(fn, num_parallel_calls=draw.choice([3, 4, 6]), mode="eager")
    return Planted("GIL", ds.repeat().batch(size), pause(0.002), apply(ds, size, fn))


def waiting_function(draw: random.Random) -> Planted:
    seconds, size = draw.uniform(0.002, 0.005), draw.choice([16, 32])

    def wait(x: Any) -> Any:
        time.sleep(seconds)
        return x

    ds = D.range(10**6)
    return Planted(
        "function waits",
        ds.map(wait, mode="eager").batch(size),
        pause(0.002),
        always(ds.map(wait, mode="eager", num_parallel_calls=16).batch(size)),
    )


def slow_reader(draw: random.Random) -> Planted:
    seconds, size = draw.uniform(0.0005, 0.002), draw.choice([4, 8])

    def read() -> Iterator[int]:
        for i in range(ROWS):
            time.sleep(seconds)
            yield i

    ds = D.from_generator(read, output_signature=hr.TensorSpec((), np.int64))
    return Planted("source waits", ds.repeat().batch(size), pause(0.001), apply(ds, size))


class SlowStore(LocalFileSystem):
    """Local files that answer each request after a while."""

    protocol = "slowstore"
    cachable = False
    seconds = 0.01

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).removeprefix("slowstore://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        time.sleep(self.seconds)
        return super().cat_file(path, start, end, **kwargs)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        time.sleep(self.seconds / 4)
        return super().info(path, **kwargs)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any) -> Any:
        time.sleep(self.seconds)
        return super()._open(path, mode, block_size, **kwargs)


def stored(folder: Path, files: int, rows: int) -> list[str]:
    names = []
    for k in range(files):
        path = folder / f"{files}-{rows}-{k}.tfrecord"
        if not path.exists():
            with hr.io.TFRecordWriter(path) as writer:
                for i in range(rows):
                    writer.write(b"%6d" % i * 20)
        names.append(f"slowstore://{path}")
    return names


def slow_store(draw: random.Random, folder: Path) -> Planted:
    SlowStore.seconds = draw.uniform(0.02, 0.05)
    ds = hr.TFRecordDataset(stored(folder, draw.choice([8, 12]), 60))
    return Planted("store", ds.repeat().batch(30), pause(0.001), apply(ds, 30))


def one_file(draw: random.Random, folder: Path) -> Planted:
    SlowStore.seconds = draw.uniform(0.03, 0.06)
    ds = hr.TFRecordDataset(stored(folder, 1, 120))
    return Planted("few files", ds.repeat().batch(20), pause(0.001), apply(ds, 20))


def shuffle_fill(draw: random.Random) -> Planted:
    fn, buffer = spin(0.0005), draw.choice([5000, 6000, 8000])
    ds = D.range(10**6).map(fn, mode="eager")
    return Planted(
        "shuffle fill",
        ds.shuffle(buffer, seed=1).batch(4),
        pause(0.01),
        always(ds.shuffle(buffer // 10, seed=1).batch(4)),
        True,
    )


def small_budget(draw: random.Random) -> Planted:
    size = draw.choice([1 << 20, 1 << 21])
    seconds = draw.uniform(0.004, 0.008)

    def load(x: Any) -> Any:
        time.sleep(seconds)
        return np.full(size, x, np.uint8)

    ds = D.range(10**6).map(load, num_parallel_calls=8, mode="eager").prefetch(8)
    return Planted("memory budget", ds.with_options(hr.Options(ram_budget=size)), pause(0.0005), always(ds))


class SlowBus(PlainTarget):
    """A device to which elements are copied so many bytes a second."""

    name = "to_torch"

    def __init__(self, bytes_per_second: float) -> None:
        super().__init__()
        self._rate = bytes_per_second

    def convert(self, block: Any) -> Any:
        time.sleep(block.nbytes / self._rate)
        return block


class BusFeed(Feed):
    """A dataset on its way to such a device."""

    def __init__(self, ds: hr.Dataset, bytes_per_second: float) -> None:
        super().__init__(ds)
        self._rate = bytes_per_second

    def make_target(self) -> SlowBus:
        return SlowBus(self._rate)


def slow_copy(draw: random.Random) -> Planted:
    size = draw.choice([16, 32])
    ds = D.from_tensor_slices(np.zeros((ROWS, 4096), np.float32)).repeat().batch(size)
    rate = size * 4096 * 4 / draw.uniform(0.01, 0.03)
    return Planted("transfer", BusFeed(ds, rate), pause(0.002), always(BusFeed(ds, 1e12)))


def slow_consumer(draw: random.Random) -> Planted:
    seconds = draw.uniform(0.01, 0.03)
    return Planted("consumer", D.range(10**7).shuffle(1000, seed=1).batch(draw.choice([16, 64])), pause(seconds))


def slow_record(draw: random.Random) -> Planted:
    seconds, which = draw.uniform(0.1, 0.3), draw.randrange(1000)

    def fn(x: Any) -> Any:
        if int(x) % 1000 == which:
            time.sleep(seconds)
        return x

    ds = D.range(10**7)
    good = ds.filter(lambda x: x % 1000 != which)
    return Planted(
        "slow records", ds.map(fn, mode="eager").batch(50), pause(0.0005), always(good.map(fn, mode="eager").batch(50))
    )


def kinds(folder: Path) -> list[Callable[[random.Random], Planted]]:
    return [
        slow_function,
        gil_bound,
        waiting_function,
        slow_reader,
        lambda draw: slow_store(draw, folder),
        lambda draw: one_file(draw, folder),
        shuffle_fill,
        small_budget,
        slow_consumer,
        slow_copy,
        slow_record,
    ]


def measured_gain(planted: Planted, verdict: Any, remedied: hr.Dataset | Feed, seconds: float) -> float:
    """How many times faster the steps are with the remedy."""
    with iter(remedied) as it:
        after = timed_steps(it, planted.step, seconds)
    before = verdict.measurement
    if planted.whole:
        return (before.first_seconds + before.seconds) / (
            after.first_seconds + after.seconds * before.steps / after.steps
        )
    return (before.seconds / before.steps) / (after.seconds / after.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0)
    chosen = parser.parse_args()
    fsspec.register_implementation("slowstore", SlowStore, clobber=True)
    right, errors = 0, []
    with tempfile.TemporaryDirectory() as folder:
        makers = kinds(Path(folder))
        for number in range(chosen.pipelines):
            planted = makers[number % len(makers)](random.Random(number))
            verdict = planted.ds.why_slow(chosen.seconds, planted.step)
            found = verdict.limit == planted.limit
            right += found
            line = f"{number:3} {planted.limit:15} {'ok   ' if found else 'WRONG'} {verdict.limit:15}"
            remedied = planted.remedied(verdict.remedies[0].what) if found and verdict.remedies else None
            if remedied is not None:
                predicted, gained = verdict.remedies[0].gain, measured_gain(planted, verdict, remedied, chosen.seconds)
                errors.append(abs(predicted - gained) / gained)
                line += f" predicted × {predicted:.2f}, measured × {gained:.2f}"
            print(line, flush=True)
    print(f"{right} of {chosen.pipelines} verdicts name what was planted")
    if errors:
        print(f"median error of {len(errors)} predicted gains: {statistics.median(errors):.0%}")


if __name__ == "__main__":
    main()
