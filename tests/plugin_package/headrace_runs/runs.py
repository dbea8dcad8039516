"""Files of runs: the four bytes RUNS, then a count of four bytes and a number of eight for each run."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import headrace as hr
from headrace import extend

MAGIC = b"RUNS"
RUN = np.dtype([("count", "<i4"), ("value", "<i8")])


@dataclass(frozen=True)
class Runs(extend.Format):
    """One row a run."""

    @property
    def structure(self) -> extend.Structure:
        return extend.flatten({"count": 0, "value": 0})[0]

    @property
    def spec(self) -> extend.Spec:
        return extend.Spec.of_signature({"count": hr.TensorSpec((), np.int32), "value": hr.TensorSpec((), np.int64)})

    def scan(self, data: np.ndarray, hints: extend.ScanHints) -> extend.ScanResult:
        """As many whole runs as there are; those without a length are bad, a piece at the end is too."""
        start = len(MAGIC) if hints.first else 0
        if hints.first and data[:start].tobytes() != MAGIC:
            if len(data) < start and not hints.final:
                return extend.ScanResult([], 0)
            return extend.ScanResult([extend.Bad("does not begin with RUNS", 0, len(data), lost=True)], len(data))
        rows = min((len(data) - start) // RUN.itemsize, hints.most)
        stop = start + rows * RUN.itemsize
        runs = np.frombuffer(data[start:stop].tobytes(), RUN)
        parts = []
        bad = [*np.flatnonzero(runs["count"] < 1).tolist(), rows]
        first = 0
        for number in bad:
            if number > first:
                columns = [np.ascontiguousarray(runs[name][first:number]) for name in RUN.names or ()]
                parts.append(extend.ScannedRows(columns, number - first, start + first * RUN.itemsize))
            if number < rows:
                at = start + number * RUN.itemsize
                reason = f"a run of {runs['count'][number]}"
                parts.append(extend.Bad(reason, at, at + RUN.itemsize))
            first = number + 1
        if rows == hints.most:
            return extend.ScanResult(parts, stop, more=True)
        if hints.final and stop < len(data):
            parts.append(extend.Bad("the file ends within a run", stop, len(data), lost=True))
            stop = len(data)
        return extend.ScanResult(parts, stop)


@extend.reads_naively(Runs)
def read_runs(form: Runs, data: bytes, *, go_on: bool) -> Iterator[extend.NaiveRecord]:
    """One run after another."""
    if not data.startswith(MAGIC):
        yield extend.Wrong("does not begin with RUNS"), 0, 0
        return
    for at in range(len(MAGIC), len(data), RUN.itemsize):
        if len(data) - at < RUN.itemsize:
            yield extend.Wrong("the file ends within a run"), at, 0
            return
        count, value = struct.unpack_from("<iq", data, at)
        good = {"count": np.int32(count), "value": np.int64(value)}
        yield good if count > 0 else extend.Wrong(f"a run of {count}"), at, 0


def RunsDataset(filenames: Any, compression_type: str | None = None, **options: Any) -> hr.Dataset:
    """The runs of files as dicts; `options` are those of every reader, such as `on_error` and `num_parallel_reads`."""
    return extend.read_files("RunsDataset", filenames, Runs(compression_type or ""), **options)


extend.register_format(
    extend.FileFormat("runs", RunsDataset, "headrace_runs.RunsDataset", endings=(".runs",), magic=(MAGIC,))
)
