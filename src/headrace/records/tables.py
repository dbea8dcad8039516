"""Tables of Arrow: their types as specs, their columns as those of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.block import Column
from headrace.errors import SpecError
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure, flatten
from headrace.records import arrow

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
    try:
        return arrow.spec_of(kind)
    except SpecError as error:
        raise SpecError(f"column {name!r} {error}") from None


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

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if name in nulls:
        array = _filled(array, nulls[name])
    if arrow.missing_row(array) is not None:
        raise SpecError(f"column {name!r} has no value here; say what stands for it: nulls={{{name!r}: …}}")
    return arrow.column_of(array)


def _filled(array: pa.Array, value: Any) -> pa.Array:
    """With `value` where there is none; within lists, unless it is a list itself."""
    import pyarrow as pa

    kind = array.type
    if isinstance(value, list) or not arrow.is_nested(kind):
        return array.fill_null(pa.scalar(value, kind)) if array.null_count else array
    inner = _filled(array.flatten(), value)
    if array.null_count:
        return array
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(inner, kind.list_size)
    return pa.LargeListArray.from_arrays(pa.array(arrow.offsets_of(array)), inner)
