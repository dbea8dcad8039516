"""Tables of Arrow: their types as specs, their columns as those of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.block import Column
from headrace.errors import SpecError
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure, flatten
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa

Nulls = Mapping[str, Any]
"""What stands for a missing value, column by column."""


def spec_of(schema: pa.Schema) -> Spec:
    """What the rows of a table look like: dicts, nested where a column is a struct."""
    tree = {field.name: _tree(field.name, field.type) for field in schema}
    structure, leaves = flatten(tree)
    return Spec(structure, tuple(leaves))


def _tree(name: str, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return {field.name: _tree(f"{name}.{field.name}", field.type) for field in kind}
    return _leaf_spec(name, kind)


def _leaf_spec(name: str, kind: pa.DataType) -> TensorSpec:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _leaf_spec(name, kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return TensorSpec((), np.str_)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return TensorSpec((), np.bytes_)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return TensorSpec((None,), _leaf_spec(name, kind.value_type).dtype)
    if pa.types.is_fixed_size_list(kind):
        return TensorSpec((kind.list_size,), _leaf_spec(name, kind.value_type).dtype)
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        dtype = np.dtype(object)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        dtype = np.dtype("datetime64[D]" if pa.types.is_date(kind) else f"datetime64[{kind.unit}]")
    if dtype.kind == "O":
        raise SpecError(f"column {name!r} is of Arrow's type {kind}, which is not read; leave it out with columns=")
    return TensorSpec((), dtype)


def rows_of(table: pa.Table | pa.RecordBatch, structure: Structure, nulls: Nulls) -> list[Column]:
    """The columns of a table, in the order of the structure's leaves. Raises SpecError where a value is missing."""
    made = dict(_columns("", table.schema, [table.column(i) for i in range(table.num_columns)], nulls))
    return [made[path] for path in leaf_paths(structure)]


def leaf_paths(structure: Structure, prefix: str = "") -> Iterator[str]:
    """The dotted names of the leaves of nested dicts."""
    if structure.kind is None:
        yield prefix
    for key, child in zip(structure.keys, structure.children, strict=True):
        yield from leaf_paths(child, f"{prefix}.{key}" if prefix else str(key))


def _columns(prefix: str, fields: Any, arrays: list[Any], nulls: Nulls) -> Iterator[tuple[str, Column]]:
    import pyarrow as pa

    for field, array in zip(fields, arrays, strict=True):
        name = f"{prefix}.{field.name}" if prefix else field.name
        whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if isinstance(whole, pa.ChunkedArray):  # of no chunks at all
            whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
        if pa.types.is_struct(field.type):
            yield from _columns(name, field.type, whole.flatten(), nulls)
        else:
            yield name, _column(name, whole, nulls)


def _column(name: str, array: pa.Array, nulls: Nulls) -> Column:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):
        return _column(name, array.dictionary_decode(), nulls)
    if array.null_count:
        array = _filled(name, array, nulls)
    spec = _leaf_spec(name, kind)
    if spec.dtype == np.str_:
        return array.cast(pa.large_string()) if spec.shape == () else _lists(name, array, nulls)
    if spec.dtype == np.bytes_:
        return array.cast(pa.large_binary()) if spec.shape == () else _lists(name, array, nulls)
    if spec.shape != ():
        return _lists(name, array, nulls)
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(spec.dtype, copy=False)


def _lists(name: str, array: pa.Array, nulls: Nulls) -> Column:
    import pyarrow as pa

    values = _column(name, array.flatten(), nulls)
    if not isinstance(values, np.ndarray):
        return [np.array(row, dtype=object) for row in array.to_pylist()]
    if pa.types.is_fixed_size_list(array.type):
        return values.reshape(len(array), array.type.list_size)
    offsets = np.asarray(array.offsets)
    return Ragged(values, offsets - offsets[0])


def _filled(name: str, array: pa.Array, nulls: Nulls) -> pa.Array:
    import pyarrow as pa

    if name in nulls:
        return array.fill_null(pa.scalar(nulls[name], array.type))
    if pa.types.is_floating(array.type):
        return array.fill_null(float("nan"))
    raise SpecError(f"column {name!r} has no value here; say what stands for it: nulls={{{name!r}: …}}")
