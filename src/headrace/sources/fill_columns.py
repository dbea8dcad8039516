"""What stands for missing values in the columns of a table that is in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import SpecError, what_there_is
from headrace.formats.tables.arrow import decoded, is_encoded
from headrace.formats.tables.tables import fill_missing

if TYPE_CHECKING:
    import pyarrow as pa


def check_fillers(origin: str, nulls: Mapping[Any, object] | None, keys: Sequence[object]) -> None:
    """Raise SpecError if `nulls` names a column that does not exist."""
    for key in nulls or {}:
        if key not in keys:
            known = what_there_is(str(key), [str(each) for each in keys])
            raise SpecError(f"{origin}: nulls= names {key!r}, and there is no such column: {known}")


def fill_columns(origin: str, table: pa.Table, keys: Sequence[object], nulls: Mapping[Any, object] | None) -> pa.Table:
    """Return the table with its nulls replaced, in the columns that `nulls` names."""
    import pyarrow as pa

    check_fillers(origin, nulls, keys)
    for i, key in enumerate(keys if nulls else ()):
        if key not in (nulls or {}):
            continue
        value, column = (nulls or {})[key], table.column(i)
        kind = pa.scalar(value).type if pa.types.is_null(column.type) else None
        try:
            filled = [_fill_array(each if kind is None else each.cast(kind), value) for each in column.chunks]
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise SpecError(f"{origin}: nulls={{{key!r}: {value!r}}} is no value of {column.type}") from None
        made = pa.chunked_array(filled, column.type if kind is None and not filled else kind)
        table = table.set_column(i, table.schema.field(i).name, made)
    return table


def _fill_array(array: pa.Array, value: object) -> pa.Array:
    return fill_missing(decoded(array) if is_encoded(array.type) else array, value)
