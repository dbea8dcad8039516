"""Functions that hold the GIL, in worker processes.

A function of about a millisecond of pure Python is applied to numbers without end, and every side is measured while it
runs: what starting the workers costs is a line of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, Job, alternating, main

import headrace as hr

ROWS = 1500
"""Many times what a side may make ahead while it is not its turn."""
IMAGES = 300


def spin(count: int) -> int:
    total = 0
    for i in range(count):
        total += i * i
    return total


@cache
def millisecond() -> int:
    """How far to count for a millisecond of work, on an idle core."""
    best = float("inf")
    for _ in range(20):
        started = perf_counter()
        spin(10_000)
        best = min(best, perf_counter() - started)
    return int(10_000 * 1e-3 / best)


def busy(**how: Any) -> hr.Dataset:
    count = millisecond()
    return hr.Dataset.counter().map(lambda x: x + spin(count) % 2, **how)


def images(**how: Any) -> hr.Dataset:
    """A megabyte in, a megabyte out, and little to do: what the way through memory costs."""
    pictures = hr.Dataset.from_tensor_slices(np.zeros((4, 1 << 20), np.uint8)).repeat()
    return pictures.map(lambda x: x, **how)


def running(ds: hr.Dataset, rows: int) -> Job:
    """A job: the next rows of a pass that stays open, its workers with it."""
    opened: list[Iterator[Any]] = []

    def job() -> int:
        if not opened:
            opened.append(iter(ds))
            next(opened[0])
        for _ in range(rows):
            next(opened[0])
        return rows

    return job


def start(rounds: int) -> list[float]:
    """Seconds from a new iterator to the first element, two workers."""

    def first() -> float:
        started = perf_counter()
        with iter(hr.Dataset.range(2).map(lambda x: x, 2, mode="process")) as it:
            next(it)
            return perf_counter() - started

    return [seconds for (seconds,) in alternating(rounds, first)]


ITEMS = [
    Case(
        "1 ms of Python an element, 2 processes",
        {"1 process": 1.8},
        {
            "2 processes": running(busy(num_parallel_calls=2, mode="process"), ROWS),
            "1 process": running(busy(num_parallel_calls=1, mode="process"), ROWS),
            "in the consumer's thread": running(busy(), ROWS),
            "2 threads": running(busy(num_parallel_calls=2), ROWS),
        },
        ROWS,
    ),
    Case(
        "1 MB there and back, 1 process",
        {},
        {
            "1 process": running(images(num_parallel_calls=1, mode="process"), IMAGES),
            "in the consumer's thread": running(images(), IMAGES),
        },
        IMAGES,
    ),
    Bound("from a new iterator to the first element, 2 workers", 0.5, "s", start, min),
]

if __name__ == "__main__":
    sys.exit(main("headrace: worker processes", ITEMS, description=__doc__))
