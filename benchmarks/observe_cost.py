"""What observing costs on every line of versions.py: the counters that always run, and a recorded timeline.

    python benchmarks/observe_cost.py                      the timeline: CPU time of its samples in a second
    python benchmarks/observe_cost.py --counters           the counters: CPU time of counting, and of the whole pass
    python benchmarks/observe_cost.py --instructions       the counters: instructions of a pass with and without them
    python benchmarks/observe_cost.py --passes 9           the timeline: CPU time of whole passes with and without it

Times are noisy and counters are cheap. `--counters` therefore counts the blocks of a pass, which is exact, and
multiplies them by the CPU time that counting one block takes, measured in a loop; both are compared with the CPU time
of the pass, of which the smallest of some counts. `--instructions` counts instructions by valgrind. Under valgrind all
is some fifty times slower, and blocks, whose size is chosen by time, have fewer rows: so it overstates.

The pass without counters is one in which the lines of `Input` and `Meter` that count are left out of their source, and
queues and requests to stores are not counted. Each line runs for as many elements as take `--seconds` natively; a
machine code of a few bytes tells valgrind when to count.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import inspect
import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep, thread_time
from typing import Any

import numpy as np
import versions

import headrace as hr
from headrace.columns.block import Block, scalar_block
from headrace.execute import inputs
from headrace.execute.stages.channel import Channel
from headrace.execute.stages.starvation import Meter
from headrace.execute.stats import BLOCKS_BETWEEN_MEASUREMENTS, Counters, Stage
from headrace.observe.gil import GilSampler
from headrace.observe.recorder import GIL_INTERVAL_SECONDS, Recorder
from headrace.remote.counters import StoreCounters

MOST_COUNTED, MOST_RECORDED = 0.01, 0.03
COUNTING = re.compile(r"^ *((self\._)?counters(\.\w+ \+?=.*| = .*)|started = perf_counter_ns\(\))$", re.MULTILINE)
"""Lines of `Input` that only count."""
COUNTED_PASSES = 5
PULLS, PULL_ROUNDS = 20_000, 15
SAMPLES, GIL_SAMPLES = 200, 300
SAMPLES_A_SECOND = 10.0
LEAST_ELEMENTS = 100


def run(make: Callable[[Path], Any], folder: Path, elements: int) -> None:
    """Take so many elements of a new pass."""
    for _ in islice(iter(make(folder)), elements):
        pass


def elements_in(make: Callable[[Path], Any], folder: Path, seconds: float) -> int:
    """How many elements a line gives in so many seconds; the second pass counts."""
    count = 0
    for _ in range(2):
        began, count = perf_counter(), 0
        for _element in make(folder):
            count += 1
            if perf_counter() - began > seconds:
                break
    return max(count, LEAST_ELEMENTS)


def without_counters() -> None:
    """Replace the methods that count by the same methods without the lines that do."""
    for name in ("pull", "pull_until", "_place"):
        source = textwrap.dedent(inspect.getsource(getattr(inputs.Input, name)))
        source = re.sub(r"^ *self\._counters\.nanoseconds.*$", "", source, flags=re.M)
        bare, left_out = COUNTING.subn("", re.sub(r"^ *if counters.*\n.*counters\.measure.*$", "", source, flags=re.M))
        if not left_out:
            raise RuntimeError(f"no line of Input.{name} counts: adapt COUNTING")
        defined: dict[str, Any] = {}
        exec(bare, vars(inputs), defined)
        setattr(inputs.Input, name, defined[name])
    Meter.begin_wait = lambda _: None  # type: ignore[method-assign]
    Meter.end_wait = lambda _, stats: None  # type: ignore[method-assign] # noqa: ARG005
    Channel._wait_for_space = lambda channel, _: channel._space.wait()  # type: ignore[assignment, return-value]
    Stage.add_queue = Stage.remove_queue = lambda *_: None  # type: ignore[method-assign, assignment]
    StoreCounters.watch = lambda *_: None  # type: ignore[method-assign]


class Callgrind:
    """Requests to valgrind: a sequence of rotations that it recognises, and other processors execute to no effect."""

    CODE = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
    ZERO, DUMP_AT, START, STOP = ((ord("C") << 24 | ord("T") << 16) + number for number in (1, 3, 4, 5))

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._memory.write(self.CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(address)

    def ask(self, code: int, argument: int = 0) -> None:
        """Send one request."""
        request = (ctypes.c_ulong * 6)(code, argument)  # held until the call returns
        self._call(ctypes.addressof(request))

    def counted(self, name: str, work: Callable[[], None]) -> None:
        """Count the instructions of some work, and write them under a name."""
        self.ask(self.START)
        self.ask(self.ZERO)
        work()
        text = ctypes.create_string_buffer(name.encode())
        self.ask(self.DUMP_AT, ctypes.addressof(text))
        self.ask(self.STOP)


def count_here(folder: Path, counts: dict[str, int], *, bare: bool) -> None:
    """In a process under valgrind: each line once to warm up, then some times counted."""
    if bare:
        without_counters()
    callgrind = Callgrind()
    gc.disable()
    for name, elements in counts.items():
        run(versions.LINES[name], folder, elements)
        for _ in range(COUNTED_PASSES):
            gc.collect()  # else it happens in some pass or other
            callgrind.counted(name, lambda name=name, n=elements: run(versions.LINES[name], folder, n))  # type: ignore[misc]


def instructions(folder: Path, counts: dict[str, int], *, bare: bool) -> dict[str, int]:
    """The instructions of a pass of each line; the smallest of some counts."""
    with tempfile.TemporaryDirectory() as out:
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}/counts", "-q"]
        child = [sys.executable, __file__, "--count", str(folder), "--counts", json.dumps(counts)]
        same = {**os.environ, "PYTHONHASHSEED": "0"}
        command = [*valgrind, *child, *(["--bare"] if bare else [])]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=same)
        found: dict[str, int] = {}
        for path in Path(out).glob("counts*"):
            text = path.read_text(errors="replace")
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
            total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
            if name and total:
                found[name[1]] = min(int(total[1]), found.get(name[1], 1 << 62))
    return found


def show_instructions(folder: Path, names: list[str], seconds: float) -> None:
    """Print what counters cost in each line."""
    worst = 0.0
    counts = {name: elements_in(versions.LINES[name], folder, seconds) for name in names}
    with_them, without = (instructions(folder, counts, bare=bare) for bare in (False, True))
    for name, elements in counts.items():
        more = with_them[name] / without[name] - 1
        worst = max(worst, more)
        print(f"{name}: {elements:,} elements, {without[name] / 1e6:,.0f} M instructions, counters {more:+.2%}")
    print(f"at most {worst:.2%}; asked: {MOST_COUNTED:.0%}")


class Endless:
    """A stream that gives one fresh block after another."""

    def __init__(self) -> None:
        self._column = np.zeros(8)

    def pull(self, want: int) -> Block:  # noqa: ARG002
        return scalar_block(self._column)

    def close(self) -> None:
        """Nothing is open."""


def pull_seconds() -> float:
    """CPU time of a pull of one block from such a stream."""
    it: Any = iter(hr.Dataset.range(10**9))
    next(it)
    rows = it._run.root
    rows.stream.close()
    rows._stream, best = Endless(), 1.0
    rows._ready.clear()
    for _ in range(PULL_ROUNDS):
        began = thread_time()
        for _ in range(PULLS):
            rows.pull(8)
        best = min(best, (thread_time() - began) / PULLS)
    it.close()
    return best


def measure_seconds() -> float:
    """CPU time of asking one block for its size."""
    counters, best, column = Counters(), 1.0, np.zeros(8)
    for _ in range(PULL_ROUNDS):
        blocks = [scalar_block(column) for _ in range(PULLS)]
        began = thread_time()
        for block in blocks:
            counters.measure(block.rows, block.nbytes)
        best = min(best, (thread_time() - began) / PULLS)
    return best


def blocks_in(make: Callable[[Path], Any], folder: Path, elements: int) -> tuple[int, int]:
    """How many blocks all stages of a pass make together, and how many of them are asked for their size."""
    place, measure = inputs.Input._place, Counters.measure
    count = asked = 0

    def placed(self: Any, item: Any) -> None:
        nonlocal count
        count += 1
        place(self, item)

    def measured(self: Any, rows: int, nbytes: int) -> None:
        nonlocal asked
        asked += 1
        measure(self, rows, nbytes)

    inputs.Input._place, Counters.measure = placed, measured  # type: ignore[method-assign]
    try:
        run(make, folder, elements)
    finally:
        inputs.Input._place, Counters.measure = place, measure  # type: ignore[method-assign]
    return count, asked


def show_counters(folder: Path, names: list[str], seconds: float) -> None:
    """Print which share of the CPU time of a pass its counters take."""
    worst, found = 0.0, {}
    for name in names:
        make = versions.LINES[name]
        elements = elements_in(make, folder, seconds)
        spent = 1e9
        for _ in range(COUNTED_PASSES):
            began = process_time()
            run(make, folder, elements)
            spent = min(spent, process_time() - began)
        found[name] = elements, spent, min(blocks_in(make, folder, elements) for _ in range(COUNTED_PASSES))
    counting, measuring = pull_seconds(), measure_seconds()
    without_counters()
    counting -= pull_seconds() + measuring / BLOCKS_BETWEEN_MEASUREMENTS
    for name, (elements, spent, (blocks, asked)) in found.items():
        share = (blocks * counting + asked * measuring) / spent
        worst = max(worst, share)
        print(
            f"{name}: {elements:,} elements, {1e3 * spent:.1f} ms, {blocks:,} blocks, counters {share:.2%}", flush=True
        )
    print(f"at most {worst:.2%}, {1e9 * counting:.0f} ns a block, {1e9 * measuring:.0f} ns if asked for its size")
    print(f"asked: {MOST_COUNTED:.0%}")


def gil_sample_seconds() -> float:
    """CPU time of one sample of the thread that watches the GIL."""
    sampler, began = GilSampler(0.0005), process_time()
    with sampler:
        while sampler._samples < GIL_SAMPLES:
            sleep(0.05)
    return (process_time() - began) / sampler._samples


def show_samples(folder: Path, names: list[str], seconds: float) -> None:
    """Print which share of a core the samples of a timeline take."""
    watching = min(gil_sample_seconds() for _ in range(3)) / GIL_INTERVAL_SECONDS
    worst = 0.0
    for name in names:
        it: Any = iter(versions.LINES[name](folder))
        if not isinstance(it, hr.Iterator):
            continue  # it asks for states itself
        for _ in islice(it, elements_in(versions.LINES[name], folder, seconds)):
            pass
        recorder = Recorder(it, 3600.0)
        best = 1.0
        for _ in range(5):
            began = thread_time()
            for _ in range(SAMPLES // 5):
                recorder.take(it)
            best = min(best, (thread_time() - began) / (SAMPLES // 5))
        recorder.close()
        it.close()
        share = best * SAMPLES_A_SECOND + watching
        worst = max(worst, share)
        print(f"{name}: {best * 1e6:.0f} us a sample, a timeline takes {share:.2%} of a core", flush=True)
    print(f"at most {worst:.2%}; asked: {MOST_RECORDED:.0%}")


def cpu_seconds(make: Callable[[Path], Any], folder: Path, *, recorded: bool) -> float:
    """CPU time of all threads for one pass."""
    began = process_time()
    it = iter(make(folder))
    if recorded:
        it.record()
    for _ in it:
        pass
    return process_time() - began


def show_passes(folder: Path, names: list[str], passes: int) -> None:
    """Print what a timeline costs in whole passes, with and without it in turn."""
    for name in names:
        make = versions.LINES[name]
        if not isinstance(iter(make(folder)), hr.Iterator):
            continue
        cpu_seconds(make, folder, recorded=True)
        ratios, plain = [], []
        for _ in range(passes):
            alone = cpu_seconds(make, folder, recorded=False)
            ratios.append(cpu_seconds(make, folder, recorded=True) / alone)
            plain.append(alone)
        more, least, most = (value - 1 for value in (median(ratios), min(ratios), max(ratios)))
        print(f"{name}: {median(plain):.2f} s, with a timeline {more:+.1%} ({least:+.1%} to {most:+.1%})", flush=True)


def lines(only: str) -> Iterator[str]:
    """The names of the lines that hold this."""
    return (name for name in versions.LINES if only in name)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="lines whose names hold this")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long a line runs natively")
    parser.add_argument("--counters", action="store_true")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--passes", type=int, default=0)
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--counts", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.count:
        count_here(chosen.count, chosen.counts, bare=chosen.bare)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        versions.make_files(folder)
        names = list(lines(chosen.only))
        if chosen.counters:
            show_counters(folder, names, chosen.seconds)
        elif chosen.instructions:
            show_instructions(folder, names, chosen.seconds)
        elif chosen.passes:
            show_passes(folder, names, chosen.passes)
        else:
            show_samples(folder, names, chosen.seconds)


if __name__ == "__main__":
    main()
