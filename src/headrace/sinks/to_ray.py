"""Convert the elements to a Ray dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.override import override
from headrace.core.types import Component, Library, LibraryObject
from headrace.errors import WorkerError
from headrace.sinks.tables import TableColumns, TablePart, plan_parts, rows_to_look_at, whole_plan
from headrace.sources.sql.database import driver

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset


def to_ray(self: Dataset, partitions: int | None = None) -> LibraryObject:
    """Return a `ray.data.Dataset` of the elements, which are dicts, in the same order; Ray's workers make them when it
    runs.

    Each of `partitions` read tasks makes a range of the elements, as Arrow tables of about 16 MB one after another;
    if the plan cannot be cut by row numbers, one task streams them all. Arrays of one shape become Ray's
    tensors, those of one axis lists unless `element_spec` has their length; NaN stays NaN, and components of nested
    dicts are called `outer/inner`. The columns are inferred from the first 64 elements, which are made at once.
    Randomness is that of epoch 0.

    Args:
        partitions: Number of parts.

    >>> def on_ray(ds):
    ...     return ds.to_ray().map_batches(lambda batch: batch, batch_size=32)
    """
    ray = driver("ray", "ray")
    if not ray.is_initialized():
        raise WorkerError("to_ray needs a Ray to run on: call ray.init() first, with an address or without")
    data = driver("ray.data", "ray")
    first = rows_to_look_at(self)
    columns = TableColumns(self._node.spec, first)
    row_bytes = columns.table(first).nbytes / sum(block.rows for block in first)
    parts = plan_parts(self, partitions, row_bytes) or [whole_plan(self)]
    made = data.read_datasource(_datasource(data, [TablePart(each, columns) for each in parts], row_bytes, self))
    made.context.execution_options.preserve_order = True
    return made


def _datasource(data: Library, parts: list[TablePart], row_bytes: float, ds: Dataset) -> LibraryObject:
    count = ds._node.cardinality
    size = int(row_bytes * count) if count.known else None
    tables = [RayTables(part) for part in parts]
    from ray.data.block import BlockMetadata

    class HeadraceDatasource(data.Datasource):  # type: ignore[misc]
        """One read task per part, however many Ray requests."""

        @override
        def get_read_tasks(self, parallelism: int, *_: object, **__: object) -> list[Component]:
            told = BlockMetadata(
                num_rows=None,
                size_bytes=None if size is None else size // len(tables),
                exec_stats=None,
                input_files=None,
            )
            return [data.ReadTask(each, told) for each in tables]

        def estimate_inmemory_data_size(self) -> int | None:
            return size

        def get_name(self) -> str:
            return "headrace"

    return HeadraceDatasource()


class RayTables:
    """The function of a read task."""

    def __init__(self, part: TablePart) -> None:
        self._part = part

    def __call__(self) -> Iterator[pa.Table]:
        some = False
        for table in self._part.tables():
            some = True
            yield self._with_tensors(table)
        if not some:
            yield self._with_tensors(self._part.columns.empty())

    def _with_tensors(self, table: pa.Table) -> pa.Table:
        """Nested lists of one shape as Ray's tensors."""
        from ray.data.extensions import ArrowTensorArray

        for name, shape in self._part.columns.tensors.items():
            column = table.column(name).combine_chunks()
            for _ in shape:
                column = column.flatten()
            values = column.to_numpy(zero_copy_only=False)
            tensors = ArrowTensorArray.from_numpy(np.ascontiguousarray(values).reshape(table.num_rows, *shape))
            table = table.set_column(table.schema.get_field_index(name), name, tensors)
        return table
