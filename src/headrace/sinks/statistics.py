"""What a dataset holds, by component, in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headrace.block import Block
from headrace.cluster.members import Cluster
from headrace.execute.budget import cpus
from headrace.feature_column.gather import gather
from headrace.plan.structure import flatten
from headrace.preprocessing.components import component_name, component_paths
from headrace.sinks.statistics_table import as_html, as_text
from headrace.sinks.summaries import ColumnStatistics, Summary

if TYPE_CHECKING:
    from headrace.dataset import Dataset


class Statistics(Mapping[str, ColumnStatistics]):
    """By the name of a component, what it holds; shown as a table, and in a notebook with small pictures."""

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
    """Has summaries of components see blocks, side by side where there are threads."""

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
    state: Any = None,
    save_every: float = 30.0,
    progress: bool | None = None,
    cluster: Cluster | None = None,
) -> Statistics:
    """What each component holds: how many values, missing ones, bounds, mean, quartiles, a histogram, most frequent.

    The dataset is read once; components are summed up side by side. What comes out does not depend on how rows were cut
    into blocks. Quartiles and histograms are exact up to a million different numbers. With `state`, the name of a
    file, a pass that is broken off goes on from there when it is called again. With a `cluster` its workers sum
    up, each some of the elements, and what they find is merged: it is the same to the last digit.

    >>> ds = hr.Dataset.from_tensor_slices({"age": [20.0, 30.0, np.nan], "name": ["b", "a", "b"]})
    >>> found = ds.statistics()
    >>> found["age"].mean, found["age"].missing, found["name"].most_frequent
    (25.0, 1, (('b', 2), ('a', 1)))
    """
    structure = self._node.spec.structure or flatten(self.element_spec)[0]
    names = [component_name(path) for path in component_paths(structure)]
    summaries = [Summary() for _ in names]
    purpose = f"statistics of {', '.join(names)}"
    how = {"state": state, "save_every": save_every, "progress": progress, "cluster": cluster}
    with ThreadPoolExecutor(min(cpus(), max(1, len(names))), "headrace-statistics") as threads:
        take = SumUp(summaries, None if cluster is not None else threads)
        gather(self, summaries, take, purpose=purpose, task="statistics", **how)
    rows = max([each.rows for each in summaries], default=0)
    found = {name: each.statistics(bins, most_frequent) for name, each in zip(names, summaries, strict=True)}
    return Statistics(found, rows)
