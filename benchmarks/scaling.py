"""How every source scales with cores: 1, 4 and 16 of them by CPU affinity, beside the bare library on as many threads.

    python benchmarks/scaling.py                        # the whole table, less than 8 minutes on 16 cores
    python benchmarks/scaling.py --quick --only Parquet # small data, lines that match a regular expression
    python benchmarks/scaling.py --two-cores            # against tf.data, polars and PyTorch on 2 cores
    python benchmarks/scaling.py --before PYTHON        # A/B: another Python that has an older headrace installed
    python benchmarks/scaling.py --list

Every measurement is a process of its own: it sets its affinity before anything is imported, runs one pass for warm-up
and then `--rounds` rounds; a round repeats short passes for 0.2 s, and the best round counts. `÷ bare` is our rows/s
divided by those of the job named beside it, `× 1 core` our rows/s divided by ours on one core (in parentheses: what the
bare job gains). CPU seconds are those of a pass, with child processes, and how many times those of one core. Peak RSS
is that of the whole process, mapped file pages included. `GIL` is the share of the time in which it is held (see
`gil_meter.py`). `read` is what a pass reads by system calls (`rchar`); mapped files are no part of it. `first` is the
first pass in the process. Files are read from the page cache, except by the first pass of a short line (`take(10)`,
first batch, a filter with `take`): its files are evicted before, and `disk` is what the kernel then reads to build the
dataset and for the pass, read-ahead and mapped pages included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

LEAST_SECONDS = 0.2
ENOUGH_SECONDS = 2.0
WIDTHS = (1, 4, 16)
QUICK = 0.08
MISSING = 3
"""Exit status of a measurement that needs a package which is not installed."""


def cpus_in_order() -> list[int]:
    """The CPUs that this process may use; second threads of a core come last."""

    def rank(cpu: int) -> tuple[int, int]:
        try:
            text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            return 0, cpu
        ends = [part.split("-") for part in text.strip().split(",")]
        siblings = [i for part in ends for i in range(int(part[0]), int(part[-1]) + 1)]
        return siblings.index(cpu) if cpu in siblings else 0, cpu

    return sorted(os.sched_getaffinity(0), key=rank)


@dataclass(frozen=True)
class Measured:
    """One job on some cores; seconds, CPU seconds and megabytes are those of a pass."""

    rows: int
    seconds: float
    first_seconds: float
    cpu_seconds: float
    peak_megabytes: float
    gil: float | None
    gil_method: str
    read_megabytes: float
    disk_megabytes: float | None
    note: str

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


# In the process that measures


def measure_here(job: str, folder: str, factor: float, cores: int, rounds: int) -> Measured:
    """Run a job on this many cores of this process."""
    os.sched_setaffinity(0, cpus_in_order()[:cores])
    import pyarrow as pa

    pa.set_cpu_count(cores)
    pa.set_io_thread_count(max(cores, 2))
    from gil_meter import GilMeter
    from scaling_cases import JOBS, Data
    from scaling_data import Sizes

    maker = JOBS[job]
    if maker.short:
        _evict(Path(folder) / maker.data)
    before = _used()
    run = maker.make(Data(Path(folder), Sizes().scaled(factor) if factor != 1 else Sizes(), cores))
    first_seconds, rows, note = _one_pass(run)
    from_disk = _used().from_disk - before.from_disk
    meter = GilMeter()
    best, passes = float("inf"), 0
    before, began = _used(), perf_counter()
    meter.start()
    for _ in range(rounds):
        took, count, started = 0.0, 0, perf_counter()
        while not count or perf_counter() - started < LEAST_SECONDS:
            seconds, rows, note = _one_pass(run)
            took += seconds
            count += 1
        best = min(best, took / count)
        passes += count
        if 2 * perf_counter() - started - began > ENOUGH_SECONDS:  # another round would take too long
            break
    meter.stop()
    meter.close()
    after = _used()
    return Measured(
        rows=rows,
        seconds=best,
        first_seconds=first_seconds,
        cpu_seconds=(after.cpu_seconds - before.cpu_seconds) / passes,
        peak_megabytes=_status("VmHWM") / 1e3,
        gil=meter.share,
        gil_method=meter.method,
        read_megabytes=(after.read - before.read) / passes / 1e6,
        disk_megabytes=from_disk / 1e6 if maker.short else None,
        note=note,
    )


def _one_pass(run: Any) -> tuple[float, int, str]:
    """Seconds, rows and the note of a pass."""
    started = perf_counter()
    found = run()
    took = perf_counter() - started
    if isinstance(found, int):
        return took, found, ""
    return took if found.seconds is None else found.seconds, found.rows, found.note


class Used(NamedTuple):
    """CPU seconds with child processes, bytes read by system calls, and bytes read from the disk, so far."""

    cpu_seconds: float
    read: int
    from_disk: int


def _used() -> Used:
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    cpu = process_time() + children.ru_utime + children.ru_stime
    return Used(cpu, int(counts["rchar"]), int(counts["read_bytes"]))


def _evict(folder: Path) -> None:
    """Remove the files of a folder from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)  # pages that are not written yet would stay
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


# In the process that reports


@dataclass(frozen=True)
class Setting:
    """What is the same for all measurements."""

    folder: str
    factor: float
    rounds: int

    def call(self, python: str, *arguments: str) -> Any:
        """What this file prints in a new process, None if a package is missing."""
        command = [python, __file__, "--folder", self.folder, "--factor", str(self.factor)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode == MISSING:
            return None
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr[-4000:]}")
        return json.loads(done.stdout.splitlines()[-1])


class Measurements:
    """Every job on every number of cores, measured once by each Python."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._known: dict[tuple[str, str, int], Measured | None] = {}

    def get(self, python: str, job: str, cores: int) -> Measured | None:
        """What a job gives; None if it needs what is not installed."""
        key = python, job, cores
        if key not in self._known:
            asked = ["--measure", job, "--cores", str(cores), "--rounds", str(self._setting.rounds)]
            found = self._setting.call(python, *asked)
            self._known[key] = None if found is None else Measured(**found)
        return self._known[key]

    def both(self, case: Any, cores: int) -> tuple[Measured | None, Measured | None]:
        """A line's own job and the bare one."""
        ours = self.get(sys.executable, case["job"], cores)
        return ours, self.get(sys.executable, case["bare"], cores) if case["bare"] and ours else None

    def as_json(self) -> list[dict[str, Any]]:
        """All that was measured."""
        return [
            {"python": python, "job": job, "cores": cores, "rate": found.rate, **asdict(found)}
            for (python, job, cores), found in self._known.items()
            if found is not None
        ]


HEADINGS = (
    "line",
    "cores",
    "rows/s",
    "ms/pass",
    "bare job",
    "÷ bare",
    "× 1 core (bare)",
    "CPU s",
    "CPU × 1 core",
    "peak RSS",
    "GIL",
    "read MB",
    "disk MB",
    "first ms",
    "note",
)
COMPARED = ("line", "cores", "before rows/s", "after rows/s", "times as fast", "CPU", "peak RSS", "GIL")


def cells(case: Any, cores: int, sides: tuple[Measured | None, ...], on_one: tuple[Measured | None, ...]) -> Any:
    """One row of the report: our side and the bare one, here and on one core."""
    from harness import number

    (ours, bare), (one, bare_one) = sides, on_one
    assert ours is not None and one is not None
    gain = "" if bare is None or bare_one is None else f" ({bare.rate / bare_one.rate:.1f})"
    return (
        case["name"],
        str(cores),
        number(ours.rate),
        number(1e3 * ours.seconds),
        "" if bare is None else case["bare"],
        "" if bare is None else f"{ours.rate / bare.rate:.2f}",
        f"{ours.rate / one.rate:.1f}{gain}",
        number(ours.cpu_seconds),
        f"{ours.cpu_seconds / one.cpu_seconds:.2f}" if one.cpu_seconds else "",
        f"{ours.peak_megabytes:.0f} MB",
        "" if ours.gil is None else f"{ours.gil:.0%}",
        number(ours.read_megabytes),
        "" if ours.disk_megabytes is None else number(ours.disk_megabytes),
        number(1e3 * ours.first_seconds),
        ours.note,
    )


def compared(name: str, cores: int, before: Measured, after: Measured) -> tuple[str, ...]:
    """One row of a comparison of two versions."""
    from harness import number

    return (
        name,
        str(cores),
        number(before.rate),
        number(after.rate),
        f"{after.rate / before.rate:.2f}",
        f"{after.cpu_seconds / max(before.cpu_seconds, 1e-9):.2f}",
        f"{after.peak_megabytes / before.peak_megabytes:.2f}",
        f"{before.gil or 0:.0%} → {after.gil or 0:.0%}",
    )


def show(row: tuple[str, ...]) -> None:
    """Print a row of a Markdown table."""
    print("| " + " | ".join(row) + " |", flush=True)


def report(asked: argparse.Namespace, cases: list[Any], widths: list[int], measurements: Measurements) -> int:
    """Print a row for every line and number of cores; how many broke."""
    show(COMPARED if asked.before else HEADINGS)
    show(("---", *["--:"] * (len(COMPARED if asked.before else HEADINGS) - 1)))
    broken = 0
    for case in cases:
        try:
            for cores in widths if case["between"] else sorted({widths[0], widths[-1]}):
                if asked.before:
                    pair = [measurements.get(python, case["job"], cores) for python in (asked.before, sys.executable)]
                    if None not in pair:
                        show(compared(case["name"], cores, *pair))
                    continue
                sides = measurements.both(case, cores)
                if sides[0] is None:
                    print(f"{case['name']}: skipped, a package is not installed", file=sys.stderr)
                    break
                show(cells(case, cores, sides, measurements.both(case, widths[0])))
                _check_rows(*sides)
        except RuntimeError as error:
            broken += 1
            print(f"{case['name']}: {error}", file=sys.stderr)
    return broken


def _check_rows(ours: Measured | None, bare: Measured | None) -> None:
    """A bare job reads the same rows, but for bad ones and several passes."""
    if ours is not None and bare is not None and not 0.99 <= ours.rows / bare.rows <= 2.01:
        raise RuntimeError(f"{ours.rows:,} rows, and the bare job gave {bare.rows:,}")


def run(asked: argparse.Namespace) -> int:
    """Make the data, measure every line, report."""
    available = len(os.sched_getaffinity(0))
    mode = "two" if asked.two_cores else "cores"
    widths = asked.widths or ([2] if asked.two_cores else [n for n in WIDTHS if n <= available])
    if not asked.two_cores and not asked.widths and available < WIDTHS[1] and available > 1:
        widths.append(available)
    if max(widths) > available:
        sys.exit(f"{max(widths)} cores are asked for, and {available} are available")
    started = perf_counter()
    with ExitStack() as stack:
        folder = asked.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-scaling-"))
        setting = Setting(str(folder), asked.factor or (QUICK if asked.quick else 1.0), asked.rounds)
        cases = [case for case in setting.call(sys.executable, "--cases") if mode in case["modes"]]
        cases = [case for case in cases if re.search(asked.only, case["name"])]
        if asked.list:
            print("\n".join(case["name"] for case in cases))
            return 0
        needed = dict.fromkeys(case["data"] for case in cases)
        for name in needed:
            made = setting.call(sys.executable, "--make", name)
            print(f"data {name}: {made['megabytes']:.0f} MB in {made['seconds']:.1f} s", file=sys.stderr)
        data_seconds = perf_counter() - started
        measurements = Measurements(setting)
        broken = report(asked, cases, widths, measurements)
        seconds = perf_counter() - started
        print(f"\n{seconds:.0f} s, of which {data_seconds:.0f} s to make the data", flush=True)
        if asked.json:
            from harness import machine

            found = {**machine(), "widths": widths, "seconds": seconds, "data_seconds": data_seconds, "cases": cases}
            asked.json.write_text(json.dumps(found | {"measured": measurements.as_json()}, indent=1) + "\n")
    return 1 if broken else 0


def _cases() -> list[dict[str, Any]]:
    from scaling_cases import CASES, JOBS

    return [asdict(case) | {"data": JOBS[case.job].data} for case in CASES]


def _make(name: str, folder: Path, factor: float) -> dict[str, float]:
    from scaling_data import Sizes, make

    return make(name, folder, Sizes().scaled(factor) if factor != 1 else Sizes())


def _widths(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="the lines whose names match")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of every measurement (default 2)")
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--factor", type=float, help="a factor for the default rows of every dataset")
    parser.add_argument("--cores", dest="widths", type=_widths, metavar="N,N", help="numbers of cores (default 1,4,16)")
    parser.add_argument("--two-cores", action="store_true", help="the lines against other loaders, on 2 cores")
    parser.add_argument("--before", metavar="PYTHON", help="compare with the headrace that this Python has installed")
    parser.add_argument("--folder", type=Path, help="make the data there, or use those of a run before")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--list", action="store_true", help="print the names of the lines")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("--cases", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    factor = asked.factor or 1.0
    try:
        if asked.measure:
            print(
                json.dumps(
                    asdict(measure_here(asked.measure, str(asked.folder), factor, asked.widths[0], asked.rounds))
                )
            )
        elif asked.make:
            print(json.dumps(_make(asked.make, asked.folder, factor)))
        elif asked.cases:
            print(json.dumps(_cases()))
        else:
            return run(asked)
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return MISSING
    return 0


if __name__ == "__main__":
    sys.exit(main())
