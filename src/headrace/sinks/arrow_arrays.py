"""Columns of blocks as arrays of Arrow's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Column, in_plain_kinds, values
from headrace.core.ragged import Ragged
from headrace.core.types import Array, DType, JsonValue
from headrace.formats.tables.arrow import is_list
from headrace.plan.spec import DatasetSpec, TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa


def common_schema(tables: list[pa.Table]) -> pa.Schema:
    """The schema of the first table; a column without values there gets the type of the next rows."""
    import pyarrow as pa

    schema = tables[0].schema
    for i, name in enumerate(schema.names):
        kinds = [t.schema.field(name).type for t in tables if name in t.schema.names]
        typed = (kind for kind in kinds if not pa.types.is_null(innermost(kind)))
        schema = schema.set(i, pa.field(name, next(typed, kinds[0])))
    return schema


def arrow_array(name: str, column: Column, spec: TensorSpec | DatasetSpec | None) -> pa.Array:
    """A column as Arrow has it; axes of unknown length become lists of any."""
    import pyarrow as pa

    column = in_plain_kinds(column)
    try:
        if isinstance(column, np.ndarray):
            sizes = (
                spec.shape if isinstance(spec, TensorSpec) and spec.shape is not None else (None,) * (column.ndim - 1)
            )
            return _dense(column, tuple(sizes), _value_kind(spec))
        if isinstance(column, Ragged):
            inner = spec.with_shape(spec.shape[1:]) if isinstance(spec, TensorSpec) and spec.shape else None
            return pa.LargeListArray.from_arrays(pa.array(column.offsets), arrow_array(name, column.values, inner))
        if isinstance(column, list):
            return pa.array([_plain(value) for value in values(column)], _list_kind(spec))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        if isinstance(column, np.ndarray) and column.dtype.kind != "O":
            raise lacks_dtype(name, column.dtype) from None
        raise TypeError(
            f"column {name!r} is no column of a table: {error}; map it to one dtype, or leave it out"
        ) from None
    return column


def lacks_dtype(name: str, dtype: DType) -> TypeError:
    """Return the error for a dtype that Arrow does not have."""
    remedy = "map its real and imag parts" if dtype.kind == "c" else "map it with astype(np.float32)"
    return TypeError(f"column {name!r} is of dtype {dtype}, which Arrow has nothing like: {remedy}")


def innermost(kind: pa.DataType) -> pa.DataType:
    """The type of single values within lists."""
    return innermost(kind.value_type) if is_list(kind) else kind


def _value_kind(spec: TensorSpec | DatasetSpec | None) -> pa.DataType | None:
    """The type of single values by the spec, if the values do not determine it: an array of objects may be empty."""
    import pyarrow as pa

    kind = None if spec is None or spec.dtype is None else spec.dtype.kind
    return {"U": pa.large_string(), "S": pa.large_binary()}.get(kind or "")


def _list_kind(spec: TensorSpec | DatasetSpec | None) -> pa.DataType | None:
    """The type by the spec of rows that are objects: text, in one level of lists for each axis."""
    import pyarrow as pa

    kind = _value_kind(spec)
    if kind is None or spec is None or spec.shape is None:
        return None
    for _ in spec.shape:
        kind = pa.large_list(kind)
    return kind


def _plain(value: object) -> JsonValue:
    return value.tolist() if isinstance(value, np.ndarray | np.generic | Ragged) else value


def arrow_unit(dtype: DType) -> str:
    """The unit of Arrow's that holds times of this dtype exactly; of durations, there are no days."""
    unit, step = np.datetime_data(dtype)
    if unit in ("s", "ms", "us", "ns"):
        return unit
    if unit in ("Y", "M") and dtype.kind == "m":
        raise TypeError(f"Arrow has no durations of {dtype}, whose days differ in number")
    days = dtype.kind == "M" and unit in ("D", "W", "M", "Y") and step == 1
    return "D" if days else "s" if unit in ("D", "W", "h", "m", "M", "Y") else "ns"


def _dense(array: Array, sizes: tuple[int | None, ...], kind: pa.DataType | None) -> pa.Array:
    """Lists around the innermost axis, from the inside out."""
    import pyarrow as pa

    flat = array.ravel()
    if flat.dtype.kind in "mM":
        flat = flat.astype(f"{flat.dtype.kind}8[{arrow_unit(flat.dtype)}]")
    inner = pa.array(flat, kind)
    for axis in range(array.ndim - 1, 0, -1):
        size, rows = array.shape[axis], int(np.prod(array.shape[:axis]))
        if size and axis <= len(sizes) and sizes[axis - 1] == size:
            inner = pa.FixedSizeListArray.from_arrays(inner, size)
        else:
            inner = pa.LargeListArray.from_arrays(pa.array(np.arange(rows + 1) * size), inner)
    return inner
