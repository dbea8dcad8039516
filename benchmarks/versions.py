"""Two versions of headrace against each other: `versions.py BEFORE AFTER`, each a Python that has one installed.

Every line runs on both sides in turn, each side in a process of its own, and says how much faster AFTER is: the median
of the rounds' ratios, and their range. `--check 0.95` fails where a median is below that.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

Job = Callable[[Path], Iterable[Any]]
LINES: dict[str, Job] = {}
SHORTEST = 0.3
"""Seconds that a measurement takes at least: short lines run several times."""


def line(name: str) -> Callable[[Job], Job]:
    """Have a line measured."""

    def register(job: Job) -> Job:
        LINES[name] = job
        return job

    return register


def _hr() -> Any:
    import headrace

    return headrace


@cache
def _images() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.integers(0, 256, (60_000, 28, 28), dtype=np.uint8), random.integers(0, 10, 60_000)


def _scaled(x: Any, y: Any) -> tuple[Any, Any]:
    return x.astype(np.float32) / np.float32(255), y


def _untraced(x: Any) -> Any:
    return float(x) if x > 5 else int(x)


def _features(hr: Any) -> dict[str, Any]:
    return {f"f{i}": hr.io.FixedLenFeature((), np.int64 if i % 3 else np.float32) for i in range(39)}


def make_files(folder: Path) -> None:
    """What the lines read."""
    hr = _hr()
    random = np.random.default_rng(0)
    columns = {f"f{i}": random.integers(0, 99, 40_000) for i in range(39)}
    for i in range(0, 39, 3):
        columns[f"f{i}"] = columns[f"f{i}"].astype(np.float32)
    hr.Dataset.from_tensor_slices(columns).write_tfrecord(str(folder / "rows"), shards=4)
    text = b"".join(b"%d,%f,word%d\n" % (i, i / 7, i % 100) for i in range(100_000))
    (folder / "rows.csv").write_bytes(b"a,b,c\n" + text)
    import pyarrow as pa
    import pyarrow.parquet as pq

    for count in (40, 200):
        wide = {f"f{i}": random.integers(0, 99, 2_000_000 // count) for i in range(count)}
        pq.write_table(pa.table(wide), folder / f"wide-{count}.parquet", row_group_size=4_000)
    table = {"x": np.arange(200_000), "y": random.random(200_000), "s": [f"text {i}" for i in range(200_000)]}
    pq.write_table(pa.table(table), folder / "rows.parquet", row_group_size=20_000)


def _records(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("rows-*.tfrecord")))


@line("memory, batch")
def _(_: Path) -> Any:
    return _hr().Dataset.from_tensor_slices(_images()).batch(128)


@line("memory, shuffle, batch")
def _(_: Path) -> Any:
    return _hr().Dataset.from_tensor_slices(_images()).shuffle(10_000).batch(128)


@line("memory, map, batch")
def _(_: Path) -> Any:
    return _hr().Dataset.from_tensor_slices(_images()).map(_scaled).batch(128)


@line("memory, parallel map, batch, prefetch")
def _(_: Path) -> Any:
    hr = _hr()
    return hr.Dataset.from_tensor_slices(_images()).map(_scaled, hr.AUTOTUNE).batch(128).prefetch(hr.AUTOTUNE)


@line("one by one")
def _(_: Path) -> Any:
    return _hr().Dataset.range(200_000)


@line("one by one through an untraced function")
def _(_: Path) -> Any:
    return _hr().Dataset.range(100_000).map(_untraced)


@line("filter, enumerate, take, skip, batch")
def _(_: Path) -> Any:
    ds = _hr().Dataset.range(1_000_000).filter(lambda x: x % 3 == 0).enumerate()
    return ds.skip(10).take(300_000).batch(256)


@line("a stream, shuffled")
def _(_: Path) -> Any:
    return _hr().Dataset.range(1_000_000).filter(lambda x: x >= 0).shuffle(10_000).batch(256)


@line("zip, concatenate, repeat")
def _(_: Path) -> Any:
    hr = _hr()
    one = hr.Dataset.range(100_000)
    return hr.Dataset.zip(one, one.map(lambda x: x * 2)).concatenate(hr.Dataset.zip(one, one)).repeat(3).batch(256)


@line("flat_map of small children")
def _(_: Path) -> Any:
    hr = _hr()
    return hr.Dataset.range(2_000).flat_map(lambda x: hr.Dataset.range(x, x + 20)).batch(256)


@line("interleave of small children")
def _(_: Path) -> Any:
    hr = _hr()
    return hr.Dataset.range(2_000).interleave(lambda x: hr.Dataset.range(x, x + 20), 8).batch(256)


@line("window, group_by_window")
def _(_: Path) -> Any:
    ds = _hr().Dataset.range(50_000)
    return ds.group_by_window(lambda x: x % 7, lambda _, window: window.batch(32), 32)


@line("padded_batch")
def _(_: Path) -> Any:
    hr = _hr()
    ragged = hr.Ragged(np.arange(2_000_000) % 97, np.arange(0, 2_000_001, 20))
    return hr.Dataset.from_tensor_slices(ragged).padded_batch(64)


@line("unbatch, batch")
def _(_: Path) -> Any:
    return _hr().Dataset.from_tensor_slices(_images()).batch(100).unbatch().batch(128)


@line("scan")
def _(_: Path) -> Any:
    return _hr().Dataset.range(50_000).scan(np.int64(0), lambda s, x: (s + x, s)).batch(256)


@line("raw records")
def _(folder: Path) -> Any:
    return _hr().TFRecordDataset(_records(folder))


@line("raw records, batched")
def _(folder: Path) -> Any:
    return _hr().TFRecordDataset(_records(folder)).batch(256)


@line("records in turn, batched")
def _(folder: Path) -> Any:
    return _hr().TFRecordDataset(_records(folder), num_parallel_reads=4).batch(256)


@line("records, parsed, batched")
def _(folder: Path) -> Any:
    hr = _hr()
    features = _features(hr)
    return hr.TFRecordDataset(_records(folder)).map(lambda r: hr.io.parse_single_example(r, features)).batch(1024)


@line("records, batched, parsed")
def _(folder: Path) -> Any:
    hr = _hr()
    features = _features(hr)
    return hr.TFRecordDataset(_records(folder)).batch(1024).map(lambda r: hr.io.parse_example(r, features))


@line("records, shuffled, parsed, batched, prefetched")
def _(folder: Path) -> Any:
    hr = _hr()
    features = _features(hr)
    ds = hr.TFRecordDataset(_records(folder), index=False).shuffle(10_000)
    parsed = ds.map(lambda r: hr.io.parse_single_example(r, features), num_parallel_calls=hr.AUTOTUNE)
    return parsed.batch(128).prefetch(hr.AUTOTUNE)


@line("text lines, batched")
def _(folder: Path) -> Any:
    return _hr().TextLineDataset(str(folder / "rows.csv")).batch(256)


@line("CSV, batched")
def _(folder: Path) -> Any:
    return _hr().CsvDataset(str(folder / "rows.csv"), [np.int64, np.float64, str], header=True).batch(256)


@line("Parquet, batched")
def _(folder: Path) -> Any:
    return _hr().ParquetDataset(str(folder / "rows.parquet")).batch(256)


@line("Parquet, 40 columns, batched")
def _(folder: Path) -> Any:
    return _hr().ParquetDataset(str(folder / "wide-40.parquet")).batch(1024)


@line("Parquet, 200 columns, batched")
def _(folder: Path) -> Any:
    return _hr().ParquetDataset(str(folder / "wide-200.parquet")).batch(1024)


@line("cache, shuffled")
def _(_: Path) -> Any:
    return _hr().Dataset.range(200_000).filter(lambda x: x % 2 == 0).cache().repeat(3).shuffle(1_000).batch(256)


@line("states, one a batch")
def _(_: Path) -> Any:
    it = iter(_hr().Dataset.range(100_000).filter(lambda x: x >= 0).shuffle(1_000).batch(100))
    for _batch in it:
        yield it.state()


def serve(folder: Path, *, cpu: bool) -> None:
    """Time the lines that are asked for."""
    for name in map(str.strip, sys.stdin):
        rounds, started, worked = 0, perf_counter(), process_time()
        while not rounds or perf_counter() - started < SHORTEST:
            for _element in LINES[name](folder):
                pass
            rounds += 1
        spent = process_time() - worked if cpu else perf_counter() - started
        print(spent / rounds, flush=True)


class Side:
    """One version, in a process of its own."""

    def __init__(self, python: str, folder: Path, *, cpu: bool) -> None:
        command = [python, __file__, "--serve", str(folder), *(["--cpu"] if cpu else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, name: str) -> float:
        """How long a line takes now."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(before: str, after: str, rounds: int, only: str, least: float, *, cpu: bool) -> bool:
    """Print a row for each line; whether none is slower than `least` allows."""
    fine = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([before, __file__, "--make", name], check=True)
        sides = [Side(python, folder, cpu=cpu) for python in (before, after)]
        print("| line | before | times as fast | range |\n| --- | ---: | ---: | ---: |")
        for wanted in (n for n in LINES if only in n):
            for side in sides:
                side.seconds(wanted)
            pairs = []
            for number in range(rounds):
                order = sides if number % 2 else sides[::-1]
                taken = {side: side.seconds(wanted) for side in order}
                pairs.append((taken[sides[0]], taken[sides[1]]))
            ratios = [a / b for a, b in pairs]
            fine = fine and median(ratios) >= least
            seconds = median(a for a, _ in pairs)
            print(
                f"| {wanted} | {seconds:.3f} s | {median(ratios):.2f} | {min(ratios):.2f}–{max(ratios):.2f} |",
                flush=True,
            )
        for side in sides:
            side.close()
    return fine


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="of the version before and of the one after")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="lines whose names hold this")
    parser.add_argument("--check", type=float, default=0.0, help="fail where a line is slower than this")
    parser.add_argument("--cpu", action="store_true", help="compare time on CPUs, which a busy machine disturbs less")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        make_files(asked.make)
    elif asked.serve:
        serve(asked.serve, cpu=asked.cpu)
    elif len(asked.pythons) != 2:
        parser.error("two are compared")
    elif not compare(*asked.pythons, asked.rounds, asked.only, asked.check, cpu=asked.cpu):
        sys.exit("slower than allowed")


if __name__ == "__main__":
    main()
