"""Kill writers at random moments and see that the next run has exactly the right elements.

python tests/storage/kills.py --kills 200
"""

import argparse
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import headrace as hr
from headrace.storage import rows

ROWS = 400
SIZE = 2_000


def pipeline(factor=1):
    data = hr.Dataset.range(ROWS).shuffle(64, seed=5)
    return data.map(lambda x: {"x": np.full(SIZE, factor * x), "name": str(x)})


def seen(ds):
    return [(int(e["x"][0]), int(e["x"].sum()), e["name"]) for e in ds]


def killed(work, longest):
    """Run `work` in a child of its own and kill it after a random time; whether it was still at it."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    patience = threading.Event()
    patience.wait(random.uniform(0, longest))
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1] != 0


def timed(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def kill_caches(folder, kills, longest):
    right = seen(pipeline())
    path = folder / "cache"
    hits = 0
    while hits < kills:
        for _ in range(random.randint(1, 3)):
            hits += killed(lambda: seen(pipeline().cache(path)), longest)
        parts = len(list(path.glob("*.arrow"))) if path.exists() else 0
        assert seen(pipeline().cache(path)) == right, f"wrong elements after a kill with {parts} parts written"
        assert (path / "complete.json").exists()
        assert not list(path.glob("*.tmp"))
        assert seen(pipeline().cache(path)) == right, "wrong elements from the files"
        shutil.rmtree(path)
    return hits


def kill_saves(folder, kills, longest):
    path = folder / "saved"
    before, after = seen(pipeline(1)), seen(pipeline(2))
    hits = 0
    while hits < kills:
        pipeline(1).save(path)
        hits += killed(lambda: pipeline(2).save(path), longest)
        assert seen(hr.Dataset.load(path)) in (before, after), "neither the old elements nor the new"
        pipeline(2).save(path)
        assert seen(hr.Dataset.load(path)) == after
        assert len(list(path.glob("rows-*"))) == 1, "what the killed one wrote is still there"
    return hits


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many writers of each kind to kill")
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    random.seed(seed)
    rows.PART_BYTES = 20 * SIZE * 8  # many parts, so that many a kill falls between or into them
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        longest = timed(lambda: seen(pipeline().cache(folder / "timed")))
        caches = kill_caches(folder, arguments.kills, longest)
        longest = timed(lambda: pipeline().save(folder / "timed save"))
        saves = kill_saves(folder, arguments.kills, 1.2 * longest)
    print(f"seed {seed}: {caches} writers of a cache and {saves} of a save killed; every next run was right")


if __name__ == "__main__":
    main()
