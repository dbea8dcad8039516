"""AUTOTUNE against the best numbers that a sweep finds, on the pipelines of the other benchmarks, and its RAM budget.

Every side gives the same rows, and the sides take turns in one run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from time import perf_counter
from typing import Any

import core
import files
import functions
from harness import Bound, Case, Job, Share, batches, elements, main

import headrace as hr

NAP_SECONDS = 0.01
LOOK_SECONDS = 0.5
CLIMB_SECONDS = 2.0
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
BUDGET_LIMIT = 320
PASSES = 10
"""Of a pipeline that is through in milliseconds, which is what it takes to start a thread."""


def nap(x: Any) -> Any:
    time.sleep(NAP_SECONDS)
    return x


def steady(calls: int) -> Callable[[], float]:
    """Rows per second of a pass that stays open, once it has found its numbers, beyond what is ready."""
    opened: list[Iterator[Any]] = []

    def pulled(seconds: float) -> float:
        started, rows = perf_counter(), 0
        while (took := perf_counter() - started) < seconds:
            next(opened[0])
            rows += 1
        return rows / took

    def rate() -> float:
        if not opened:
            opened.append(iter(hr.Dataset.counter().map(nap, num_parallel_calls=calls)))
            pulled(CLIMB_SECONDS if calls == hr.AUTOTUNE else 0)
        pulled(LOOK_SECONDS / 2)
        return pulled(LOOK_SECONDS)

    return rate


Build = Callable[..., Any]


def swept(
    name: str, rows: int, build: Build, *, job: Callable[[Build], Job] = batches, **knobs: tuple[Any, ...]
) -> Case:
    """All knobs at AUTOTUNE against the best of all combinations of values."""
    tuned = job(partial(build, **dict.fromkeys(knobs, hr.AUTOTUNE)))
    by_hand = {
        ", ".join(f"{knob} {value}" for knob, value in zip(knobs, values, strict=True)): job(
            partial(build, **dict(zip(knobs, values, strict=True)))
        )
        for values in product(*knobs.values())
    }
    return Case(name, {"the best": 0.9}, {"AUTOTUNE": tuned, "the best": by_hand}, rows)


def slices(prefetch: int) -> Any:
    return core.shuffled(core.slices(hr)).prefetch(prefetch)


def stream(prefetch: int) -> Any:
    return core.shuffled(core.stream(hr)).prefetch(prefetch)


def generator(prefetch: int) -> Any:
    return core.from_generator(hr, hr.TensorSpec((), "int64")).prefetch(prefetch)


def scaled(map: int | None, batch: int | None, prefetch: int) -> Any:
    images = hr.Dataset.from_tensor_slices(functions.images()).shuffle(functions.BUFFER)
    made = images.map(functions.scale, num_parallel_calls=map)
    return made.batch(functions.BATCH, num_parallel_calls=batch).prefetch(prefetch)


def numbers(filter: int | None, map: int | None, prefetch: int) -> Any:
    kept = hr.Dataset.range(functions.NUMBERS).filter(functions.third, num_parallel_calls=filter)
    return kept.map(functions.odd, num_parallel_calls=map).batch(256).repeat(PASSES).prefetch(prefetch)


def singles(map: int | None) -> Any:
    return hr.Dataset.range(functions.SINGLE).map(functions.odd, num_parallel_calls=map)


def records(reads: int | None, prefetch: int) -> Any:
    return hr.TFRecordDataset(files.shards(), num_parallel_reads=reads, index=False).batch(1024).prefetch(prefetch)


def interleaved(calls: int | None, prefetch: int) -> Any:
    return files.interleaved(hr, calls).prefetch(prefetch)


def csv(prefetch: int) -> Any:
    return files.csv(hr).prefetch(prefetch)


def lines(prefetch: int) -> Any:
    return files.lines(hr).prefetch(prefetch)


AHEAD = (0, 1, 2, 8, 32)

ITEMS: list[Case | Bound | Share] = [
    Share("a function that sleeps 10 ms", 0.9, steady(hr.AUTOTUNE), {f"{n} threads": steady(n) for n in WIDTHS}),
    swept("slices, shuffled and batched", core.IMAGES, slices, prefetch=AHEAD),
    swept("stream, shuffled and batched", core.IMAGES, stream, prefetch=AHEAD),
    swept("generator, batched", 30_000, generator, prefetch=AHEAD),
    swept("images, scaled", functions.IMAGES, scaled, map=(None, 1, 2, 4), batch=(None,), prefetch=(0, 2, 8)),
    swept(
        "numbers, filtered and mapped",
        PASSES * functions.KEPT,
        numbers,
        filter=(None, 2),
        map=(None, 2),
        prefetch=(0, 8),
    ),
    swept("numbers, mapped, one by one", functions.SINGLE, singles, job=elements, map=(None, 1, 2, 4)),
    swept("TFRecords", files.RECORDS, records, reads=(1, 2, 4, 8), prefetch=(0, 2, 8)),
    swept("interleave over 10 shards", files.RECORDS, interleaved, calls=(None, 1, 2, 4, 10), prefetch=(0, 2, 8)),
    swept("CSV", files.ROWS, csv, prefetch=AHEAD),
    swept("lines of text", files.LINES, lines, prefetch=AHEAD),
    Bound("memory under a budget of 256 MB", BUDGET_LIMIT, "MB", core.probe("budget", "peak"), max),
]

if __name__ == "__main__":
    sys.exit(main("headrace: AUTOTUNE", ITEMS, description=__doc__))
