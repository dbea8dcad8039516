"""Check that headrace has not become slower, on any machine: `make perf-check`.

Each line compares the CPU time of a pipeline with that of plain NumPy or plain Python doing the same work in the same
process, alternating. Such ratios depend little on how fast or busy a machine is. A line fails if its best ratio of
several rounds is worse than its bound, which leaves a factor of about two over what was measured.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr

ROUNDS = 7


@dataclass(frozen=True)
class Line:
    """One comparison: the pipeline, what it is compared with, and the largest ratio of CPU times that is accepted."""

    name: str
    pipeline: Callable[[], Any]
    plain: Callable[[], Any]
    max_ratio: float


def drain(ds: hr.Dataset) -> None:
    """Go through a dataset."""
    for _ in ds:
        pass


def lines(folder: Path) -> list[Line]:
    """Return the comparisons, with their data made in `folder`."""
    images = np.zeros((20_000, 28, 28), np.uint8)
    labels = np.arange(20_000)
    slices = hr.Dataset.from_tensor_slices((images, labels))
    numbers = np.arange(200_000, dtype=np.float32)
    rows = hr.Dataset.range(20_000).map(lambda i: {"x": np.float32(i), "y": i})
    (records,) = rows.write_tfrecord(folder / "rows", shards=1)
    (table,) = rows.write_parquet(folder / "table", shards=1)
    features = {"x": hr.io.FixedLenFeature((), np.float32), "y": hr.io.FixedLenFeature((), np.int64)}

    def gather() -> None:
        order = np.random.default_rng(0).permutation(len(images))
        for start in range(0, len(order), 128):
            _ = images[order[start : start + 128]], labels[order[start : start + 128]]

    def loop() -> None:
        for x in numbers:
            _ = np.sqrt(x) * 2 + 1

    def count() -> None:
        for _ in range(20_000):
            _ = np.int64(1)

    def read() -> None:
        data = Path(records).read_bytes()
        for _ in range(20):
            _ = bytes(data)

    return [
        Line(
            "slices, shuffled and batched / NumPy gather", lambda: drain(slices.shuffle(seed=1).batch(128)), gather, 5.0
        ),
        Line(
            "slices through a buffer / NumPy gather",
            lambda: drain(slices.shuffle(5_000, seed=1).batch(128)),
            gather,
            5.0,
        ),
        Line(
            "map on blocks / loop over scalars",
            lambda: drain(hr.Dataset.from_tensor_slices(numbers).map(lambda x: np.sqrt(x) * 2 + 1).batch(1000)),
            loop,
            0.12,
        ),
        Line("range, one by one / Python loop", lambda: drain(hr.Dataset.range(20_000)), count, 0.8),
        Line(
            "TFRecords, parsed and batched / copying their bytes 20 times",
            lambda: drain(hr.TFRecordDataset(records).batch(128).map(lambda r: hr.io.parse_example(r, features))),
            read,
            100.0,
        ),
        Line(
            "Parquet, batched / Python loop over its rows",
            lambda: drain(hr.ParquetDataset(table).batch(128)),
            count,
            2.0,
        ),
    ]


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Return the CPU time of all threads for one run."""
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    """Measure all lines, print them, and exit with 1 if one is out of bounds."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for line in lines(Path(folder)):
            line.pipeline()
            line.plain()
            ratios = sorted(cpu_seconds(line.pipeline) / cpu_seconds(line.plain) for _ in range(ROUNDS))
            good = ratios[0] <= line.max_ratio
            failed += not good
            verdict = "ok" if good else "TOO SLOW"
            print(
                f"{verdict:9}{line.name}: {ratios[0]:.3g} (median {ratios[ROUNDS // 2]:.3g}, bound {line.max_ratio:g})"
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
