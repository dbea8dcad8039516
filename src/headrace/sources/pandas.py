"""Pandas data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.types import LibraryObject
from headrace.errors import SpecError
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.sources.fill_columns import check_fillers, fill_columns
from headrace.sources.table import table_node

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from headrace.dataset import Dataset


def from_pandas(
    frame: pd.DataFrame | pd.Series, *, nulls: Mapping[Any, object] | None = None, name: str | None = None
) -> Dataset:
    """Return a dataset of the rows of a pandas DataFrame as dicts, or of the values of a Series.

    The index is left out: `frame.reset_index()` makes columns of it. Numbers are not copied. Objects are taken for
    what they all are: text, bytes, numbers, dates, dicts, lists or arrays of one axis. `from_arrow` says what becomes
    of each type and of missing values: NaN and NaT stay, any other is an error here and now.

    Args:
        frame: The DataFrame or Series.
        nulls: Values that replace missing ones, by the label of the column. NaN and NaT count as missing there.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset of dicts, or of the values of a Series.

    Raises:
        SpecError: NumPy has no type like that of a column, or a value is missing.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1.5, 2.5], "kind": pd.Categorical(["a", "b"])}, index=[7, 8])
    >>> list(hr.Dataset.from_pandas(frame))
    [{'x': np.float64(1.5), 'kind': 'a'}, {'x': np.float64(2.5), 'kind': 'b'}]
    >>> gaps = pd.DataFrame({"age": [31, None], "city": ["Bern", None]})
    >>> list(hr.Dataset.from_pandas(gaps, nulls={"age": -1, "city": ""}))
    [{'age': np.float64(31.0), 'city': 'Bern'}, {'age': np.float64(-1.0), 'city': ''}]
    """
    import pyarrow as pa

    single = not hasattr(frame, "columns")
    if not hasattr(frame, "iloc"):
        raise TypeError(f"from_pandas takes a pandas DataFrame or Series, not {type(frame).__qualname__}")
    if single:
        if nulls:
            raise TypeError("from_pandas: nulls= names columns of a DataFrame; series.fillna(value) fills a Series")
        keys, arrays = None, [_arrow("the series", frame)]
    else:
        whole: LibraryObject = frame
        keys = whole.columns.tolist()
        check_fillers("from_pandas", nulls, keys)
        arrays = [
            _arrow(f"column {key!r}", whole.iloc[:, i], missing_nan=key in (nulls or {})) for i, key in enumerate(keys)
        ]
    table = pa.table(arrays, [str(i) for i in range(len(arrays))])
    if keys is not None:
        table = fill_columns("from_pandas", table, keys, nulls)
    return dataset_of(table_node("from_pandas", table, keys, site=user_site(), name=name))


def _arrow(called: str, series: LibraryObject, *, missing_nan: bool = False) -> pa.Array | pa.ChunkedArray:
    """The values of a series; NaN in NumPy's own floats is a number like any other, among objects it is a null.

    With `missing_nan` it is a null there too, for callers that replace nulls.
    """
    import numpy as np
    import pyarrow as pa

    try:
        if isinstance(series.dtype, np.dtype) and series.dtype != object:
            return pa.array(series.to_numpy(), from_pandas=missing_nan)
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SpecError(
            f"from_pandas: {called} of dtype {series.dtype} cannot be a column of one type ({error}): "
            "convert it with astype, or leave it out"
        ) from None
