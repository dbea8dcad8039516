"""Columns as Arrow arrays, so that reading them back copies nothing where the types allow."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.block import Column
from headrace.errors import StorageError
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa

How = dict[str, Any]
"""What JSON must remember of a column to make it again from its Arrow array."""


def encoded(column: Column) -> tuple[pa.Array, How]:
    """The column as an Arrow array, and how to read it."""
    if isinstance(column, Ragged) and not column.dtype.hasobject:
        return _ragged(column)
    if isinstance(column, np.ndarray):
        return _text(column) if column.dtype == object else _dense(column)
    if not isinstance(column, list | Ragged):
        return column, {"kind": "arrow"}
    import pyarrow as pa

    return pa.array([_packed(value) for value in column], pa.large_binary()), {"kind": "rows"}


def decoded(array: pa.Array, how: How) -> Column:
    """The column that was encoded so."""
    kind = how["kind"]
    if kind == "arrow":
        return array
    if kind == "rows":
        return [_unpacked(value) for value in array.to_pylist()]
    rows, shape = len(array), tuple(how["shape"])
    if kind == "text":
        made = np.empty(rows * int(np.prod(shape)), object)
        made[:] = array.flatten().to_pylist()
        return made.reshape(rows, *shape)
    dtype = np.dtype(how["dtype"])
    if kind == "empty":
        return np.empty((rows, *shape), dtype)
    if kind == "dense":
        return _values(array, dtype).reshape(rows, *shape)
    offsets = array.offsets.to_numpy()
    inner = array.values if how["filled"] else None
    if inner is None:
        return Ragged(np.empty((int(offsets[-1]), *shape), dtype), offsets)
    return Ragged(_values(inner, dtype).reshape(-1, *shape), offsets)


def _dense(column: NDArray[Any]) -> tuple[pa.Array, How]:
    import pyarrow as pa

    how = {"kind": "dense", "dtype": column.dtype.str, "shape": list(column.shape[1:])}
    if column.dtype.kind == "V" or column.dtype.hasobject:
        raise StorageError(f"values of dtype {column.dtype} cannot be stored; map them to plain numbers or text")
    if 0 in column.shape[1:]:
        return pa.nulls(len(column)), {**how, "kind": "empty"}
    return _array(column, column.shape[1:]), how


def _ragged(column: Ragged) -> tuple[pa.Array, How]:
    import pyarrow as pa

    values, inner = column.values, column.values.shape[1:]
    filled = 0 not in inner
    how = {"kind": "ragged", "dtype": values.dtype.str, "shape": list(inner), "filled": filled}
    items = _array(values, inner) if filled else pa.nulls(len(values))
    return pa.LargeListArray.from_arrays(pa.array(column.offsets), items), how


def _array(values: NDArray[Any], shape: tuple[int, ...]) -> pa.Array:
    """Numbers as Arrow's own types, so that other tools can read them; what Arrow packs or lacks as its bytes."""
    import pyarrow as pa

    flat = np.ascontiguousarray(values).reshape(-1)
    size = int(np.prod(shape))
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8 or not values.dtype.isnative:
        width = values.dtype.itemsize * size
        return pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(flat.view(np.uint8))])
    numbers = pa.array(flat)
    return pa.FixedSizeListArray.from_arrays(numbers, size) if shape else numbers


def _values(array: pa.Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """All the numbers of an array that `_array` made, as a view."""
    import pyarrow as pa

    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        return data[array.offset * width : (array.offset + len(array)) * width].view(dtype)
    flat = array.flatten() if pa.types.is_fixed_size_list(array.type) else array
    numbers: NDArray[Any] = flat.to_numpy()
    return numbers.view(dtype)


def _text(column: NDArray[Any]) -> tuple[pa.Array, How]:
    """Batches of strings: lists of Arrow's strings; anything else among them row by row."""
    import pyarrow as pa

    flat = column.reshape(-1).tolist()
    kinds = {type(v) for v in flat}
    if column.ndim == 2 and column.shape[1] and kinds in ({str}, {bytes}):
        try:
            items = pa.array(flat, pa.large_string() if kinds == {str} else pa.large_binary())
        except (pa.ArrowInvalid, UnicodeEncodeError):  # lone surrogates are no UTF-8
            items = None
        if items is not None:
            return pa.FixedSizeListArray.from_arrays(items, column.shape[1]), {
                "kind": "text",
                "shape": list(column.shape[1:]),
            }
    return pa.array([_packed(value) for value in column], pa.large_binary()), {"kind": "rows"}


def _packed(value: Any) -> bytes:
    """One component as bytes: a letter for its kind, then the rest."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, Ragged):
        parts = [_packed(value.offsets), _packed(value.values)]
        return b"r" + _joined(parts)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return b"o" + _joined([json.dumps(value.shape).encode(), *(_packed(v) for v in value.reshape(-1))])
    if isinstance(value, np.ndarray | np.generic):
        sink = io.BytesIO()
        np.lib.format.write_array(sink, np.asarray(value), allow_pickle=False)
        return (b"a" if isinstance(value, np.ndarray) else b"g") + sink.getvalue()
    raise StorageError(f"a {type(value).__name__} cannot be stored; map it to arrays, numbers, str or bytes first")


def _unpacked(data: bytes) -> Any:
    kind, rest = data[:1], data[1:]
    if kind == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if kind == b"b":
        return rest
    if kind == b"r":
        offsets, values = _split(rest)
        return Ragged(_unpacked(values), _unpacked(offsets))
    if kind == b"o":
        shape, *items = _split(rest)
        made = np.empty(len(items), object)
        made[:] = [_unpacked(item) for item in items]
        return made.reshape(json.loads(shape))
    array = np.lib.format.read_array(io.BytesIO(rest), allow_pickle=False)
    return array if kind == b"a" else array[()]


def _joined(parts: list[bytes]) -> bytes:
    lengths = np.array([len(p) for p in parts], "<i8").tobytes()
    return len(parts).to_bytes(8, "little") + lengths + b"".join(parts)


def _split(data: bytes) -> list[bytes]:
    count = int.from_bytes(data[:8], "little")
    ends = 8 + 8 * count + np.cumsum(np.frombuffer(data, "<i8", count, 8))
    starts = [8 + 8 * count, *ends[:-1].tolist()]
    return [data[a:b] for a, b in zip(starts, ends.tolist(), strict=True)]
