"""Summarize a dataset by component, in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.cluster.members import Cluster
from headrace.columns.block import Block
from headrace.core.types import KeywordArguments, StrPath
from headrace.execute.budget import cpus
from headrace.feature_column.gather import gather
from headrace.plan.structure import flatten
from headrace.preprocessing.components import component_name, component_paths
from headrace.sinks.statistics_table import as_html, as_text
from headrace.sinks.summaries import ColumnStatistics, Summary

if TYPE_CHECKING:
    from headrace.dataset import Dataset


class Statistics(Mapping[str, ColumnStatistics]):
    """The statistics of each component by name; shown as a table, and in a notebook with small charts."""

    def __init__(self, columns: Mapping[str, ColumnStatistics], rows: int) -> None:
        self._columns = dict(columns)
        self.rows = rows

    def __getitem__(self, name: str) -> ColumnStatistics:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return as_text(self, self.rows)

    def _repr_html_(self) -> str:
        return as_html(self, self.rows)


class SumUp:
    """Let summaries of components see blocks, in parallel if there are threads."""

    def __init__(self, summaries: list[Summary], threads: ThreadPoolExecutor | None) -> None:
        self._summaries = summaries
        self._threads = threads

    def __call__(self, block: Block) -> None:
        if len(block.columns) != len(self._summaries):
            raise TypeError("statistics: elements do not all have the same components")
        each = map if self._threads is None else self._threads.map
        list(each(Summary.take, self._summaries, block.columns))


def statistics(
    self: Dataset,
    *,
    bins: int = 20,
    most_frequent: int = 5,
    state: StrPath | None = None,
    save_every: float = 30.0,
    progress: bool | None = None,
    cluster: Cluster | None = None,
) -> Statistics:
    """Compute count, missing values, bounds, mean, quartiles, histogram and most frequent values of each component.

    The dataset is read once; components are summarized in parallel. The result does not depend on block boundaries.
    Quartiles and histograms are exact up to a million different numbers. With `state`, the name of a file, an
    interrupted pass continues from there when it is called again. With a `cluster` its workers summarize shares of the
    elements, and the results are merged: they are the same to the last digit.

    Args:
        bins: Number of bins in a histogram.
        most_frequent: Number of most frequent values to report.
        state: File that keeps the progress, so that an interrupted run continues.
        save_every: Seconds between two saves of the state.
        progress: Whether to show a progress bar. Default: if standard error is a terminal.
        cluster: Workers that do the work; default: this process.

    >>> ds = hr.Dataset.from_tensor_slices({"age": [20.0, 30.0, np.nan], "name": ["b", "a", "b"]})
    >>> found = ds.statistics()
    >>> found["age"].mean, found["age"].missing, found["name"].most_frequent
    (25.0, 1, (('b', 2), ('a', 1)))
    """
    structure = self._node.spec.structure or flatten(self.element_spec)[0]
    names = [component_name(path) for path in component_paths(structure)]
    summaries = [Summary() for _ in names]
    purpose = f"statistics of {', '.join(names)}"
    how: KeywordArguments = {"state": state, "save_every": save_every, "progress": progress, "cluster": cluster}
    with ThreadPoolExecutor(min(cpus(), max(1, len(names))), "headrace-statistics") as threads:
        take = SumUp(summaries, None if cluster is not None else threads)
        gather(self, summaries, take, purpose=purpose, task="statistics", **how)
    rows = max([each.rows for each in summaries], default=0)
    found = {name: each.statistics(bins, most_frequent) for name, each in zip(names, summaries, strict=True)}
    return Statistics(found, rows)
