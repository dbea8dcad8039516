"""Memory after iterators that were dropped, closed, read to their end or failed: it goes back to the system.

`python -m tests.chaos.dropped --iterators 1000` ends as many iterators of 26 kinds with rows of a quarter of a megabyte
without `close()`, and as many with it. It prints the resident set after each, and the slope of it.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from time import monotonic, sleep
from typing import Any

import numpy as np
import psutil

import headrace as hr
from headrace import _native

D = hr.Dataset
_folder = tempfile.TemporaryDirectory(prefix="headrace-dropped-")
WIDTH = 65_536
ROWS = 60
TIMEOUT_SECONDS = 60.0
SLOPE_MEGABYTES = 10.0
"""Growth over a thousand iterators that counts as none: what the allocator and the interpreter vary by."""
APART_MEGABYTES = 50.0


def row(x: Any) -> Any:
    return np.full(WIDTH, x, np.float32)


def fails(x: Any) -> Any:
    if x % 7 == 3:
        raise ValueError(x)
    return row(x)


def rows(n: int = ROWS) -> hr.Dataset:
    return D.range(n).map(row)


def generated() -> hr.Dataset:
    return D.from_generator(lambda: map(row, range(ROWS)), output_signature=hr.TensorSpec((WIDTH,), np.float32))


KINDS: dict[str, Callable[[], hr.Dataset]] = {
    "map": rows,
    "eager map": lambda: D.range(ROWS).map(row, mode="eager"),
    "parallel map": lambda: D.range(ROWS).map(row, num_parallel_calls=2),
    "unordered map": lambda: D.range(ROWS).map(row, num_parallel_calls=2, deterministic=False),
    "failures": lambda: D.range(ROWS).map(fails),
    "ignored failures": lambda: D.range(ROWS).map(fails).ignore_errors(),
    "generator": generated,
    "generator, prefetched": lambda: generated().prefetch(8),
    "slices": lambda: D.from_tensor_slices(np.zeros((ROWS, WIDTH), np.float32)),
    "batch": lambda: rows().batch(8),
    "batch, prefetched": lambda: rows().batch(8).prefetch(4),
    "shuffle": lambda: rows().shuffle(30),
    "shuffle, prefetched": lambda: rows().shuffle(30).prefetch(10),
    "shuffle and batch": lambda: rows().shuffle(30).batch(4).prefetch(2),
    "repeat": lambda: rows(5).repeat(),
    "cache": lambda: rows().cache().repeat(2),
    "cache in files": lambda: rows().cache(tempfile.mkdtemp(dir=_folder.name)).take(20),
    "zip": lambda: D.zip(rows(), rows()),
    "concatenate": lambda: rows(3).concatenate(rows()),
    "interleave": lambda: D.range(6).interleave(lambda n: rows(9), cycle_length=3),
    "parallel interleave": lambda: D.range(6).interleave(lambda n: rows(9), cycle_length=3, num_parallel_calls=2),
    "flat_map": lambda: D.range(6).flat_map(lambda n: rows(9)),
    "window": lambda: rows().window(5).flat_map(lambda w: w.batch(5)),
    "filter": lambda: rows().filter(lambda x: x[0] % 2 > 0),
    "unbatch": lambda: rows().batch(8).unbatch(),
    "padded_batch": lambda: rows().padded_batch(4),
}


def resident() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


def await_memory(most: int = 0) -> bool:
    """Wait until no more than `most` bytes of the pool are idle; whether that came to pass."""
    deadline = monotonic() + TIMEOUT_SECONDS
    while _native.pool_stats()["idle"] > most and monotonic() < deadline:
        sleep(0.01)
    return bool(_native.pool_stats()["idle"] <= most)


def begun(kind: str, elements: int) -> hr.Iterator:
    """An iterator that has given this many elements."""
    it = iter(KINDS[kind]())
    for _ in range(elements):
        with suppress(hr.ElementError):
            next(it)
    return it


def endings(count: int, *, close: bool) -> Iterator[float]:
    """The resident set after each round of all kinds, once memory has had time to go back."""
    for number, kind in enumerate(islice(_for_ever(KINDS), count)):
        it = begun(kind, 1 + number % 5)
        if close:
            it.close()
        del it
        if number % len(KINDS) == len(KINDS) - 1:
            if not await_memory(8 << 20):
                raise AssertionError(f"idle memory has not gone back: {_native.pool_stats()}")
            sleep(0.5)  # the heap has no statistics of its own to wait for
            yield resident()


def _for_ever(kinds: dict[str, Any]) -> Iterator[str]:
    while True:
        yield from kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterators", type=int, default=1_000)
    options = parser.parse_args()
    found = {}
    for name, close in (("dropped", False), ("closed", True)):
        samples = list(endings(options.iterators, close=close))
        half = samples[len(samples) // 2 :]  # by then everything has been used once
        slope = float(np.polyfit(np.arange(len(half)) * len(KINDS), half, 1)[0]) * 1_000 if len(half) > 2 else 0.0
        found[name] = samples[-1], slope
        print(f"{name}: {options.iterators:,} iterators of {len(KINDS)} kinds, {samples[0]:.0f} MB after the first "
              f"round, {samples[-1]:.0f} MB at the end; {slope:.1f} MB in a thousand", flush=True)  # fmt: skip
    apart = found["dropped"][0] - found["closed"][0]
    print(f"dropped and closed are {apart:.0f} MB apart; at most {APART_MEGABYTES:.0f} are asked for")
    return 0 if apart <= APART_MEGABYTES and found["dropped"][1] <= SLOPE_MEGABYTES else 1


if __name__ == "__main__":
    sys.exit(main())
