"""Convert the elements to a Dask collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from headrace.core.types import Component, LibraryObject
from headrace.ops.shared.arguments import one_of
from headrace.sinks.deal import cut_runs
from headrace.sinks.tables import (
    PARTITION_BYTES,
    PlanPart,
    TableColumns,
    TablePart,
    plan_parts,
    rows_to_look_at,
    whole_plan,
)
from headrace.sources.sql.database import driver

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

Collection = Literal["dataframe", "bag"]


def to_dask(self: Dataset, partitions: int | None = None, *, collection: Collection = "dataframe") -> LibraryObject:
    """Make a Dask DataFrame of elements that are dicts, or a bag of any elements. The order stays.

    Each partition is a range of the elements, made by a task where and when Dask runs it. Columns are pandas' of Arrow
    types: arrays of one shape are lists of fixed sizes, those of one axis lists of any length unless `element_spec` has
    their length; NaN stays NaN, and components of nested dicts are called `outer/inner`. The columns are inferred from
    the first 64 elements, which are made at once. Randomness is that of epoch 0.

    A plan that cannot be cut by row numbers runs here, once, and its partitions go to the workers of the current
    `dask.distributed.Client` one by one; without one they stay here.

    Args:
        partitions: Number of parts.
        collection: "dataframe" or "bag".

    >>> frame = hr.Dataset.range(6).map(lambda x: {"x": x, "name": str(x)}).to_dask(partitions=2)
    >>> frame.npartitions, int(frame["x"].sum().compute())
    (2, 15)
    >>> list(hr.Dataset.from_dask(frame))[5]
    {'name': '5', 'x': np.int64(5)}
    """
    one_of("collection", collection, Collection)
    if collection == "bag":
        bag = driver("dask.bag", "dask")
        delayed = driver("dask", "dask").delayed
        parts = plan_parts(self, partitions, None)
        if parts is not None:
            return bag.from_delayed([delayed(elements_of)(part) for part in parts])
        return bag.from_delayed([delayed(list)(part) for part in _scattered(map(_elements, _runs(self)))])
    frames = driver("dask.dataframe", "dask")
    first = rows_to_look_at(self)
    columns = TableColumns(self._node.spec, first)
    row_bytes = columns.table(first).nbytes / sum(block.rows for block in first)
    parts = plan_parts(self, partitions, row_bytes)
    meta = as_pandas(columns.empty())
    if parts is not None:
        tables = [TablePart(each, columns) for each in parts]
        return frames.from_map(frame_of, tables, meta=meta, enforce_metadata=False)
    made = _scattered(as_pandas(columns.table(run)) for run in _runs(self))
    return frames.from_delayed(made, meta=meta, verify_meta=False)


def elements_of(part: PlanPart) -> list[Component]:
    """Return the elements of a partition, in a task of a bag."""
    return part.elements()


def frame_of(part: TablePart) -> LibraryObject:
    """Return the frame of a partition, in a task of a DataFrame."""
    return as_pandas(part.whole())


def as_pandas(table: pa.Table) -> LibraryObject:
    """Return a table with columns of Arrow's types."""
    pandas = driver("pandas", "pandas")
    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def _runs(ds: Dataset) -> Any:
    return cut_runs(whole_plan(ds).blocks(), PARTITION_BYTES)


def _elements(run: Any) -> list[Component]:
    return [element for block in run for element in block.elements()]


def _scattered(made: LibraryObject) -> list[Component]:
    """Return values with the workers of the current client, each as soon as it is made; without one, here."""
    try:
        from distributed import get_client

        client = get_client()
    except (ImportError, ValueError):
        delayed = driver("dask", "dask").delayed
        return [delayed(value, pure=False) for value in made]
    return [client.scatter(value) for value in made]
