"""Columns as Arrow arrays, so that reading them back copies nothing where the types allow."""

from __future__ import annotations

import json
import math
from itertools import accumulate, pairwise
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
    """The column that was encoded so; raises ValueError, TypeError or KeyError where none was."""
    kind = how["kind"]
    if kind == "arrow":
        return _checked_text(array)
    if kind == "rows":
        return [_unpacked(value) for value in array.to_pylist()]
    rows, shape = len(array), tuple(how["shape"])
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"values of shape {shape}")
    if kind == "text":
        made = np.empty(rows * int(np.prod(shape)), object)
        made[:] = _checked_text(array.flatten()).to_pylist()
        return made.reshape(rows, *shape)
    dtype = np.dtype(how["dtype"])
    if dtype.kind not in _NUMBERS or not dtype.itemsize:
        raise ValueError(f"values of dtype {dtype}")
    if (kind == "empty" or (kind == "ragged" and not how["filled"])) != (0 in shape):
        raise ValueError(f"values of shape {shape} stored as {kind}")
    if kind == "empty":
        return np.empty((rows, *shape), dtype)
    if kind == "dense":
        return _values(array, dtype).reshape(rows, *shape)
    if kind != "ragged":
        raise ValueError(f"a column stored as {kind!r}")
    offsets = array.offsets.to_numpy()
    if not how["filled"]:
        return Ragged(np.empty((int(offsets[-1]), *shape), dtype), offsets)
    return Ragged(_values(array.values, dtype).reshape(-1, *shape), offsets)


def _checked_text(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    kinds = (pa.large_string(), pa.large_binary(), pa.string(), pa.binary())
    if array.type not in kinds or array.null_count:
        raise ValueError(f"{array.type} with {array.null_count} nulls where text or bytes were stored")
    return array


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
        if value.dtype.kind not in _NUMBERS:
            raise StorageError(f"values of dtype {value.dtype} cannot be stored; map them to plain numbers or text")
        head = json.dumps([value.dtype.str, list(value.shape)]).encode()
        return (b"a" if isinstance(value, np.ndarray) else b"g") + _joined([head, value.tobytes()])
    raise StorageError(f"a {type(value).__name__} cannot be stored; map it to arrays, numbers, str or bytes first")


_NUMBERS = "biufcmMSU"
"""Kinds of dtypes whose values are their bytes."""


def _unpacked(data: bytes) -> Any:
    kind, rest = data[:1], data[1:]
    if kind == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if kind == b"b":
        return rest
    if kind == b"r":
        offsets, values = map(_unpacked, _split(rest))
        if not isinstance(offsets, np.ndarray) or not isinstance(values, np.ndarray | Ragged):
            raise ValueError("rows of different lengths without their offsets")
        return Ragged(values, offsets)
    if kind == b"o":
        shape, *items = _split(rest)
        made = np.empty(len(items), object)
        made[:] = [_unpacked(item) for item in items]
        return made.reshape(json.loads(shape.decode()))
    if kind not in (b"a", b"g"):
        raise ValueError(f"a value of kind {kind!r}")
    array = _array_of(rest)
    return array if kind == b"a" else array[()]


def _array_of(data: bytes) -> NDArray[Any]:
    """An array; what it says of its size is believed if there are as many bytes."""
    head, content = _split(data)
    name, shape = json.loads(head.decode())
    dtype = np.dtype(name)
    if dtype.kind not in _NUMBERS or not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"an array of {dtype} and shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{len(content)} bytes for an array of {dtype} and shape {shape}")
    array = np.frombuffer(content, dtype) if content else np.empty(0, dtype)
    return array.reshape(shape).copy()


def _joined(parts: list[bytes]) -> bytes:
    lengths = np.array([len(p) for p in parts], "<i8").tobytes()
    return len(parts).to_bytes(8, "little") + lengths + b"".join(parts)


def _split(data: bytes) -> list[bytes]:
    count = int.from_bytes(data[:8], "little")
    start = 8 + 8 * count
    if start > len(data):
        raise ValueError(f"{count} values in {len(data)} bytes")
    lengths = np.frombuffer(data, "<i8", count, 8).tolist()
    if any(n < 0 for n in lengths) or start + sum(lengths) != len(data):
        raise ValueError(f"values of {sum(lengths)} bytes in {len(data) - start}")
    cuts = [start, *accumulate(lengths, initial=start)][1:]
    return [data[a:b] for a, b in pairwise(cuts)]
