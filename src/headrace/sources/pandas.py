"""Pandas data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.errors import SpecError
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.sources.table import table_node

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from headrace.dataset import Dataset


def from_pandas(frame: pd.DataFrame | pd.Series, *, name: str | None = None) -> Dataset:
    """A dataset of the rows of a pandas DataFrame, as dicts of columns, or of the values of a Series.

    The index is left out: `frame.reset_index()` makes columns of it. Numbers are not copied. Objects are taken for
    what they all are: text, bytes, numbers, dates, dicts, lists or arrays of one axis. `from_arrow` says what becomes
    of each type and of missing values: NaN and NaT stay, any other is an error here and now, so `fillna` first.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1.5, 2.5], "kind": pd.Categorical(["a", "b"])}, index=[7, 8])
    >>> list(hr.Dataset.from_pandas(frame))
    [{'x': np.float64(1.5), 'kind': 'a'}, {'x': np.float64(2.5), 'kind': 'b'}]
    """
    import pyarrow as pa

    single = not hasattr(frame, "columns")
    if not hasattr(frame, "iloc"):
        raise TypeError(f"from_pandas takes a pandas DataFrame or Series, not {type(frame).__qualname__}")
    if single:
        keys, arrays = None, [_arrow("the series", frame)]
    else:
        whole: Any = frame
        keys = whole.columns.tolist()
        arrays = [_arrow(f"column {key!r}", whole.iloc[:, i]) for i, key in enumerate(keys)]
    table = pa.table(arrays, [str(i) for i in range(len(arrays))])
    return dataset_of(table_node("from_pandas", table, keys, site=user_site(), name=name))


def _arrow(called: str, series: Any) -> pa.Array | pa.ChunkedArray:
    """The values of a series; NaN in NumPy's own floats is a number like any other, among objects it is a null."""
    import numpy as np
    import pyarrow as pa

    try:
        if isinstance(series.dtype, np.dtype) and series.dtype != object:
            return pa.array(series.to_numpy())
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SpecError(
            f"from_pandas: {called} of dtype {series.dtype} cannot be a column of one type ({error}): "
            "convert it with astype, or leave it out"
        ) from None
