"""Measure headrace against its peers, all sides in one run, and say what was asked and what was found.

A benchmark file makes a list of `Case` (a ratio of speeds) and `Bound` (a number with a limit) and calls `main`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.table import Table

Job = Callable[[], int]
"""Runs the whole job once and returns the number of rows."""

LEAST_SECONDS = 0.1
"""A job that is faster than this runs several times in a round, and its mean counts."""

PACKAGES = (
    "headrace",
    "numpy",
    "tensorflow-cpu",
    "tensorflow",
    "torch",
    "grain",
    "datasets",
    "webdataset",
    "litdata",
    "spdl",
)

progress = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Case:
    """How many times faster the first side does a job than each of the others.

    A side with several forms is a dict of them: the fastest is found first, and it alone is compared. `asked` holds a
    factor for each peer; a peer without one is there for information. A peer that cannot be imported is skipped.
    """

    name: str
    asked: Mapping[str, float]
    sides: Mapping[str, Job | Mapping[str, Job]]
    rows: int

    def run(self, rounds: int) -> Iterator[Line]:
        jobs: dict[str, Job] = {}
        forms: dict[str, str] = {}
        ours = next(iter(self.sides))
        for side, given in self.sides.items():
            try:
                forms[side], jobs[side] = self._best(given)
            except ModuleNotFoundError as error:
                if side == ours:
                    raise
                package = (error.name or side).partition(".")[0]
                progress.print(f"  {self.name}: {side} skipped, {package} is not installed")
        seconds: dict[str, list[float]] = {side: [] for side in jobs}
        for _ in range(rounds):
            for side, job in jobs.items():
                seconds[side].append(self._timed(job))
        mine = seconds.pop(ours)
        for peer, theirs in seconds.items():
            ratios = [b / a for a, b in zip(mine, theirs, strict=True)]
            against = f"{peer} ({forms[peer]})" if forms[peer] else peer
            speed = self.rows / statistics.median(mine)
            asked = self.asked.get(peer)
            median = statistics.median(ratios)
            met = None if asked is None else median >= asked
            yield Line(self.name, against, asked, "×", median, ratios, met, rows_per_second=speed)

    def _best(self, given: Job | Mapping[str, Job]) -> tuple[str, Job]:
        if not isinstance(given, Mapping):
            self._timed(given)
            return "", given
        took = {form: min(self._timed(job) for _ in range(2)) for form, job in given.items()}
        form = min(took, key=lambda f: took[f])
        return form, given[form]

    def _timed(self, job: Job) -> float:
        """Seconds of one run, with the collector quiet on every side."""
        gc.collect()
        gc.disable()
        try:
            runs = 0
            started = CLOCK()
            while runs == 0 or CLOCK() - started < LEAST_SECONDS:
                rows = job()
                runs += 1
            took = (CLOCK() - started) / runs
        finally:
            gc.enable()
        if rows != self.rows:
            raise AssertionError(f"{self.name}: a side gave {rows:,} rows instead of {self.rows:,}")
        return took


@dataclass(frozen=True)
class Bound:
    """A number that must not exceed `asked`; None is for information.

    `measure(rounds)` gives a value a round, `judge` the one that counts.
    """

    name: str
    asked: float | None
    unit: str
    measure: Callable[[int], Sequence[float]]
    judge: Callable[[Sequence[float]], float] = statistics.median

    def run(self, rounds: int) -> Iterator[Line]:
        values = self.measure(rounds)
        found = self.judge(values)
        met = None if self.asked is None else found <= self.asked
        yield Line(self.name, "", self.asked, self.unit, found, list(values), met)


@dataclass(frozen=True)
class Share:
    """What part of the speed of the best of `others` our side reaches; each gives rows a second."""

    name: str
    asked: float
    ours: Callable[[], float]
    others: Mapping[str, Callable[[], float]]

    def run(self, rounds: int) -> Iterator[Line]:
        speeds = {name: max(rate() for _ in range(2)) for name, rate in self.others.items()}
        best = max(speeds, key=lambda name: speeds[name])
        pairs = alternating(rounds, self.ours, self.others[best])
        found = statistics.median(mine / theirs for mine, theirs in pairs)
        speed = statistics.median(mine for mine, _ in pairs)
        ratios = [mine / theirs for mine, theirs in pairs]
        yield Line(self.name, f"the best ({best})", self.asked, "×", found, ratios, found >= self.asked, speed)


class UnsupportedError(Exception):
    """This machine cannot measure it; the line is skipped."""


@dataclass(frozen=True)
class Line:
    """One line of the report."""

    name: str
    against: str
    asked: float | None
    unit: str
    measured: float
    values: list[float]
    met: bool | None
    rows_per_second: float | None = None

    def cells(self) -> tuple[str, ...]:
        sign = "≥" if self.unit == "×" else "≤"
        asked = "" if self.asked is None else f"{sign} {number(self.asked, self.unit)}"
        spread = f"{number(min(self.values))} … {number(max(self.values), self.unit)}"
        speed = "" if self.rows_per_second is None else number(self.rows_per_second)
        mark = {True: "✓", False: "✗ missed", None: ""}[self.met]
        return self.name, self.against, asked, number(self.measured, self.unit), spread, speed, mark


def number(value: float, unit: str = "") -> str:
    """Two or three digits, and the unit."""
    size = abs(value)
    text = f"{value:,.0f}" if size >= 100 or value == int(value) else f"{value:.1f}" if size >= 1 else f"{value:.2g}"
    return text + unit if unit in ("", "×") else f"{text} {unit}"


HEADINGS = ("what", "against", "goal", "measured", "min … max", "headrace rows/s", "")
RIGHT = (False, False, True, True, True, True, False)


def table(title: str, lines: Iterable[Line]) -> Table:
    made = Table(title=title)
    for heading, right in zip(HEADINGS, RIGHT, strict=True):
        made.add_column(heading, justify="right" if right else "left")
    for line in lines:
        made.add_row(*line.cells(), style="bold red" if line.met is False else None)
    return made


def markdown(lines: Iterable[Line]) -> str:
    rows = [HEADINGS, tuple("--:" if right else "---" for right in RIGHT), *(line.cells() for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {"cores": os.cpu_count(), "processor": platform.machine(), "system": platform.system(), "versions": versions}


def batches(build: Callable[[], Any]) -> Job:
    """A job: one pass over a dataset of batches, which is built once, before the first pass. Counts rows."""
    made = cache(build)

    def job() -> int:
        rows = 0
        for batch in made():
            rows += len(_first(batch))
        return rows

    return job


def _first(batch: Any) -> Any:
    """A batch has as many rows as its first component."""
    while type(batch) in (tuple, list, dict):
        batch = next(iter(batch.values() if type(batch) is dict else batch))
    return batch


def elements(build: Callable[[], Any], read: Callable[[Any], Iterable[Any]] = iter) -> Job:
    """A job: one pass over a dataset, which is built once, before the first pass. Counts elements."""
    made = cache(build)

    def job() -> int:
        count = 0
        for _ in read(made()):
            count += 1
        return count

    return job


CLOCK = process_time if os.environ.get("HEADRACE_CPU") else perf_counter
"""By wall or, with HEADRACE_CPU=1, by the process's CPUs, which a busy machine disturbs less."""


def pass_seconds(ds: Iterable[Any]) -> float:
    """How long one pass over a dataset takes."""
    started = CLOCK()
    for _ in ds:
        pass
    return CLOCK() - started


def against_peers(name: str, seconds: Mapping[str, list[float]], peers: Iterable[str]) -> Iterator[Line]:
    """How many times faster headrace's rounds were than those of each of these peers: no slower is asked."""
    mine = seconds["headrace"]
    for peer in peers:
        ratios = [theirs / ours for ours, theirs in zip(mine, seconds[peer], strict=True)]
        median = statistics.median(ratios)
        yield Line(name, peer, 1.0, "×", median, ratios, median >= 1)


def alternating(rounds: int, *jobs: Callable[[], float]) -> list[tuple[float, ...]]:
    """What the jobs give, one after the other, round after round."""
    return [tuple(job() for job in jobs) for _ in range(rounds)]


def fresh(*arguments: str) -> str:
    """What a new Python interpreter prints."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a fresh interpreter failed:\n{done.stderr}")
    return done.stdout


def main(
    title: str, items: Sequence[Case | Bound | Share], *, description: str | None = None, worst: bool = False
) -> int:
    """The command line of a benchmark file. 0, whatever was found, unless a job broke. `worst` lines may come first."""
    options = _options(title, description)
    chosen = [item for item in items if any(part in item.name for part in options.only or [""])]
    lines: list[Line] = []
    broken = 0
    for item in chosen:
        progress.print(f"[dim]{item.name} …[/dim]")
        try:
            lines += item.run(options.rounds)
        except UnsupportedError as reason:
            progress.print(f"  {item.name}: skipped, {reason}")
        except Exception:
            broken += 1
            progress.print(f"  {item.name}: broke")
            progress.print(traceback.format_exc(), markup=False)
    if worst:
        lines.sort(key=lambda line: line.measured)
        lost = sum(line.met is False for line in lines)
        progress.print(f"{lost} of {len(lines)} are slower than a peer")
    if options.json:
        found = {"title": title, "rounds": options.rounds, **machine(), "lines": [asdict(line) for line in lines]}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.markdown:
        print(markdown(lines))
    else:
        Console(width=None if sys.stdout.isatty() else 150).print(table(title, lines))
        print(", ".join(f"{package} {version}" for package, version in machine()["versions"].items()))
    return 1 if broken else 0


def _options(title: str, description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description or title)
    parser.add_argument("--only", action="append", metavar="SUBSTRING", help="the lines with this in their name")
    parser.add_argument("--rounds", type=_positive, default=5, metavar="N", help="rounds of every side (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, round by round, to a file")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser.parse_args()


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value
