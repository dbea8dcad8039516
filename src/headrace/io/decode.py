"""Bytes to arrays: raw numbers, compressed bytes, JSON. Each with its block form, a column in and columns out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.columns import Column, box_text, column_of
from headrace.columns.arrow_text import parts
from headrace.columns.block import leaf
from headrace.core.limits import MAX_RECORD_BYTES
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, DType, JsonObject, Tensor, TensorLike
from headrace.errors import ParseError, what_there_is
from headrace.formats.shared.unpack import CODECS, DamagedError, unpack_bytes
from headrace.io.binary import bytes_column, bytes_shape, one_record, record
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import OF_NUMPY, traced_operation

if TYPE_CHECKING:
    import pyarrow as pa


def _reads_all(
    input_bytes: TensorLike, out_type: object, little_endian: bool = True, fixed_length: int | None = None
) -> bool:
    del input_bytes, out_type, little_endian
    return fixed_length is None or fixed_length > 0


def _raw_spec(
    input_bytes: TensorLike, out_type: DTypeLike, little_endian: bool = True, fixed_length: int | None = None
) -> TensorSpec:
    del little_endian
    record(input_bytes)
    dtype = np.dtype(getattr(out_type, "as_numpy_dtype", out_type))
    return TensorSpec((fixed_length // dtype.itemsize if fixed_length else None,), dtype)


@traced_operation(
    spec=_raw_spec,
    block=lambda input_bytes, *how, **named: lambda rows: decode_raw_column(bytes_column(rows), *how, **named),  # noqa: ARG005
    even=True,
    reads_all=_reads_all,
)
def decode_raw(
    input_bytes: TensorLike, out_type: DTypeLike, little_endian: bool = True, fixed_length: int | None = None
) -> Array:
    """Read the bytes of each record as numbers, along a new last axis; `fixed_length` bytes of each, cut or filled with
    0.

    Args:
        input_bytes: Bytes, or an array of them.
        out_type: Data type of the result.
        little_endian: Whether numbers are stored with the least significant byte first.
        fixed_length: Number of bytes to use of each input; shorter ones are filled up with zeros.

    >>> hr.io.decode_raw(b"\\x01\\x00\\x02\\x00", np.int16)
    array([1, 2], dtype=int16)
    >>> hr.io.decode_raw([b"ab", b"c"], np.uint8, fixed_length=2)
    array([[97, 98],
           [99,  0]], dtype=uint8)
    """
    if type(input_bytes) is bytes and fixed_length is None and little_endian and sys.byteorder == "little":
        dtype = np.dtype(getattr(out_type, "as_numpy_dtype", out_type))
        if dtype.kind in "iufc" and dtype.isnative and len(input_bytes) % dtype.itemsize == 0:
            return np.frombuffer(input_bytes, dtype)
    shape = bytes_shape(input_bytes)
    rows = bytes_column(one_record(input_bytes) if shape == () else input_bytes)
    made = decode_raw_column(rows, out_type, little_endian, fixed_length)
    if isinstance(made, Ragged):
        lengths = np.diff(parts(rows)[1])
        other = int((lengths != lengths[0]).argmax())
        raise ParseError(
            f"record 0 has {lengths[0]} bytes and record {other} has {lengths[other]}: give a fixed_length", other
        )
    return made.reshape(*(shape if shape is not None else (len(rows),)), made.shape[1])


def decode_raw_column(
    rows: pa.LargeBinaryArray, out_type: DTypeLike, little_endian: bool = True, fixed_length: int | None = None
) -> Array | Ragged:
    """Return the block form of `decode_raw`: dense if all rows have one length, and then sharing memory if possible."""
    dtype = np.dtype(getattr(out_type, "as_numpy_dtype", out_type))
    if dtype.kind not in "biufc":
        raise ValueError(f"raw bytes are numbers, not {dtype}")
    values, offsets = parts(rows)
    length = _native.common_length(offsets)
    if fixed_length is not None:
        if fixed_length < 1 or fixed_length % dtype.itemsize:
            raise ValueError(f"fixed_length {fixed_length} is no multiple of {dtype.itemsize}, the size of {dtype}")
        if length != fixed_length and len(rows):
            values = _of_length(values, offsets, fixed_length)
            offsets = np.arange(len(offsets), dtype=np.int64) * fixed_length
        length = fixed_length
    elif length < 0 or length % dtype.itemsize:
        lengths = np.diff(offsets)
        if (uneven := lengths % dtype.itemsize != 0).any():
            row = int(uneven.argmax())
            raise ParseError(f"a record of {lengths[row]} bytes is no whole number of {dtype} values", row)
    content = values[offsets[0] : offsets[-1]]
    numbers = content != 0 if dtype.kind == "b" else _numbers(content, dtype, little_endian)
    if length < 0:
        return Ragged(numbers, (offsets - offsets[0]) // dtype.itemsize)
    return numbers.reshape(len(offsets) - 1, length // dtype.itemsize)


def _numbers(content: NDArray[np.uint8], dtype: DType, little_endian: bool) -> Array:
    numbers = content.view(dtype.newbyteorder("<" if little_endian else ">"))
    numbers = numbers.astype(dtype, copy=False)
    return numbers if numbers.flags.aligned else numbers.copy()


def _of_length(values: NDArray[np.uint8], offsets: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    """Return each row cut or filled up to `length`."""
    lengths = np.diff(offsets)
    made = np.zeros((len(lengths), length), np.uint8)
    if (lengths == lengths[0]).all():
        used = min(length, int(lengths[0]))
        made[:, :used] = values[offsets[0] : offsets[-1]].reshape(len(lengths), -1)[:, :used] if used else 0
        return made.ravel()
    places = np.arange(length)
    there = places < lengths[:, None]
    made[there] = values[(offsets[:-1, None] + places)[there]]
    return made.ravel()


def _buffer_spec(buffer: TensorLike, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> TensorSpec:
    if not isinstance(buffer, TensorSpec) or buffer != TensorSpec((), "S") or count != -1 or offset < 0:
        raise ValueError(f"of {buffer}, {count} values from {offset} on")
    if (made := np.dtype(dtype)).kind not in "iufc" or not made.isnative:
        raise ValueError(f"as {made}")
    return TensorSpec((None,), made)


def _buffer_column(buffer: TensorLike, dtype: DTypeLike = float, offset: int = 0) -> Array | Ragged:
    """Return the block form of `np.frombuffer`."""
    rows = decode_raw_column(bytes_column(buffer), np.uint8)
    if isinstance(rows, Ragged):
        return rows
    if offset > rows.shape[1]:
        raise ValueError("the offset is beyond the bytes")
    numbers = np.ascontiguousarray(rows[:, offset:]).view(dtype)
    return numbers if numbers.flags.aligned else numbers.copy()


OF_NUMPY["frombuffer"] = traced_operation(
    spec=_buffer_spec,
    block=lambda buffer, dtype=float, count=-1, offset=0: lambda rows: _buffer_column(rows, dtype, offset),  # noqa: ARG005
    even=True,
    reads_all=lambda buffer, dtype=float, count=-1, offset=0: offset == 0,  # noqa: ARG005
)(np.frombuffer)


@traced_operation(
    spec=lambda bytes, compression_type="", **_: record(bytes) and TensorSpec((), "S"),  # noqa: ARG005
    block=lambda bytes, compression_type="", **how: (  # noqa: ARG005
        lambda rows: decode_compressed_column(bytes_column(rows), compression_type, **how)
    ),
)
def decode_compressed(
    bytes: TensorLike, compression_type: str = "", *, max_record_bytes: int = MAX_RECORD_BYTES
) -> Tensor:
    """Return decompressed bytes.

    Args:
        bytes: A record, or an array of records.
        compression_type: "GZIP", "ZLIB", "ZSTD", or "" for bytes that are not compressed.
        max_record_bytes: A record that would become more bytes is the element's error, 256 MiB by default.

    Returns:
        The bytes, or an array of them.

    Raises:
        ParseError: A record is not compressed like this, is damaged or too large.

    >>> import zlib
    >>> hr.io.decode_compressed(zlib.compress(b"water"), "ZLIB")
    b'water'
    """
    shape = bytes_shape(bytes)
    rows = bytes_column(one_record(bytes) if shape == () else bytes)
    made = decode_compressed_column(rows, compression_type, max_record_bytes=max_record_bytes)
    return made[0].as_py() if shape == () else box_text(made).reshape(shape or len(made))


def decode_compressed_column(
    rows: pa.LargeBinaryArray, compression_type: str = "", *, max_record_bytes: int = MAX_RECORD_BYTES
) -> pa.LargeBinaryArray:
    """The block form of `decode_compressed`."""
    if compression_type == "":
        return rows
    if compression_type not in CODECS:
        raise ValueError(f'compression_type is "", "GZIP", "ZLIB" or "ZSTD", not {compression_type!r}')
    made = []
    for number, row in enumerate(box_text(rows).tolist()):
        try:
            made.append(_unpacked(row, compression_type, max_record_bytes))
        except DamagedError as error:
            raise ParseError(f"not compressed as {compression_type}, or damaged: {error}", number) from None
    return bytes_column(made)


def _unpacked(row: bytes, compression_type: str, most: int) -> bytes:
    if not row and compression_type == "ZLIB":
        raise DamagedError("there are no bytes")
    return unpack_bytes(row, compression_type, most)


def decode_json(records: TensorLike, fields: Mapping[str, object] | None = None) -> Tensor:
    """JSON objects as dicts of arrays.

    `fields` names what is wanted: by a dtype if it must be there, by a default value if it need not.

    Args:
        records: Records to decode: one, or an array of them.
        fields: What to return: a dtype if required, a default value if not, by name. Default: everything.

    >>> hr.io.decode_json('{"x": [1, 2], "y": 0.5, "z": null}', {"x": np.float32, "y": np.float64, "w": 7})
    {'x': array([1., 2.], dtype=float32), 'y': np.float64(0.5), 'w': np.int64(7)}
    >>> hr.io.decode_json(['{"x": 1}', '{"x": 2}'])
    {'x': array([1, 2])}
    """
    shape = bytes_shape(records)
    columns = decode_json_columns(bytes_column(one_record(records) if shape == () else records), fields)
    if shape == ():
        return {name: rows[0] for name, rows in columns.items()}
    return {
        name: rows if isinstance(rows, np.ndarray | Ragged) else _object_array(rows) for name, rows in columns.items()
    }


def decode_json_columns(rows: pa.LargeBinaryArray, fields: Mapping[str, object] | None = None) -> dict[str, Column]:
    """Return the block form of `decode_json`; without `fields`, those of the first record."""
    found = []
    for number, row in enumerate(box_text(rows).tolist()):
        try:
            value = json.loads(row if isinstance(row, str) else row.decode())
        except ValueError as error:
            raise ParseError(f"not JSON: {error}", number) from None
        except RecursionError:
            raise ParseError("not JSON that can be read: lists and objects are nested too deep", number) from None
        if not isinstance(value, dict):
            raise ParseError(f"a JSON object is needed, not {type(value).__name__}", number)
        found.append(value)
    names = fields if fields is not None else dict.fromkeys(found[0] if found else ())
    return {
        name: column_of([_field(r, name, wanted, i) for i, r in enumerate(found)]) for name, wanted in names.items()
    }


def _field(record: JsonObject, name: str, wanted: Component, row: int) -> Component:
    """Return one field of a record, as its dtype, its default or nothing at all prescribes."""
    required = wanted is None or isinstance(wanted, type | np.dtype)
    value = record.get(name)
    if value is None:
        if required:
            there = what_there_is(name, [key for key, held in record.items() if held is not None])
            raise ParseError(f"field {name!r} is missing and has no default: {there}", row)
        return leaf(wanted)
    dtype = None if wanted is None else np.dtype(wanted) if required else np.asarray(wanted).dtype
    if dtype is None or dtype.kind in "USO":
        try:
            return leaf(value.encode() if dtype is not None and dtype.kind == "S" and isinstance(value, str) else value)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ParseError(f"field {name!r} is {_short(value)}, which is no array: {error}", row) from None
    try:
        exact = np.asarray(value)
        with np.errstate(invalid="ignore", over="ignore"):  # what has changed is an error below
            made = exact.astype(dtype)
        if exact.dtype.kind not in "biuf" or (dtype.kind in "iu" and not np.array_equal(made, exact)):
            raise ValueError
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ParseError(f"field {name!r} is {_short(value)}, which is no {dtype}", row) from None
    return made[()]


def _short(value: object) -> str:
    """Return a value as an error shows it, however deep it is."""
    try:
        return f"{value!r:.200}"
    except RecursionError:
        return f"a nested {type(value).__name__}"


def _object_array(rows: Column) -> Array:
    made = np.empty(len(rows), object)
    made[:] = rows
    return made
