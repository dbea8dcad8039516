"""Polars data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.plan.node import user_site
from headrace.sources.table import table_node

if TYPE_CHECKING:
    import polars as pl

    from headrace.dataset import Dataset


def from_polars(frame: pl.DataFrame | pl.Series, *, name: str | None = None) -> Dataset:
    """A dataset of the rows of a polars DataFrame, as dicts of columns, or of the values of a Series.

    Columns are those of `from_arrow`, which says what becomes of each type and of nulls; numbers are not copied.

    >>> import polars as pl
    >>> list(hr.Dataset.from_polars(pl.DataFrame({"x": [1, 2], "y": ["a", "b"]})))
    [{'x': np.int64(1), 'y': 'a'}, {'x': np.int64(2), 'y': 'b'}]
    """
    from headrace.dataset import Dataset

    if hasattr(frame, "collect"):
        raise TypeError("from_polars takes rows that exist, not the plan of a LazyFrame: pass frame.collect()")
    single = hasattr(frame, "to_frame")
    if not single and not hasattr(frame, "to_arrow"):
        raise TypeError(f"from_polars takes a polars DataFrame or Series, not {type(frame).__qualname__}")
    table: Any = (frame.to_frame() if single else frame).to_arrow()
    keys = None if single else table.column_names
    return Dataset(table_node("from_polars", table, keys, site=user_site(), name=name))
