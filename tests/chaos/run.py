"""Random pipelines under random faults, on the reference executor's word.

python -m tests.chaos.run --seconds 1800        a new seed for each run
python -m tests.chaos.run --seed 4711           that run again
python -m tests.chaos.run --kind disk=12 --kind forks=3   a number of runs of some kinds

After every fault either the exact rest comes, or an error that says what happened; never a wrong, lost or doubled row,
a hang, a file under a temporary name after the next run, a thread or a process.
"""

import argparse
import collections
import faulthandler
import itertools
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import headrace as hr
from headrace.testing import our_threads
from tests.chaos import bodies, changes, disk, readers, service, stores, threads, workers, writers

KINDS = {
    "killed readers": readers.killed,
    "disk": readers.over_a_failing_disk,
    "writers": writers.stopped,
    "workers": workers.tortured,
    "changed files": changes.changed,
    "stores": stores.failing,
    "interrupts": threads.interrupted,
    "forks": threads.forked,
    "threads": threads.shared,
    "functions": bodies.traced,
    "clusters": service.tortured,
}
PATIENCE = 300
"""Seconds after which a run is taken to hang: on a busy machine one may take a hundred times as long as alone."""


def kind_of(seed):
    return list(KINDS)[seed % len(KINDS)]


def seeds_of(kind, first, count):
    """The next seeds from `first` on that are of a kind, written as its name or as `name=count`."""
    name, _, number = kind.partition("=")
    first += (list(KINDS).index(name) - first) % len(KINDS)
    return range(first, first + int(number or count) * len(KINDS), len(KINDS))


def within(seed, folder):
    """What a process of its own does."""
    os.setsid()
    with (folder / "said").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    faulthandler.enable()
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    tempfile.tempdir = str(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder / "home")
    code = 1
    try:
        hr.set_random_seed(seed)
        KINDS[kind_of(seed)](random.Random(seed), folder)
        assert our_threads() == [], "threads are left"
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def session(leader):
    """The processes that one has started, and those started by them."""
    found = []
    for entry in Path("/proc").iterdir() if Path("/proc/self/stat").exists() else ():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def run(seed, folder):
    """Run one; what went wrong, None if nothing did."""
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        within(seed, folder)
    until = time.monotonic() + PATIENCE + 60
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    until = time.monotonic() + 20
    while (left := [p for p in session(pid) if p != pid]) and time.monotonic() < until:
        time.sleep(0.02)
    _, status = os.waitpid(pid, 0)
    for each in left:
        os.kill(each, signal.SIGKILL)
    if status == 0 and not left:
        shutil.rmtree(folder)
        return None
    said = (folder / "said").read_text(errors="replace")[-6000:]
    return f"{said}\nended with status {status}" + (f", {len(left)} processes are left" if left else "")


def several(seeds, seconds, folder):
    """Run one after the other; how many of each kind there were, and which went wrong."""
    done, wrong = collections.Counter(), []
    until = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > until:
            break
        what = run(seed, folder / str(seed))
        done[kind_of(seed)] += 1
        if what is not None:
            wrong.append(seed)
            print(f"seed {seed} ({kind_of(seed)}):\n{what}\nagain: python -m tests.chaos.run --seed {seed}", flush=True)
    return done, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=None, help="of the first run; the following have the next ones")
    parser.add_argument("--count", type=int, default=None, help="how many runs")
    parser.add_argument("--kind", action="append", help=f"one of: {', '.join(KINDS)}; with =COUNT, that number of runs")
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.within:
        with tempfile.TemporaryDirectory(prefix="headrace-chaos-") as folder:
            command = [sys.executable, "-m", "tests.chaos.run", "--within", *sys.argv[1:]]
            variables = {"OPENBLAS_NUM_THREADS": "1", "TMPDIR": folder, **disk.build(folder)}
            sys.exit(subprocess.run(command, check=False, env={**os.environ, **variables}).returncode)
    first = random.randrange(10**9) if options.seed is None else options.seed
    count = options.count or (1 if options.seed is not None and options.seconds == float("inf") else 10**9)
    seeds = range(first, first + count)
    if options.kind is not None:
        seeds = itertools.chain.from_iterable(seeds_of(kind, first, count) for kind in options.kind)
    done, wrong = several(seeds, options.seconds, Path(tempfile.mkdtemp()))
    counts = ", ".join(f"{number} {kind}" for kind, number in done.items())
    print(f"chaos from seed {first}: {sum(done.values())} runs, {len(wrong)} of them wrong ({counts})", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
