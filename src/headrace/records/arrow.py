"""What an Arrow type is in NumPy's terms, and an Arrow array as a column of a block."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.block import Column
from headrace.errors import SpecError
from headrace.plan.spec import TensorSpec
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa


def spec_of(kind: pa.DataType) -> TensorSpec:
    """The spec of the rows of an array of this type; SpecError with a remedy where NumPy has nothing like it."""
    from pyarrow import types as t

    if _is_tensor(kind):
        sizes, order = kind.shape, kind.permutation
        return TensorSpec([sizes[i] for i in order] if order else sizes, spec_of(kind.value_type).dtype)
    if hasattr(kind, "value_type") and is_view(kind.value_type):
        raise SpecError(f"is of type {kind}, of which Arrow can take no rows: cast its values to large_string")
    if t.is_dictionary(kind):
        return spec_of(kind.value_type)
    if _is_text(kind):
        return TensorSpec((), str)
    if _is_bytes(kind):
        return TensorSpec((), bytes)
    if t.is_boolean(kind) or t.is_integer(kind) or t.is_floating(kind):
        return TensorSpec((), kind.to_pandas_dtype())
    if t.is_date(kind):
        return TensorSpec((), "datetime64[D]" if t.is_date32(kind) else "datetime64[ms]")
    if t.is_timestamp(kind):
        return TensorSpec((), f"datetime64[{kind.unit}]")
    if t.is_duration(kind) or t.is_time(kind):
        return TensorSpec((), f"timedelta64[{kind.unit}]")
    if is_nested(kind):
        return _list_spec(kind)
    remedy = "cast it to float64" if t.is_decimal(kind) else "cast it to another type or leave it out"
    raise SpecError(f"is of type {kind}, which NumPy has nothing like: {remedy}")


def _list_spec(kind: pa.DataType) -> TensorSpec:
    inner = spec_of(kind.value_type)
    assert inner.shape is not None
    if None in inner.shape and (None in inner.shape[1:] or inner.dtype is None or inner.dtype.kind in "US"):
        raise SpecError(f"is of type {kind}: such lists of lists are too deep, so flatten them or leave the column out")
    return TensorSpec((None if _is_list(kind) else kind.list_size, *inner.shape), inner.dtype)


def is_dense(kind: pa.DataType) -> bool:
    """Whether the rows are numbers or times of one shape, which an ndarray holds as Arrow does, or nearly so."""
    from pyarrow import types as t

    spec = spec_of(kind)
    return (
        not t.is_dictionary(kind)
        and None not in (spec.shape or ())
        and spec.dtype not in (np.dtype(str), np.dtype(bytes))
    )


def column_of(array: pa.Array) -> Column:
    """The array as a column, sharing memory where layouts agree; nulls, where there are any, become NaN and NaT."""
    import pyarrow as pa
    from pyarrow import types as t

    kind = array.type
    if _is_tensor(kind):
        return array.to_numpy_ndarray()
    if t.is_dictionary(kind):
        return column_of(array.dictionary_decode())
    if _is_text(kind) or _is_bytes(kind):
        return array.cast(pa.large_string() if _is_text(kind) else pa.large_binary())
    if t.is_time(kind):
        whole = pa.int32() if t.is_time32(kind) else pa.int64()
        array = array.cast(whole).cast(pa.int64()).cast(pa.duration(kind.unit))
    if t.is_fixed_size_list(kind):
        return _grouped(column_of(array.flatten()), np.arange(len(array) + 1) * kind.list_size, kind.list_size)
    if _is_list(kind):
        return _grouped(column_of(array.flatten()), offsets_of(array), None)
    return array.to_numpy(zero_copy_only=False)


def offsets_of(array: pa.Array) -> NDArray[np.int64]:
    """Where each list of a flattened array begins; a list view's own offsets need not be in order."""
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(array.value_lengths().to_numpy(), out=offsets[1:])
    return offsets


def _grouped(values: Column, offsets: NDArray[np.int64], size: int | None) -> Column:
    """Rows of several values each: `size` of them, or as many as lie between the offsets."""
    if isinstance(values, Ragged):
        return [values[a:b] for a, b in pairwise(offsets.tolist())]
    if not isinstance(values, np.ndarray):
        values = np.array(list(values) if isinstance(values, list) else values.to_pylist(), dtype=object)
    return Ragged(values, offsets) if size is None else values.reshape(len(offsets) - 1, size, *values.shape[1:])


def missing_row(array: pa.Array) -> int | None:
    """The first row with a null that is neither a float nor a time, which have NaN and NaT; None if there is none."""
    from pyarrow import types as t

    kind = array.type
    if t.is_dictionary(kind) and array.dictionary.null_count:
        array = array.dictionary_decode()
    sized, nested = t.is_fixed_size_list(kind), is_nested(kind)
    if array.null_count and (nested or not _takes_nulls(spec_of(kind))):
        return int(array.is_null().index(True).as_py())
    row = missing_row(array.flatten()) if nested else None
    if row is None:
        return None
    return row // kind.list_size if sized else int(np.searchsorted(offsets_of(array), row, side="right")) - 1


def _takes_nulls(spec: TensorSpec) -> bool:
    return spec.shape == () and spec.dtype is not None and spec.dtype.kind in "fmM"


def is_nested(kind: pa.DataType) -> bool:
    """Whether rows are lists, of one length or not."""
    from pyarrow import types as t

    return bool(t.is_fixed_size_list(kind) or _is_list(kind))


def _is_tensor(kind: Any) -> bool:
    import pyarrow as pa

    return isinstance(kind, pa.FixedShapeTensorType)


def is_view(kind: pa.DataType) -> bool:
    """Whether texts or bytes lie scattered; Arrow has no way to take some of them by number."""
    from pyarrow import types as t

    return bool(t.is_string_view(kind) or t.is_binary_view(kind))


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types as t

    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    from pyarrow import types as t

    sized = t.is_fixed_size_binary(kind)
    return bool(sized or t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    from pyarrow import types as t

    views = t.is_list_view(kind) or t.is_large_list_view(kind)
    return bool(views or t.is_list(kind) or t.is_large_list(kind))
