"""What an Arrow type is in NumPy's terms, and an Arrow array as a column of a block."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, box_text
from headrace.errors import SpecError
from headrace.plan.spec import TensorSpec
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS = 15
"""A float64 tells apart all decimal numbers of so many digits."""


def arrow_spec(kind: pa.DataType) -> TensorSpec:
    """The spec of the rows of an array of this type; SpecError where NumPy has nothing like it."""
    from pyarrow import types as t

    if _is_tensor(kind):
        sizes, order = kind.shape, kind.permutation
        return TensorSpec([sizes[i] for i in order] if order else sizes, arrow_spec(kind.value_type).dtype)
    if is_stored_as(kind):
        return arrow_spec(kind.storage_type)
    if t.is_dictionary(kind):
        return arrow_spec(kind.value_type)
    if is_text(kind):
        return TensorSpec((), str)
    if is_bytes(kind):
        return TensorSpec((), bytes)
    if t.is_boolean(kind) or t.is_integer(kind) or t.is_floating(kind):
        return TensorSpec((), kind.to_pandas_dtype())
    if t.is_date(kind):
        return TensorSpec((), "datetime64[D]" if t.is_date32(kind) else "datetime64[ms]")
    if t.is_timestamp(kind):
        return TensorSpec((), f"datetime64[{kind.unit}]")
    if t.is_duration(kind) or t.is_time(kind):
        return TensorSpec((), f"timedelta64[{kind.unit}]")
    if is_list(kind):
        inner = arrow_spec(kind.value_type)
        assert inner.shape is not None
        return TensorSpec((list_size(kind), *inner.shape), inner.dtype)
    if t.is_null(kind) or (t.is_decimal(kind) and kind.precision <= DIGITS):
        return TensorSpec((), np.float64)
    if t.is_decimal(kind):
        raise SpecError(f"is of type {kind}, which has more digits than a float64 tells apart")
    raise SpecError(f"is of type {kind}, which NumPy has nothing like")


def is_dense(kind: pa.DataType) -> bool:
    """Whether the rows are numbers or times of one shape, which an ndarray holds as Arrow does, or nearly so."""
    from pyarrow import types as t

    spec = arrow_spec(kind)
    return (
        not t.is_dictionary(kind)
        and None not in (spec.shape or ())
        and spec.dtype not in (np.dtype(str), np.dtype(bytes))
    )


def arrow_column(array: pa.Array) -> Column:
    """The array as a column, sharing memory where layouts agree; nulls, where there are any, become NaN and NaT."""
    import pyarrow as pa
    from pyarrow import types as t

    kind = array.type
    if kind.id in ids().plain:
        return array.to_numpy(zero_copy_only=False)
    if _is_tensor(kind):
        return array.to_numpy_ndarray()
    if is_stored_as(kind):
        return arrow_column(array.storage)
    if t.is_dictionary(kind):
        return arrow_column(array.dictionary_decode())
    if is_text(kind) or is_bytes(kind):
        return array.cast(pa.large_string() if is_text(kind) else pa.large_binary())
    if is_list(kind):
        made = _lists(array)
        return list(made) if isinstance(made, Ragged) and isinstance(made.values, Ragged) else made
    if t.is_decimal(kind) or t.is_null(kind):
        array = array.cast(pa.float64())
    if t.is_time(kind):
        whole = pa.int32() if t.is_time32(kind) else pa.int64()
        array = array.cast(whole).cast(pa.int64()).cast(pa.duration(kind.unit))
    return array.to_numpy(zero_copy_only=False)


def _lists(array: pa.Array) -> NDArray[Any] | Ragged:
    """Rows of several values each: as many as the type says, or ragged. The values may be lists in their turn."""
    inner = array.flatten()
    values = _lists(inner) if is_list(inner.type) else arrow_column(inner)
    if not isinstance(values, np.ndarray | Ragged):
        assert not isinstance(values, list)
        values = box_text(values)
    size = list_size(array.type)
    if size is not None and isinstance(values, np.ndarray):
        return values.reshape(len(array), size, *values.shape[1:])
    return Ragged(values, offsets_of(array) if size is None else np.arange(len(array) + 1) * size)


def offsets_of(array: pa.Array) -> NDArray[np.int64]:
    """Where each list of a flattened array begins: a null is not in it, and views need not be in order."""
    if not array.null_count and array.type.id not in ids().list_views:
        cuts: NDArray[np.int64] = array.offsets.to_numpy().astype(np.int64)
        cuts -= cuts[0]
        return cuts
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(array.value_lengths().fill_null(0).to_numpy(), out=offsets[1:])
    return offsets


def missing_row(array: pa.Array) -> int | None:
    """The first row with a null that is neither a float nor a time, which have NaN and NaT; None if there is none."""
    kind = array.type
    if kind.id == ids().dictionary and array.dictionary.null_count:
        array = array.dictionary_decode()
    listed = is_list(kind)
    if array.null_count and (listed or not _takes_nulls(arrow_spec(kind))):
        return int(array.is_null().index(True).as_py())
    row = missing_row(array.flatten()) if listed else None
    if row is None:
        return None
    size = list_size(kind)
    return row // size if size else int(np.searchsorted(offsets_of(array), row, side="right")) - 1


def _takes_nulls(spec: TensorSpec) -> bool:
    return spec.shape == () and spec.dtype is not None and spec.dtype.kind in "fmM"


class TypeNumbers(NamedTuple):
    """Types by the numbers that Arrow gives them: columns are looked at batch by batch, and names take long."""

    plain: frozenset[int]
    with_nan: frozenset[int]
    lists: frozenset[int]
    text: frozenset[int]
    bytes: frozenset[int]
    views: frozenset[int]
    list_views: frozenset[int]
    wide: frozenset[int]
    sized_list: int
    sized_bytes: int
    dictionary: int
    extension: int


@cache
def ids() -> TypeNumbers:
    """The numbers of types that are treated alike; `plain` ones are NumPy's own, and `with_nan` have NaN or NaT."""
    from pyarrow import lib

    def numbers(*names: str) -> frozenset[int]:
        return frozenset(getattr(lib, f"Type_{name}") for name in names if hasattr(lib, f"Type_{name}"))

    whole = numbers("BOOL", *(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)))
    nan = numbers("HALF_FLOAT", "FLOAT", "DOUBLE", "DATE32", "DATE64", "TIMESTAMP", "DURATION")
    return TypeNumbers(
        plain=whole | nan,
        with_nan=nan,
        lists=numbers("LIST", "LARGE_LIST", "FIXED_SIZE_LIST", "LIST_VIEW", "LARGE_LIST_VIEW"),
        text=numbers("STRING", "LARGE_STRING", "STRING_VIEW"),
        bytes=numbers("BINARY", "LARGE_BINARY", "FIXED_SIZE_BINARY", "BINARY_VIEW"),
        views=numbers("STRING_VIEW", "BINARY_VIEW"),
        list_views=numbers("LIST_VIEW", "LARGE_LIST_VIEW"),
        wide=numbers("LARGE_LIST", "LARGE_LIST_VIEW", "LARGE_STRING", "LARGE_BINARY"),
        sized_list=lib.Type_FIXED_SIZE_LIST,
        sized_bytes=lib.Type_FIXED_SIZE_BINARY,
        dictionary=lib.Type_DICTIONARY,
        extension=lib.fixed_shape_tensor(lib.int8(), [1]).id,
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether rows are lists, of one length or not."""
    return kind.id in ids().lists


def list_size(kind: pa.DataType) -> int | None:
    """How long all lists of this type are, None if they differ."""
    return int(kind.list_size) if kind.id == ids().sized_list else None


def list_of(inner: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """Lists as `kind` has them, of other values."""
    import pyarrow as pa

    size = list_size(kind)
    return pa.large_list(inner) if size is None else pa.list_(inner, size)


def _is_tensor(kind: Any) -> bool:
    import pyarrow as pa

    return isinstance(kind, pa.FixedShapeTensorType)


def is_stored_as(kind: Any) -> bool:
    """Whether the values are those of the storage, with a meaning that NumPy has no word for."""
    if kind.id != ids().extension:
        return False
    import pyarrow as pa

    kinds = tuple(getattr(pa, name) for name in ("JsonType", "UuidType") if hasattr(pa, name))
    return isinstance(kind, kinds)


def has_views(kind: pa.DataType) -> bool:
    """Whether texts or bytes lie scattered; Arrow has no way to take some of them by number."""
    return has_views(kind.value_type) if is_list(kind) else kind.id in ids().views


def is_text(kind: pa.DataType) -> bool:
    """Whether rows are strings."""
    return kind.id in ids().text


def is_bytes(kind: pa.DataType) -> bool:
    """Whether rows are bytes."""
    return kind.id in ids().bytes
