"""Numbers of which many in a row are equal, held as runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import headrace as hr
from headrace import extend


def from_runs(counts: Any, values: Any) -> hr.Dataset:
    """`counts[0]` times `values[0]`, then `counts[1]` times `values[1]`: memory goes by runs, not by elements."""
    counts, values = np.asarray(counts, np.int64), np.array(values)
    if counts.ndim != 1 or counts.shape != values.shape or (counts < 1).any():
        raise ValueError("from_runs takes as many counts as values, and every count is at least 1")
    return extend.add_source(FromRuns, RunColumn(values, np.cumsum(counts)))


class RunColumn:
    """A column: row i is the value of the first run that stops after i."""

    def __init__(self, values: np.ndarray, stops: np.ndarray, start: int = 0) -> None:
        self.values, self.stops, self.start = values, stops, start

    def __len__(self) -> int:
        return int(self.stops[-1]) - self.start if len(self.stops) else 0

    def __getitem__(self, rows: slice) -> "RunColumn":
        first, last, _ = rows.indices(len(self))
        if last <= first:
            return RunColumn(self.values[:0], self.stops[:0])
        a, b = np.searchsorted(self.stops, (self.start + first, self.start + last - 1), "right")
        stops = np.minimum(self.stops[a : b + 1], self.start + last)
        return RunColumn(self.values[a : b + 1], stops, self.start + first)

    def counts(self) -> np.ndarray:
        return np.diff(self.stops, prepend=self.start)

    def dense(self) -> np.ndarray:
        return np.repeat(self.values, self.counts())


class RunKind(extend.Kind):
    """What can be done with a RunColumn; where rows lose their order, or get an axis, they become an array."""

    name = "headrace_runs.run"

    def values(self, column: RunColumn) -> Iterator[Any]:
        return iter(column.dense())

    def take(self, column: RunColumn, indices: extend.Indices) -> np.ndarray:
        return column.values[np.searchsorted(column.stops, column.start + indices, "right")]

    def join(self, columns: Sequence[RunColumn]) -> RunColumn | None:
        if len({column.values.dtype for column in columns}) > 1:
            return None
        counts = np.concatenate([column.counts() for column in columns])
        return RunColumn(np.concatenate([column.values for column in columns]), np.cumsum(counts))

    def stack(self, column: RunColumn, size: int, path: str) -> np.ndarray:
        return column.dense().reshape(-1, size)

    def nbytes(self, column: RunColumn) -> int:
        return column.values.nbytes + column.stops.nbytes

    def spec(self, column: RunColumn) -> hr.TensorSpec:
        return hr.TensorSpec((), column.values.dtype)

    def to_arrow(self, column: RunColumn) -> tuple[Any, extend.Notes]:
        import pyarrow as pa

        ends = pa.array(column.stops - column.start)
        return pa.RunEndEncodedArray.from_arrays(ends, pa.array(column.values)), {"kind": self.name}

    def from_arrow(self, array: Any, notes: extend.Notes) -> RunColumn:
        first, length = array.offset, len(array)
        whole = RunColumn(array.values.to_numpy(), array.run_ends.to_numpy())
        return whole[first : first + length]


extend.register_kind(RunKind(), RunColumn)


@dataclass(frozen=True, eq=False)
class FromRuns(extend.Numbered):
    """The rows of a RunColumn."""

    column: RunColumn

    @property
    def operation(self) -> str:
        return "from_runs"

    @property
    def spec(self) -> extend.Spec:
        return extend.Spec.of_signature(hr.TensorSpec((), self.column.values.dtype))

    @property
    def cardinality(self) -> extend.Cardinality:
        return extend.Cardinality(len(self.column))


@extend.opens(FromRuns)
def open_runs(node: FromRuns, ctx: extend.Context, at: extend.At) -> extend.Stream:
    """Open runs of rows, cut when the consumer wants no more of them."""

    def read(start: int, stop: int) -> extend.Block:
        return extend.Block(extend.LEAF, [node.column[start:stop]], stop - start, ids=ctx.ids_between(start, stop))

    return extend.NumberedStream(node, read)


@extend.fetches(FromRuns)
def fetch_of_runs(node: FromRuns, ctx: extend.Context, indices: extend.Indices) -> extend.Block:
    """Rows by their numbers."""
    rows = RunKind().take(node.column, indices)
    return extend.Block(extend.LEAF, [rows], len(indices), ids=ctx.ids(indices))


@extend.means(FromRuns)
def each_of_runs(node: FromRuns, at: extend.Place) -> Iterator[extend.Row]:
    """One number after another."""
    for number, value in enumerate(node.column.dense()):
        yield extend.Row((at.path, number), value)
