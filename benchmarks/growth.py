"""How the speed of a pass grows: with rows, their size, threads, features, shards and the depth of the plan.

Writes docs/growth.svg, a curve for each, and the table of docs/growth.md. `--only threads` measures some, and writes
nothing; `--quick` takes a few minutes on 2 cores: passes are shorter, and none has more than a million rows.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import numpy as np
from harness import number, pass_seconds

import headrace as hr

D = hr.Dataset
DOCS = Path(__file__).parent.parent / "docs"
HEAD = "<!-- the table is written by benchmarks/growth.py -->\n"


@dataclass(frozen=True)
class Curve:
    """What is measured at each of some sizes."""

    name: str
    along: str
    unit: str
    what: str
    points: tuple[int, ...]
    rate: Callable[[int, int], float]


def passes(ds: Any, units: float) -> float:
    """Units a second of the better of two passes."""
    return max(units / pass_seconds(ds) for _ in range(2))


QUICK = 4
"""How many times shorter quick passes are."""


def by_rows(rows: int, shorter: int) -> float:  # noqa: ARG001 - rows are what grows
    data = {"x": np.arange(rows, dtype=np.float32), "y": np.arange(rows)}
    ds = D.from_tensor_slices(data).shuffle(10_000, 1).map(lambda e: (e["x"] * 2, e["y"])).batch(128)
    return passes(ds, rows)


def by_size(size: int, shorter: int) -> float:
    rows = max(32, min(20_000, (256 << 20) // size) // shorter)
    data = np.zeros((rows, size), np.uint8)
    ds = D.from_tensor_slices(data).map(lambda x: x ^ 1).shuffle(max(16, rows // 8), 1).batch(16)
    return passes(ds, rows * size / 1e6)


FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


def parse(record: Any) -> Any:
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8).astype(np.float32) / 255, row["label"]


class Files:
    """TFRecord files that are made once and go with the program."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="headrace-growth-")
        self._made: dict[str, list[str]] = {}

    def shards(self, count: int, rows: int) -> list[str]:
        """So many files of Examples with small images, `rows` of them in all."""
        return self._named(f"images-{count}-{rows}", count, rows, lambda i: {"image": bytes(784), "label": i})

    def tables(self, features: int, rows: int) -> list[str]:
        """A file of Examples with this many numbers."""
        return self._named(f"table-{features}", 1, rows, lambda i: {f"f{j}": i + j for j in range(features)})

    def _named(self, name: str, count: int, rows: int, row: Callable[[int], Mapping[str, Any]]) -> list[str]:
        if name not in self._made:
            names = [str(Path(self._home.name, f"{name}-{i}.tfrecord")) for i in range(count)]
            for path in names:
                with hr.io.TFRecordWriter(path) as writer:
                    for i in range(rows // count):
                        writer.write(row(i))
            self._made[name] = names
        return self._made[name]


FILES = Files()


def by_threads(threads: int, shorter: int) -> float:
    rows = 40_000 // shorter
    ds = hr.TFRecordDataset(FILES.shards(16, rows), num_parallel_reads=None if threads == 1 else threads)
    return passes(ds.map(parse, num_parallel_calls=threads).shuffle(5_000, 1).batch(128), rows)


def by_features(features: int, shorter: int) -> float:
    rows = 4_000 // shorter
    described = {f"f{j}": hr.io.FixedLenFeature([], np.int64) for j in range(features)}
    ds = hr.TFRecordDataset(FILES.tables(features, rows)).map(lambda r: hr.io.parse_single_example(r, described))
    return passes(ds.shuffle(1_000, 1).batch(64), rows * features)


def by_shards(shards: int, shorter: int) -> float:  # noqa: ARG001 - a thousand files have ten rows each
    rows = 10_000
    return passes(hr.TFRecordDataset(FILES.shards(shards, rows), num_parallel_reads=4).map(parse).batch(128), rows)


def by_depth(depth: int, shorter: int) -> float:
    rows = 200_000 // shorter
    ds = D.range(rows)
    for i in range(depth):
        ds = ds.map(lambda x, i=i: x + i).filter(lambda x: x >= 0) if i % 2 else ds.map(lambda x, i=i: x ^ i)
    return passes(ds.batch(256), rows)


def curves(most: int) -> list[Curve]:
    cores = os.cpu_count() or 1
    threads = tuple(n for n in (1, 2, 4, 8, 16) if n <= 2 * cores)
    rows = tuple(n for n in (10**3, 10**4, 10**5, 10**6, 10**7) if n <= most)
    return [
        Curve("rows", "rows", "rows/s", "slices shuffled, mapped, batch(128)", rows, by_rows),
        Curve("row size", "bytes a row", "MB/s", "slices mapped, shuffled, batch(16)", SIZES, by_size),
        Curve(
            "threads", "threads", "rows/s", "TFRecords read, parsed, cast, shuffled, batch(128)", threads, by_threads
        ),
        Curve("features", "features", "values/s", "Examples parsed, shuffled, batch(64)", COLUMNS, by_features),
        Curve("shards", "files", "rows/s", "10,000 records in this many files, 4 read at a time", SHARDS, by_shards),
        Curve("depth", "operations", "rows/s", "numbers through maps and filters, batch(256)", DEPTHS, by_depth),
    ]


SIZES = (100, 1_000, 10_000, 150_000, 4_000_000)
SHARDS = (1, 10, 100, 1_000)
COLUMNS = (1, 10, 39, 200)
DEPTHS = (1, 4, 16, 64)

WIDE, HIGH, EDGE = 420, 260, 52


def panel(curve: Curve, found: Sequence[float], left: int, top: int) -> Iterator[str]:
    """One curve, both axes in powers of ten, the lower bound a power below the least."""
    low, high = floor(log10(min(found))), ceil(log10(max(found)))
    high = max(high, low + 1)
    first, last = log10(curve.points[0]), log10(max(curve.points[-1], curve.points[0] + 1))

    def place(point: float, value: float) -> tuple[float, float]:
        x = left + EDGE + (log10(point) - first) / (last - first) * (WIDE - 2 * EDGE)
        y = top + HIGH - EDGE - (log10(value) - low) / (high - low) * (HIGH - 2 * EDGE)
        return x, y

    yield f'<text x="{left + EDGE}" y="{top + 18}" class="name">{escape(curve.name)}</text>'
    yield f'<text x="{left + EDGE}" y="{top + 34}">{escape(curve.what)}, {escape(curve.unit)}</text>'
    for power in range(low, high + 1):
        y = place(curve.points[0], 10**power)[1]
        yield f'<line x1="{left + EDGE}" x2="{left + WIDE - EDGE}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{left + EDGE - 6}" y="{y + 4:.1f}" class="end">{number(10**power)}</text>'
    places = [place(point, value) for point, value in zip(curve.points, found, strict=True)]
    yield f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>'
    for (x, y), point, value in zip(places, curve.points, found, strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{point:,}: {value:,.0f}</title></circle>'
        yield f'<text x="{x:.1f}" y="{top + HIGH - EDGE + 16}" class="middle">{point:,}</text>'
    yield f'<text x="{left + WIDE / 2}" y="{top + HIGH - EDGE + 32}" class="middle">{escape(curve.along)}</text>'


STYLE = """
text { font: 10px sans-serif; fill: #444 } .name { font-weight: bold; font-size: 13px } .end { text-anchor: end }
.middle { text-anchor: middle } .grid { stroke: #ddd } polyline { fill: none; stroke: #07c; stroke-width: 2 }
circle { fill: #07c }
"""


def picture(found: Mapping[Curve, Sequence[float]]) -> str:
    """All curves, two side by side."""
    rows = -(-len(found) // 2)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDE} {rows * HIGH}">']
    parts += [f"<style>{STYLE}</style>", '<rect width="100%" height="100%" fill="white"/>']
    for i, (curve, values) in enumerate(found.items()):
        parts += panel(curve, values, i % 2 * WIDE, i // 2 * HIGH)
    return "\n".join([*parts, "</svg>", ""])


def table(found: Mapping[Curve, Sequence[float]]) -> str:
    lines = ["| curve | | " + " | ".join([""] * 5) + "|", "| --- | --- |" + " --: |" * 5]
    for curve, values in found.items():
        cells = [f"{point:,}: {number(v)}" for point, v in zip(curve.points, values, strict=True)]
        cells += [""] * (5 - len(cells))
        lines.append(f"| **{curve.name}**: {curve.what} | {curve.unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="SUBSTRING", help="the curves with this in their name")
    parser.add_argument("--quick", action="store_true", help="a few minutes on 2 cores")
    options = parser.parse_args()
    shorter = QUICK if options.quick else 1
    chosen = [c for c in curves(10**7 // shorter) if any(part in c.name for part in options.only or [""])]
    found: dict[Curve, list[float]] = {}
    for curve in chosen:
        print(curve.name, end="", flush=True)
        found[curve] = []
        for point in curve.points:
            found[curve].append(curve.rate(point, shorter))
            print(f"  {point:,}: {number(found[curve][-1])}", end="", flush=True)
        print()
    if not options.only:
        (DOCS / "growth.svg").write_text(picture(found))
        page = DOCS / "growth.md"
        page.write_text(page.read_text().partition(HEAD)[0] + HEAD + "\n" + table(found))


if __name__ == "__main__":
    run()
