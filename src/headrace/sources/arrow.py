"""Arrow tables, and anything else with Arrow's data interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.types import Component
from headrace.errors import SpecError
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.sources.arrow_dataset import from_arrow_dataset
from headrace.sources.fill_columns import fill_columns
from headrace.sources.table import table_node

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset


def from_arrow(data: object, *, nulls: Mapping[str, object] | None = None, name: str | None = None) -> Dataset:
    """Return a dataset of the rows of a pyarrow Table as dicts, without copying where possible.

    Text is `str`, binary `bytes`; fixed-size lists and tensors are arrays of one shape, other lists arrays of various
    lengths; structs are dicts; times are `datetime64` (of UTC, where there is a zone) and `timedelta64`; categories
    and runs are decoded; an extension type that stores lists is read as these. A null is NaN among floats and NaT
    among times. Anywhere else it is an error here and now. docs/tables.md has a table of all types.

    Args:
        data: A Table, a RecordBatch, a RecordBatchReader (read to its end at once), anything with Arrow's data
            interface (`__arrow_c_stream__`), a list of such, an Array, whose values are the elements, or a
            `pyarrow.dataset.Dataset`, whose files are read as a pass needs them.
        nulls: Values that replace nulls, by the name of the column.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset of dicts, or of the values of an Array.

    Raises:
        SpecError: NumPy has no type like that of a column, or a value is missing.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1.5, None], "name": ["a", "b"], "tags": [[1, 2], [3]]})
    >>> for row in hr.Dataset.from_arrow(table):
    ...     print(row)
    {'x': np.float64(1.5), 'name': 'a', 'tags': array([1, 2])}
    {'x': np.float64(nan), 'name': 'b', 'tags': array([3])}
    """
    import pyarrow as pa

    if type(data).__module__.startswith("pyarrow._dataset"):
        return from_arrow_dataset(data, nulls, name)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        if nulls:
            raise TypeError("from_arrow: nulls= names columns of a table; array.fill_null(value) fills an Array")
        return dataset_of(table_node("from_arrow", pa.table({"": data}), None, site=user_site(), name=name))
    table = _join_batches(data) if isinstance(data, list | tuple) else _table(data)
    table = fill_columns("from_arrow", table, table.column_names, nulls)
    return dataset_of(table_node("from_arrow", table, table.column_names, site=user_site(), name=name))


def _table(data: object) -> pa.Table:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return pa.table(data)
    raise TypeError(f"from_arrow takes a pyarrow Table, RecordBatch or reader, or a list of them, not {_kind(data)}")


def _join_batches(items: list[Component] | tuple[object, ...]) -> pa.Table:
    import pyarrow as pa

    if not items:
        raise ValueError("from_arrow: an empty list does not determine the columns; give at least one table")
    tables = [_table(item) for item in items]
    for i, table in enumerate(tables):
        if not table.schema.equals(tables[0].schema):
            raise SpecError(
                f"from_arrow: item {i} of the list has other columns than the first: "
                f"{_columns(table)} against {_columns(tables[0])}"
            )
    return pa.concat_tables(tables)


def _columns(table: pa.Table) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in table.schema) or "none"


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
