"""What must be measured in a process of its own: `python benchmarks/probes.py NAME` prints a JSON object."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import psutil

import headrace as hr

CHUNK_ROWS = 256
ELEMENT_BYTES = 10_000
ELEMENTS = 40_000
BUFFER = 10_000
PULLED = 30_000
"""Fewer than there are: the buffer is full when the pass is closed."""


def chunk(number: int) -> hr.Dataset:
    return hr.Dataset.from_tensor_slices(np.full((CHUNK_ROWS, ELEMENT_BYTES), number % 251, np.uint8))


def streamed(elements: int) -> hr.Dataset:
    """Elements that cannot be indexed, made chunk by chunk as they are asked for."""
    return hr.Dataset.range(-(-elements // CHUNK_ROWS)).flat_map(chunk).take(elements)


def rss() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most memory since `forget_peak`: the kernel's own record, which no sampling can miss."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def ours() -> int:
    return sum(thread.name.startswith("headrace-") for thread in threading.enumerate())


def shuffle_memory() -> dict[str, float]:
    """Megabytes that a streaming shuffle adds while it runs, and that are left when it is closed."""
    for _ in streamed(600).shuffle(100):
        pass
    before = rss()
    forget_peak()
    iterator = iter(streamed(ELEMENTS).shuffle(BUFFER))
    pulled = sum(1 for _ in islice(iterator, PULLED))
    assert pulled == PULLED
    most = peak()
    iterator.close()
    return {"peak": (most - before) / 1e6, "left": (rss() - before) / 1e6}


def threads() -> dict[str, float]:
    """The same with a thread after it, closed while that one is working."""
    for _ in streamed(600).shuffle(100).batch(8).prefetch(hr.AUTOTUNE):
        pass
    before = rss()
    iterator = iter(streamed(ELEMENTS).shuffle(BUFFER).batch(8).prefetch(hr.AUTOTUNE))
    for _ in islice(iterator, PULLED // 8):
        pass
    running = ours()
    assert running, "no thread to be closed: this shows nothing"
    iterator.close()
    alive = ours()
    return {"running": running, "alive": alive, "left": (rss() - before) / 1e6}


def large(number: int) -> np.ndarray:
    return np.full(4 << 20, number % 251, np.uint8)


def budget() -> dict[str, float]:
    """Megabytes that a pipeline of elements of 4 MB adds, AUTOTUNE everywhere, under a budget of 256 MB."""

    def tuned(elements: int) -> hr.Dataset:
        ds = hr.Dataset.range(elements).map(large, num_parallel_calls=hr.AUTOTUNE).shuffle(hr.AUTOTUNE)
        ds = ds.interleave(hr.Dataset.from_tensors, num_parallel_calls=hr.AUTOTUNE)
        ds = ds.map(lambda x: x + 1, num_parallel_calls=hr.AUTOTUNE).batch(2, num_parallel_calls=hr.AUTOTUNE)
        return ds.prefetch(hr.AUTOTUNE).with_options(hr.Options(ram_budget=256 << 20))

    for _ in tuned(4):
        pass
    before = rss()
    forget_peak()
    for _ in tuned(400):
        time.sleep(0.002)
    return {"peak": (peak() - before) / 1e6}


if __name__ == "__main__":
    print(json.dumps({"shuffle_memory": shuffle_memory, "threads": threads, "budget": budget}[sys.argv[1]]()))
