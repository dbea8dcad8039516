"""Arrays to the TensorProto that tf.io.serialize_tensor writes, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace.columns import Column, box_text, column_of
from headrace.core.types import Array, DType, Tensor, TensorLike
from headrace.errors import ParseError
from headrace.io.binary import one_record
from headrace.io.wire import Field, as_signed, bytes_field, fields, numbers, read_varint, varint

if TYPE_CHECKING:
    import pyarrow as pa

TYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "object", 8: "complex64", 9: "int64",
    10: "bool", 17: "uint16", 18: "complex128", 19: "float16", 22: "uint32", 23: "uint64",
}  # fmt: skip
NUMBERS = {name: number for number, name in TYPES.items()}
VALUES = {
    "float32": (5, "float32"), "float64": (6, "float64"), "int32": (7, "int64"), "uint8": (7, "int64"),
    "int16": (7, "int64"), "int8": (7, "int64"), "uint16": (7, "int64"), "complex64": (9, "float32"),
    "int64": (10, "int64"), "bool": (11, "int64"), "complex128": (12, "float64"), "float16": (13, "int64"),
    "uint32": (16, "int64"), "uint64": (17, "int64"),
}  # fmt: skip
"""The field that holds a dtype's values one by one, and how they stand there."""
CONTENT, STRINGS = 4, 8
MAX_EXPANDED_VALUES = 1 << 28
"""The most values that a message with fewer values may expand to."""


def serialize_tensor(tensor: TensorLike) -> bytes:
    """Return an array, a number or text as bytes that tf.io.parse_tensor reads too.

    Args:
        tensor: The array.

    >>> hr.io.parse_tensor(hr.io.serialize_tensor(np.eye(2, dtype=np.float32)), np.float32)
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    array = np.asarray(tensor, object) if isinstance(tensor, str | bytes) else np.asarray(tensor)
    if array.dtype.kind in "SU":
        array = np.asarray(tensor, object) if not isinstance(tensor, np.ndarray) else tensor.astype(object)
    if array.dtype.name not in NUMBERS:
        raise TypeError(f"a TensorProto has no place for {array.dtype}")
    sizes = b"".join(bytes_field(2, varint(1 << 3) + varint(size)) for size in array.shape)
    head = varint(1 << 3) + varint(NUMBERS[array.dtype.name]) + bytes_field(2, sizes)
    if array.dtype != object:
        return head + bytes_field(CONTENT, array.astype(array.dtype.newbyteorder("<")).tobytes())
    items = array.ravel().tolist()
    for item in items:
        if not isinstance(item, bytes | str):
            raise TypeError(f"a TensorProto has no place for {item!r}")
    return head + b"".join(bytes_field(STRINGS, i.encode() if isinstance(i, str) else i) for i in items)


def parse_tensor(serialized: bytes, out_type: DTypeLike) -> Tensor:
    """Return what `serialize_tensor`, or TensorFlow's, has written; `out_type` must be its dtype.

    Args:
        serialized: Serialized protocol buffers, as bytes.
        out_type: Data type of the result.

    >>> hr.io.parse_tensor(hr.io.serialize_tensor(["a", "b"]), bytes)
    array([b'a', b'b'], dtype=object)
    """
    data = one_record(serialized)[0]
    try:
        return _parse_tensor(memoryview(data.encode() if isinstance(data, str) else data), _dtype(out_type))
    except ParseError:
        raise
    except ValueError as error:
        raise ParseError(f"not a TensorProto: {error}") from None


def parse_tensor_column(rows: pa.LargeBinaryArray, out_type: DTypeLike) -> Column:
    """Return the block form of `parse_tensor`."""
    made = []
    for number, row in enumerate(box_text(rows).tolist()):
        try:
            made.append(parse_tensor(row, out_type))
        except ParseError as error:
            raise ParseError(str(error), number) from None
    return column_of(made)


def _dtype(out_type: DTypeLike) -> DType:
    dtype = np.dtype(getattr(out_type, "as_numpy_dtype", out_type))
    return np.dtype(object) if dtype.kind in "SU" else dtype


def _parse_tensor(data: memoryview, wanted: DType) -> Tensor:
    found = list(fields(data))
    number = next((f.value for f in reversed(found) if f.number == 1), 0)
    if number not in TYPES:
        raise ParseError(f"a tensor of TensorFlow's dtype number {number}, for which NumPy has none")
    dtype = np.dtype(TYPES[number])
    if dtype != wanted:
        raise ParseError(f"the tensor is {_name(dtype)} where {_name(wanted)} was asked")
    shape = _shape([f for f in found if f.number == 2])
    count = math.prod(shape)
    content = next((f.value for f in reversed(found) if f.number == CONTENT and len(f.value)), None)
    values = _strings(content, found, count) if dtype.hasobject else _numbers(content, found, dtype)
    if content is not None and len(values) != count:
        raise ParseError(f"the tensor holds {len(values)} values where its shape {shape} needs {count}")
    return _repeat_last(values[:count], count, dtype).reshape(shape)[()]


def _name(dtype: DType) -> str:
    return "bytes" if dtype.hasobject else str(dtype)


def _shape(found: list[Field]) -> tuple[int, ...]:
    sizes = []
    for shape in found:
        for part in fields(shape.value):
            if part.number == 3 and part.value:
                raise ParseError("the tensor's rank is not known")
            if part.number == 2:
                sizes.append(next((as_signed(f.value) for f in fields(part.value) if f.number == 1), 0))
    if any(size < 0 for size in sizes) or math.prod(sizes) >= 2**62:
        raise ParseError(f"the tensor cannot have the shape {tuple(sizes)}")
    return tuple(sizes)


def _numbers(content: memoryview | None, found: list[Field], dtype: DType) -> Array:
    if content is not None:
        if len(content) % dtype.itemsize:
            raise ValueError(f"{len(content)} bytes are no whole number of {dtype}")
        return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype)
    number, stored = VALUES[dtype.name]
    each = [numbers(f, np.dtype(stored)) for f in found if f.number == number]
    values = np.concatenate([np.empty(0, stored), *each])
    if dtype.kind == "c":
        return values[: len(values) // 2 * 2].view(dtype)
    return values.astype(np.uint16).view(dtype) if dtype == np.float16 else values.astype(dtype)


def _strings(content: memoryview | None, found: list[Field], count: int) -> Array:
    """Text one by one, or all the lengths first and then all the text."""
    if content is None:
        items = [bytes(f.value) for f in found if f.number == STRINGS]
    elif count > len(content):
        raise ValueError(f"{len(content)} bytes cannot hold {count} strings")
    else:
        at, lengths, items = 0, [], []
        for _ in range(count):
            length, at = read_varint(content, at)
            lengths.append(length)
        if at + sum(lengths) != len(content):
            raise ValueError("the lengths of the strings are not those of the text")
        for length in lengths:
            items.append(bytes(content[at : at + length]))
            at += length
    made = np.empty(len(items), object)
    made[:] = items
    return made


def _repeat_last(values: Array, count: int, dtype: DType) -> Array:
    """Repeat the last value in place of those that are left out."""
    if len(values) == count:
        return values
    last = values[-1] if len(values) else b"" if dtype.hasobject else dtype.type(0)
    if len(values) <= 1:
        return np.broadcast_to(np.array(last, dtype), (count,))  # takes no memory, whatever the shape says
    if count > MAX_EXPANDED_VALUES:
        raise ParseError(f"the tensor holds {len(values)} values where its shape needs {count}")
    return np.concatenate([values, np.full(count - len(values), last, dtype)])
