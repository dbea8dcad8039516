"""Polars data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.types import LibraryObject
from headrace.errors import SpecError
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.sources.fill_columns import fill_columns
from headrace.sources.table import table_node

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from headrace.dataset import Dataset


def from_polars(
    frame: pl.DataFrame | pl.Series, *, nulls: Mapping[str, object] | None = None, name: str | None = None
) -> Dataset:
    """Return a dataset of the rows of a polars DataFrame as dicts, or of the values of a Series.

    Columns are those of `from_arrow`, which says what becomes of each type and of nulls; numbers are not copied.

    Args:
        frame: A data frame or a series.
        nulls: A value for the nulls of each of these columns; without one, a null is an error.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> import polars as pl
    >>> list(hr.Dataset.from_polars(pl.DataFrame({"x": [1, 2], "y": ["a", "b"]})))
    [{'x': np.int64(1), 'y': 'a'}, {'x': np.int64(2), 'y': 'b'}]
    """
    if hasattr(frame, "collect"):
        raise TypeError("from_polars takes rows that exist, not the plan of a LazyFrame: pass frame.collect()")
    single = hasattr(frame, "to_frame")
    if not single and not hasattr(frame, "to_arrow"):
        raise TypeError(f"from_polars takes a polars DataFrame or Series, not {type(frame).__qualname__}")
    whole: LibraryObject = frame.to_frame() if single else frame
    table = _arrow(whole)
    keys = None if single else table.column_names
    if nulls:
        if keys is None:
            raise TypeError("from_polars: nulls= names columns of a DataFrame; series.fill_null(value) fills a Series")
        table = fill_columns("from_polars", table, keys, nulls)
    return dataset_of(table_node("from_polars", table, keys, site=user_site(), name=name))


def _arrow(frame: pl.DataFrame) -> pa.Table:
    import pyarrow as pa

    for column, kind in frame.schema.items():
        said = (
            f"from_polars: column {column!r} is of type {kind}, which Arrow has nothing like: cast it or leave it out"
        )
        if "Object" in str(kind):  # polars would hand out the objects' addresses
            raise SpecError(said)
        try:
            frame[:0].select(column).to_arrow()
        except pa.ArrowException as error:
            raise SpecError(said) from error
    return frame.to_arrow()
