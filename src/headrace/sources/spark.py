"""DataFrames of Spark, partition by partition, as Arrow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.types import LibraryObject, Nested
from headrace.formats.tables.choice import Choice
from headrace.sources.engines import EngineSource
from headrace.sources.parts import parts_dataset

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset


def from_spark(
    frame: object,
    *,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a Spark DataFrame as dicts, one partition at a time, made by Spark's executors as Arrow batches.

    A state holds the partition and the row in it; it is rejected if the partitions have changed. You must make sure
    that Spark gives a partition the same rows each time, as it does for files and for `cache()`d frames. Spark Connect
    has no partitions, so all rows come as one. `cast` and `nulls` are `ParquetDataset`'s.

    Args:
        frame: A data frame or a series.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> def rows_of(spark_frame):
    ...     return hr.Dataset.from_spark(spark_frame, nulls={"age": -1}).batch(32)
    """
    if not hasattr(frame, "mapInArrow") or not hasattr(frame, "toArrow"):
        raise TypeError(
            f"from_spark takes a pyspark.sql.DataFrame of pyspark 4 or later, not {type(frame).__qualname__}"
        )
    return parts_dataset("from_spark", SparkSource(frame, Choice.of(None, None, cast, nulls)), name)


class SparkSource(EngineSource):
    """A DataFrame of Spark's."""

    def __init__(self, frame: LibraryObject, choice: Choice) -> None:
        self._frame = frame
        self.choice: Choice = choice
        self.schema: pa.Schema = frame.limit(0).toArrow().schema.remove_metadata()
        self._rows = _rows_of_partitions(frame)
        self.parts: int = 1 if self._rows is None else self._rows.getNumPartitions()
        told = repr((self.parts, frame.columns))
        self.layout: str = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        return "Spark DataFrame"

    def partition(self, part: int) -> pa.Table:
        import pyarrow as pa

        if self._rows is None:
            return self._frame.toArrow().cast(self.schema)
        found = self._rows.context.runJob(self._rows, list, [part])
        return pa.concat_tables([self.schema.empty_table(), *(_table(bytes(row[0])) for row in found)]).cast(
            self.schema
        )


def _rows_of_partitions(frame: LibraryObject) -> LibraryObject:
    """Return an RDD with the Arrow data of each partition as rows of bytes; None if Spark has none."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        return None
    return frame.mapInArrow(_packing(), "data binary").rdd


def _packing() -> Callable[[Iterator[Nested]], Iterator[Nested]]:
    """Return the function that executors run: defined here, so that it is pickled by value and they need no
    headrace.
    """

    def pack(batches: Iterator[Nested]) -> Iterator[Nested]:
        import pyarrow as pa

        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["data"])

    return pack


def _table(data: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()
