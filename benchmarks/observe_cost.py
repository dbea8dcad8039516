"""What recording a timeline costs: CPU seconds of the same pass with and without `it.record()`, in turn.

python benchmarks/observe_cost.py --rounds 9
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time
from typing import Any

import numpy as np

import headrace as hr

D = hr.Dataset
DATA = {"x": np.zeros((200_000, 16), np.float32), "y": np.arange(200_000)}
LINES = {
    "memory, shuffle, batch": lambda: D.from_tensor_slices(DATA).shuffle(10_000).repeat(300).batch(128),
    "one by one": lambda: D.range(30_000_000),
    "an untraced function, batch": lambda: D.range(300_000).map(lambda x: int(x) + 1, mode="eager").batch(128),
    "threads, prefetch": lambda: (
        D.range(300_000).map(lambda x: int(x) + 1, num_parallel_calls=2, mode="eager").batch(128).prefetch(4)
    ),
}


def cpu_seconds(ds: Any, *, recorded: bool) -> float:
    """CPU time of all threads for one pass."""
    began = process_time()
    with ds.iterator() as it:
        if recorded:
            it.record()
        for _ in it:
            pass
    return process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    for name, make in LINES.items():
        ds = make()
        cpu_seconds(ds, recorded=True)
        ratios, plain = [], []
        for _ in range(rounds):
            alone = cpu_seconds(ds, recorded=False)
            ratios.append(cpu_seconds(ds, recorded=True) / alone)
            plain.append(alone)
        more, least, most = (value - 1 for value in (median(ratios), min(ratios), max(ratios)))
        print(f"{name}: {median(plain):.2f} s, with a timeline {more:+.1%} ({least:+.1%} to {most:+.1%})", flush=True)


if __name__ == "__main__":
    main()
