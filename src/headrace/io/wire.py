"""Parse and write single protocol buffer messages; the kernels handle whole columns of Examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headrace.core.types import Array, Component, DType

VARINT, FIXED64, DELIMITED, GROUP, END_GROUP, FIXED32 = range(6)


class Field(NamedTuple):
    """One field of a message: its number, how it is encoded, and an integer or the bytes of it."""

    number: int
    wire: int
    value: Component


def fields(data: memoryview) -> Iterator[Field]:
    """Yield the fields of a message in order. Raise ValueError if the bytes are no message."""
    at = depth = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise ValueError("a field without a number")
        if wire in (GROUP, END_GROUP):
            depth += 1 if wire == GROUP else -1
            if depth < 0:
                raise ValueError("the end of a group that did not begin")
            continue
        value: Component
        if wire == VARINT:
            value, at = read_varint(data, at)
        elif wire in (FIXED64, FIXED32, DELIMITED):
            size, at = read_varint(data, at) if wire == DELIMITED else (8 if wire == FIXED64 else 4, at)
            if size > len(data) - at:
                raise ValueError("a field that is longer than its message")
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"a field of the wire type {wire}, which there is not")
        if not depth:  # nothing within a group is ours
            yield Field(number, wire, value)
    if depth:
        raise ValueError("a group without an end")


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned number and the offset after it."""
    value = shift = 0
    while shift < 70 and at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise ValueError("a number without an end")


def as_signed(value: int) -> int:
    """Return the 64 bits of a number as int64."""
    return value - (1 << 64) if value >> 63 else value


def numbers(field: Field, dtype: DType) -> Array:
    """Return the values of a field of numbers, packed or not."""
    if dtype.kind == "f" and dtype.itemsize > 2:
        return np.frombuffer(field.value, dtype.newbyteorder("<"))
    found = []
    if field.wire == VARINT:
        found.append(as_signed(field.value))
    else:
        at = 0
        while at < len(field.value):
            value, at = read_varint(field.value, at)
            found.append(as_signed(value))
    return np.array(found, np.int64).astype(dtype)


def varint(value: int) -> bytes:
    """Return a number as bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def bytes_field(number: int, data: bytes) -> bytes:
    """Return a field of bytes, or of another message."""
    return varint(number << 3 | DELIMITED) + varint(len(data)) + data
