"""The elements as Arrow record batches, for everything that reads those: pyarrow, pandas, polars, DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.columns.block import Block
from headrace.ops.shared.arguments import positive
from headrace.ops.take import Take
from headrace.plan.capabilities import require_end
from headrace.sinks.arrow_schema import ArrowColumns, schema_of
from headrace.sinks.deal import SAMPLED_ROWS, FirstRows, cut_runs
from headrace.sources.sql.database import driver

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from headrace.dataset import Dataset

BATCH_BYTES = 4 << 20
"""The approximate size of a record batch, which is what a reader holds at a time."""


def arrow_c_stream(self: Dataset, requested_schema: object = None) -> object:
    """Export the elements of one pass as an Arrow C stream, which reads them as its consumer asks for batches.

    >>> import pyarrow as pa
    >>> ds = hr.Dataset.range(4).map(lambda x: {"x": x, "square": x * x})
    >>> pa.table(ds).column_names
    ['x', 'square']
    """
    return record_batch_reader(self).__arrow_c_stream__(requested_schema)


def to_arrow(self: Dataset, *, max_rows: int | None = None) -> pa.Table:
    """Read the elements into a pyarrow Table, one row each.

    `pa.RecordBatchReader.from_stream(ds)`, and whatever else takes an object with `__arrow_c_stream__`, reads them in
    batches of about 4 MB instead: DuckDB's `from ds` does, and `pa.table(ds)` and `pl.from_arrow(ds)` collect them.

    Args:
        max_rows: Take at most this many elements; None for all.

    Returns:
        A table. Components of dicts are columns, of nested dicts `outer/inner`, of tuples `0`, `1` and so on; an
        element that is a single component is in the column `value`. An array is a list, of a fixed size where
        `element_spec` tells it.

    Raises:
        TypeError: A component is of a type that Arrow has nothing like.
        ValueError: The dataset has no end, and `max_rows` is not given.

    >>> ds = hr.Dataset.range(4).map(lambda x: {"x": x, "name": str(x)})
    >>> ds.to_arrow(max_rows=2).to_pylist()
    [{'x': 0, 'name': '0'}, {'x': 1, 'name': '1'}]
    """
    limited = self if max_rows is None else self._then(Take, positive("max_rows", max_rows))
    require_end(limited._node, "a table")
    return record_batch_reader(limited).read_all()


def to_pandas(self: Dataset, *, max_rows: int | None = None) -> pd.DataFrame:
    """Read the elements into a pandas DataFrame, one row each.

    Args:
        max_rows: Take at most this many elements; None for all.

    Returns:
        A DataFrame with the columns of `to_arrow`.

    Raises:
        TypeError: A component is of a type that Arrow has nothing like.
        ValueError: The dataset has no end, and `max_rows` is not given.

    >>> hr.Dataset.range(3).map(lambda x: {"x": x, "half": x / 2}).to_pandas()
       x  half
    0  0   0.0
    1  1   0.5
    2  2   1.0
    """
    driver("pandas", "pandas")
    return to_arrow(self, max_rows=max_rows).to_pandas()


def to_polars(self: Dataset, *, max_rows: int | None = None) -> pl.DataFrame:
    """Read the elements into a polars DataFrame, one row each.

    Args:
        max_rows: Take at most this many elements; None for all.

    Returns:
        A DataFrame with the columns of `to_arrow`.

    Raises:
        TypeError: A component is of a type that Arrow has nothing like.
        ValueError: The dataset has no end, and `max_rows` is not given.

    >>> hr.Dataset.range(3).map(lambda x: {"x": x}).to_polars()["x"].to_list()
    [0, 1, 2]
    """
    frame: pl.DataFrame = driver("polars", "polars").from_arrow(to_arrow(self, max_rows=max_rows))
    return frame


def record_batch_reader(ds: Dataset) -> pa.RecordBatchReader:
    """The elements of one pass as batches. The pass begins with the first batch, unless only rows tell the columns.

    An error of an element ends the stream; the batches before it hold the elements before it.
    """
    import pyarrow as pa

    spec = ds._node.spec
    schema = schema_of(spec)
    if schema is not None:
        columns = ArrowColumns(spec, schema)
        return pa.RecordBatchReader.from_batches(columns.schema, _batches(ds, columns))
    rows = _blocks(ds)
    first = FirstRows(rows)
    columns = ArrowColumns.of_rows(spec, first.peek(SAMPLED_ROWS))
    return pa.RecordBatchReader.from_batches(columns.schema, _encoded(iter(first), columns))


def _batches(ds: Dataset, columns: ArrowColumns) -> Iterator[pa.RecordBatch]:
    yield from _encoded(_blocks(ds), columns)


def _blocks(ds: Dataset) -> Iterator[Block]:
    with ds.iterator() as it:
        yield from it.blocks()


def _encoded(blocks: Iterator[Block], columns: ArrowColumns) -> Iterator[pa.RecordBatch]:
    for run in cut_runs(blocks, BATCH_BYTES):
        yield from columns.table(run).to_batches()
