"""Collections of Dask and datasets of Ray, partition by partition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import LibraryObject
from headrace.errors import StateError
from headrace.formats.tables.choice import Choice
from headrace.sources.batches import BatchSource, Mark
from headrace.sources.parts import parts_dataset
from headrace.sources.sql.database import driver

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

PASSING = ("KilledWorker", "CommClosedError", "TimeoutError", "ObjectLostError", "RayActorError", "WorkerCrashedError",
           "NodeDiedError", "GetTimeoutError", "OwnerDiedError")  # fmt: skip
"""What the engines raise when one of their machines goes away."""


def from_dask(
    collection: LibraryObject,
    *,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Return the rows of a Dask DataFrame as dicts, computed one partition at a time, by any scheduler Dask has.

    A state holds the partition and the row in it; it is rejected if the partitions have changed. The
    index is left out: `reset_index()` makes it a column. `cast` and `nulls` are `ParquetDataset`'s.

    Args:
        collection: A Dask DataFrame.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> import pandas as pd
    >>> import dask.dataframe as dd
    >>> frame = dd.from_pandas(pd.DataFrame({"x": [1, 2, 3]}), npartitions=2)
    >>> list(hr.Dataset.from_dask(frame))
    [{'x': np.int64(1)}, {'x': np.int64(2)}, {'x': np.int64(3)}]
    """
    if not hasattr(collection, "get_partition") or not hasattr(collection, "npartitions"):
        raise TypeError(
            f"from_dask takes a Dask DataFrame, not {type(collection).__qualname__}: to_dataframe() makes one"
        )
    if not hasattr(collection, "columns"):
        collection = collection.to_frame()
    return parts_dataset("from_dask", DaskSource(collection, Choice.of(None, None, cast, nulls)), name)


def from_ray(
    dataset: object,
    *,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a Ray dataset as dicts, block by block, in its order. It runs once, immediately, for all passes.

    A state holds the block and the row in it; it is rejected if the blocks have changed. Ray keeps them as long as the
    dataset exists, on disk if memory is short.

    Args:
        dataset: A `ray.data.Dataset`.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> def rows_of(ray_dataset):
    ...     return hr.Dataset.from_ray(ray_dataset).batch(32)
    """
    if not hasattr(dataset, "iter_internal_ref_bundles"):
        raise TypeError(f"from_ray takes a ray.data.Dataset, not {type(dataset).__qualname__}")
    return parts_dataset("from_ray", RaySource(dataset, Choice.of(None, None, cast, nulls)), name)


class EngineSource(BatchSource):
    """Partitions that another engine computes."""

    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:
        table = self.partition(part)
        if int(mark) > table.num_rows:
            raise StateError(f"{self}: partition {part} has {table.num_rows} rows, fewer than when the state was taken")
        yield from table.slice(int(mark)).to_batches()

    def partition(self, part: int) -> pa.Table:
        """Return the rows of a partition, of the types of the schema."""
        raise NotImplementedError

    def is_passing(self, error: Exception) -> bool:
        return type(error).__name__ in PASSING or super().is_passing(error)


class DaskSource(EngineSource):
    """A DataFrame of Dask's."""

    def __init__(self, frame: LibraryObject, choice: Choice) -> None:
        self.choice: Choice
        import pyarrow as pa

        self._frame, self.choice = frame, choice
        self.parts: int = frame.npartitions
        sample = driver("dask.dataframe.utils", "dask").meta_nonempty(frame._meta)
        self.schema: pa.Schema = pa.Table.from_pandas(sample, preserve_index=False).schema.remove_metadata()
        told = repr((frame.npartitions, tuple(map(str, frame.divisions)), list(frame.columns)))
        self.layout: str = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        return "Dask DataFrame"

    def partition(self, part: int) -> pa.Table:
        import pyarrow as pa

        frame = self._frame.get_partition(part).compute()
        return pa.Table.from_pandas(frame, schema=self.schema, preserve_index=False)


class RaySource(EngineSource):
    """A Ray dataset that has run; its blocks are in Ray's object store."""

    def __init__(self, dataset: LibraryObject, choice: Choice) -> None:
        self.choice = choice
        dataset.context.execution_options.preserve_order = True  # else a state would mean nothing to another run
        self._kept = dataset.materialize()
        bundles = list(self._kept.iter_internal_ref_bundles())
        self._blocks = [ref for bundle in bundles for ref in bundle.block_refs]
        if not self._blocks:
            raise ValueError("from_ray: the dataset has no rows, so its columns are unknown")
        self.parts: int = len(self._blocks)
        self.schema: pa.Schema = self._table(0).schema
        told = repr([rows for bundle in bundles for rows in _block_rows(bundle)])
        self.layout: str = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        return "Ray dataset"

    def partition(self, part: int) -> pa.Table:
        return self._table(part).cast(self.schema)

    def _table(self, part: int) -> pa.Table:
        import pyarrow as pa

        block = driver("ray", "ray").get(self._blocks[part])
        return _plain(block if isinstance(block, pa.Table) else pa.Table.from_pandas(block, preserve_index=False))


def _block_rows(bundle: LibraryObject) -> list[int]:
    """Return the rows of each block in a bundle."""
    told = [block.metadata if hasattr(block, "metadata") else block[1] for block in bundle.blocks]
    return [metadata.num_rows for metadata in told]


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with tensors as in Arrow, not Ray."""
    import pyarrow as pa

    table = table.replace_schema_metadata(None)
    for i, field in enumerate(table.schema):
        if type(field.type).__module__.startswith("ray."):
            values = np.stack(list(table.column(i).combine_chunks().to_numpy(zero_copy_only=False)))
            table = table.set_column(i, field.name, pa.FixedShapeTensorArray.from_numpy_ndarray(values))
    return table
