"""Split structs, lists of structs and maps: one array per field, with the lists around it.

A list of structs becomes a list for each field, all of the same lengths; a map is a list of keys and values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.kind import Column
from headrace.formats.tables.arrow import decoded, ids, is_encoded, is_list, list_of, list_size, offsets_of

if TYPE_CHECKING:
    import pyarrow as pa

KEY, VALUE = "key", "value"


def arrow_fields(kind: pa.DataType) -> list[tuple[str, pa.DataType]] | None:
    """Return the fields of rows of this type by name, or None if rows have no fields."""
    known = ids()
    if kind.id in known.plain or kind.id in known.text or kind.id in known.bytes:
        return None
    from pyarrow import types as t

    if t.is_struct(kind):
        return [(field.name, field.type) for field in kind]
    if t.is_map(kind):
        return arrow_fields(_as_pairs(kind))
    if is_encoded(kind):
        return arrow_fields(kind.value_type)
    inner = arrow_fields(kind.value_type) if is_list(kind) else None
    return None if inner is None else [(name, list_of(each, kind)) for name, each in inner]


def field_arrays(array: pa.Array) -> list[pa.Array]:
    """Return an array for each of `arrow_fields` its type; of a null, every field is null."""
    import pyarrow as pa
    from pyarrow import types as t

    kind = array.type
    if t.is_struct(kind):
        arrays: list[pa.Array] = array.flatten()
        return arrays
    if is_encoded(kind):
        return field_arrays(decoded(array))
    if t.is_map(kind):
        pairs = pa.StructArray.from_arrays([array.keys, array.items], [KEY, VALUE])
        offsets = pa.array(np.array(array.offsets))
        return field_arrays(pa.ListArray.from_arrays(offsets, pairs, mask=_nulls(array)))
    size = list_size(kind)
    if size is not None:  # a null has values all the same
        values = array.values.slice(array.offset * size, len(array) * size)
        return [pa.FixedSizeListArray.from_arrays(each, size, mask=_nulls(array)) for each in field_arrays(values)]
    offsets = pa.array(offsets_of(array))
    inner = field_arrays(array.flatten())
    return [pa.LargeListArray.from_arrays(offsets, each, mask=_nulls(array)) for each in inner]


def _as_pairs(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.struct([pa.field(KEY, kind.key_type), pa.field(VALUE, kind.item_type)]))


def _nulls(array: pa.Array) -> Column:
    return array.is_null() if array.null_count else None
