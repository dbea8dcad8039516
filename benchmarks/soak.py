"""Whether memory stays flat over very many large batches, and kept batches stay what they were.

A pipeline of large rows (shuffled, mapped on threads, batched, prefetched; with `--light` only gathered) runs for
`--batches` batches of `--megabytes` each, by default 10⁶ of 10 MB; now and then one is kept, and looked
at again at the end. Growth of the resident set is counted from the hundredth batch on, less what is kept; a shorter run
is extrapolated to a million batches by its slope. Nothing of the pool is in use after the pass. `--device cuda` sends
batches to a GPU.
"""

from __future__ import annotations

import argparse
import gc
import sys
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
import psutil

import headrace as hr
from headrace import _native

ROWS = 16
WARM = 100
KEPT = 20


def pipeline(megabytes: float, *, light: bool) -> hr.Dataset:
    """Endless batches, each row of which says in all of its values which it is."""
    width = int(megabytes * 1e6) // ROWS // 4
    numbers = np.arange(4 * ROWS, dtype=np.float32)
    if light:
        made = np.repeat(numbers[:, None], width, axis=1)
        return hr.Dataset.from_tensor_slices(made).shuffle().repeat().batch(ROWS).prefetch(2)
    rows = hr.Dataset.from_tensor_slices(numbers).repeat()
    full = rows.map(lambda x: np.full(width, x, np.float32), num_parallel_calls=2)
    return full.shuffle(2 * ROWS, seed=1).map(lambda x: x + 1, num_parallel_calls=2).batch(ROWS).prefetch(2)


def resident() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


def is_whole(batch: Any) -> bool:
    """Whether each row still has one value."""
    rows = np.asarray(batch.cpu() if hasattr(batch, "cpu") else batch)
    return bool((rows == rows[:, :1]).all())


SAMPLES = 200
"""How often the resident set is looked at."""


def soak(batches: int, megabytes: float, device: str | None, *, light: bool) -> tuple[float, float]:
    """Megabytes of growth, and its slope in megabytes a million batches."""
    ds: Any = pipeline(megabytes, light=light)
    ds = ds.to_torch(device) if device else ds
    kept: list[Any] = []
    start = 0.0
    started = perf_counter()
    every = max(1, batches // KEPT)
    samples: list[tuple[int, float]] = []
    for number, batch in enumerate(islice(ds, batches)):
        if number == WARM:
            start = resident()
        if number > WARM and number % every == 0:
            kept.append(batch)
        held = 0.0 if device else len(kept) * megabytes
        if number > WARM and number % max(1, batches // SAMPLES) == 0:
            samples.append((number, resident() - held))
        if number % max(1, batches // 10) == 0:
            print(f"{number:>9,} batches  {perf_counter() - started:8.1f} s  {resident() - held:8.0f} MB", flush=True)
    growth = resident() - start - (0 if device else len(kept) * megabytes)
    if not all(map(is_whole, kept)):
        raise AssertionError("a batch that was kept has changed")
    half = samples[len(samples) // 2 :]  # by then buffers and pools have their sizes
    slope = float(np.polyfit(*zip(*half, strict=True), 1)[0]) * 1e6 if len(half) > 2 else 0.0
    return growth, slope


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10**6)
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--device")
    parser.add_argument("--light", action="store_true")
    options = parser.parse_args()
    growth, slope = soak(options.batches, options.megabytes, options.device, light=options.light)
    print(f"growth after the first {WARM} batches: {growth:.0f} MB; at most 50 are asked for")
    print(f"slope over the second half: {slope:.0f} MB in a million batches")
    gc.collect()
    stats = _native.pool_stats()
    print(f"after the pass the pool has {stats['in_use']:,} bytes in use and {stats['idle']:,} idle")
    return 0


if __name__ == "__main__":
    sys.exit(run())
