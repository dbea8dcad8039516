"""Map Arrow types to NumPy's, and Arrow arrays to columns of a block."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column, box_text
from headrace.core.ragged import Ragged
from headrace.core.types import Array
from headrace.errors import SpecError
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

FLOAT64_DIGITS = 15
"""A float64 distinguishes all decimal numbers of this many digits."""


def arrow_spec(kind: pa.DataType) -> TensorSpec:
    """Return the spec of the rows of an array of this type. Raise SpecError if NumPy has no such type."""
    from pyarrow import types as t

    if _is_tensor(kind):
        sizes, order = kind.shape, kind.permutation
        return TensorSpec([sizes[i] for i in order] if order else sizes, arrow_spec(kind.value_type).dtype)
    if is_stored_as(kind):
        return arrow_spec(kind.storage_type)
    if is_encoded(kind):
        return arrow_spec(kind.value_type)
    if is_text(kind) or is_bytes(kind):
        return TensorSpec((), str if is_text(kind) else bytes)
    if t.is_boolean(kind) or t.is_integer(kind) or t.is_floating(kind) or is_bool8(kind):
        return TensorSpec((), bool if is_bool8(kind) else kind.to_pandas_dtype())
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
    if t.is_null(kind) or (t.is_decimal(kind) and kind.precision <= FLOAT64_DIGITS):
        return TensorSpec((), np.float64)
    if t.is_decimal(kind):
        raise SpecError(
            f"is of type {kind}, which has more digits than a float64 tells apart "
            "(pyarrow.compute.cast to pa.float64() takes the nearest, to pa.string() keeps every digit)"
        )
    raise SpecError(f"is of type {kind}, which NumPy does not support")


def is_dense(kind: pa.DataType) -> bool:
    """Return whether the rows are numbers or times of one shape, which an ndarray holds as Arrow does, or nearly so."""
    from pyarrow import types as t

    spec = arrow_spec(kind)
    return (
        not t.is_dictionary(kind)
        and None not in (spec.shape or ())
        and spec.dtype not in (np.dtype(str), np.dtype(bytes))
    )


def numbers_of(batch: pa.RecordBatch, *, decoded: bool = False) -> list[Array | None]:
    """Return the columns of numbers without nulls, which share memory with the batch, and None for each other column.

    If a buffer is too short, all are None: `check_layout` names the column. A table may have hundreds of columns, and
    this takes no call for each, nor releases the GIL for each, as `validate` and `to_numpy` do.

    A `decoded` batch has been written by a decoder. Others may begin before their buffers: Arrow does not check that,
    and looking at each column takes longer than the rest of this.
    """
    try:
        batch.validate()
        sound = decoded or min((column.offset for column in batch.columns), default=0) >= 0
    except ValueError:
        sound = False
    if not sound:
        return [None] * batch.num_columns
    return _native.arrow_numbers(*batch.__arrow_c_array__())


def arrow_column(array: pa.Array) -> Column:
    """Return the array as a column, sharing memory if the layouts agree. Nulls become NaN and NaT."""
    import pyarrow as pa
    from pyarrow import types as t

    kind = array.type
    if kind.id in ids().plain:
        return array.to_numpy(zero_copy_only=False)
    if _is_tensor(kind):
        return array.to_numpy_ndarray()
    if is_stored_as(kind):
        return arrow_column(array.storage)
    if is_encoded(kind):
        return arrow_column(decoded(array))
    if is_bool8(kind):
        return array.storage.to_numpy(zero_copy_only=False).astype(bool)
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


def _lists(array: pa.Array) -> Array | Ragged:
    """Return rows of several values each: fixed-size or ragged. The values may be lists themselves."""
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
    """Return the offset of each list in the flattened array, which omits nulls; views need not be in order."""
    if not array.null_count and array.type.id not in ids().list_views:
        cuts: NDArray[np.int64] = array.offsets.to_numpy().astype(np.int64)
        cuts -= cuts[0]
        return cuts
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(array.value_lengths().fill_null(0).to_numpy(), out=offsets[1:])
    return offsets


def missing_row(array: pa.Array) -> int | None:
    """The first row with a null that is neither a float nor a time, which have NaN and NaT; None if there is none."""
    if array.type.id == ids().run_ends:
        array = decoded(array)
    kind = array.type
    if kind.id == ids().dictionary and array.dictionary.null_count:
        array = decoded(array)
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
    """Types by Arrow's type ids: columns are checked batch by batch, and comparing names is slow."""

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
    run_ends: int
    extension: int


@cache
def ids() -> TypeNumbers:
    """Return the numbers of types that are treated alike.

    `plain` ones are NumPy's own, and `with_nan` have NaN or NaT.
    """
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
        run_ends=lib.Type_RUN_END_ENCODED,
        extension=lib.fixed_shape_tensor(lib.int8(), [1]).id,
    )


def is_list(kind: pa.DataType) -> bool:
    """Return whether rows are lists, of one length or not."""
    return kind.id in ids().lists


def list_size(kind: pa.DataType) -> int | None:
    """Return how long all lists of this type are, None if they differ."""
    return int(kind.list_size) if kind.id == ids().sized_list else None


def list_of(inner: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """Return lists as `kind` has them, of other values."""
    import pyarrow as pa

    size = list_size(kind)
    return pa.large_list(inner) if size is None else pa.list_(inner, size)


def _is_tensor(kind: object) -> bool:
    import pyarrow as pa

    return isinstance(kind, pa.FixedShapeTensorType)


def is_stored_as(kind: pa.DataType) -> bool:
    """Whether the values are those of the storage, with a meaning that NumPy lacks.

    So are JSON, UUIDs, and extension types that store lists, as arrays of other libraries do. A number that stands for
    something else, such as a period of pandas, is not.
    """
    if kind.id != ids().extension:
        return False
    import pyarrow as pa

    if _is_tensor(kind) or isinstance(kind, getattr(pa, "OpaqueType", ())):
        return False
    kinds = tuple(getattr(pa, name) for name in ("JsonType", "UuidType") if hasattr(pa, name))
    return isinstance(kind, kinds) or is_list(kind.storage_type)


def is_bool8(kind: pa.DataType) -> bool:
    """Whether rows are truth values of a byte each."""
    import pyarrow as pa

    return kind.id == ids().extension and isinstance(kind, getattr(pa, "Bool8Type", ()))


def is_encoded(kind: pa.DataType) -> bool:
    """Whether rows refer to values elsewhere: a dictionary, or runs of equal rows."""
    return kind.id in (ids().dictionary, ids().run_ends)


def decoded(array: pa.Array) -> pa.Array:
    """The values of a dictionary or of runs, row by row. Arrow's own functions do not know all types of values."""
    import pyarrow as pa

    if array.type.id == ids().dictionary:
        values, rows = array.dictionary, array.indices
    else:
        ends = array.run_ends.to_numpy()
        places = np.arange(array.offset, array.offset + len(array))
        values, rows = array.values, pa.array(np.searchsorted(ends, places, side="right"))
    if is_encoded(values.type):
        values = decoded(values)
    if values.type.id in ids().views:
        values = values.cast(pa.large_string() if is_text(values.type) else pa.large_binary())
    return values.take(rows)


def in_takeable_layout(array: pa.Array) -> pa.Array:
    """A dictionary whose texts Arrow can take by number, with the same rows."""
    import pyarrow as pa

    if array.type.id != ids().dictionary or array.type.value_type.id not in ids().views:
        return array
    values = array.dictionary
    plain = values.cast(pa.large_string() if is_text(values.type) else pa.large_binary())
    return pa.DictionaryArray.from_arrays(array.indices, plain)


def has_views(kind: pa.DataType) -> bool:
    """Return whether Arrow cannot take rows of this type by number: views of text or runs, also in lists."""
    return has_views(kind.value_type) if is_list(kind) else kind.id in (*ids().views, ids().run_ends)


def is_text(kind: pa.DataType) -> bool:
    """Return whether rows are strings."""
    return kind.id in ids().text


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether rows are bytes."""
    return kind.id in ids().bytes
