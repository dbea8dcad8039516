"""Plain dicts and columns to serialized Examples, and back without a description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Stacked, Varied, in_plain_kinds
from headrace.columns.arrow_text import binary as binary_of
from headrace.columns.arrow_text import parts
from headrace.columns.kind import Column
from headrace.core.extended import is_extended
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component
from headrace.errors import ParseError
from headrace.io.binary import bytes_column
from headrace.io.feature import BYTES, DTYPES, FLOAT, INT64
from headrace.io.wire import bytes_field, fields, numbers, varint

if TYPE_CHECKING:
    import pyarrow as pa


def encode_example(features: Mapping[str, object]) -> bytes:
    """Return one serialized tf.Example: integers as int64, floats as float32, text as UTF-8.

    None and empty lists are left out, because their type is unknown.

    Args:
        features: Values by name.

    >>> hr.io.encode_example({"x": 1})
    b'\\n\\x0c\\n\\n\\n\\x01x\\x12\\x05\\x1a\\x03\\n\\x01\\x01'
    """
    return _native.encode_example(dict(features), _flat_or_listed)


def encode_examples(columns: Mapping[str, Any]) -> pa.LargeBinaryArray:
    """Serialized tf.Examples, one for each row of the columns: arrays, hr.Ragged, Arrow arrays or lists of text.

    Args:
        columns: Arrays with one row per example, by name.

    >>> records = hr.io.encode_examples({"id": np.arange(3), "ids": hr.Ragged.from_rows([[1], [], [2, 3]])})
    >>> hr.io.Example.parse(records[2].as_py())
    Example({'id': array([2]), 'ids': array([2, 3])})
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"columns of one length are needed, not {lengths or 'none at all'}")
    written = [_column(name, column) for name, column in sorted(columns.items())]
    return binary_of(*_native.encode_examples(written, next(iter(lengths.values()))))


def encode_sequence_example(context: Mapping[str, object], feature_lists: Mapping[str, Sequence[object]]) -> bytes:
    """Return one serialized tf.SequenceExample: features of the whole, and lists with features for each step.

    Args:
        context: Features of the context, by name.
        feature_lists: Sequences of features, by name.

    >>> record = hr.io.encode_sequence_example({"id": 7}, {"words": [[b"a"], [b"b", b"c"]]})
    >>> hr.io.parse_single_sequence_example(record, {}, {"words": hr.io.VarLenFeature(bytes)})[1]
    {'words': Ragged([[b'a'], [b'b', b'c']], dtype=object)}
    """
    lists = []
    for name, steps in sorted(feature_lists.items()):
        made = b"".join(bytes_field(1, _feature(_flat(name, step))) for step in steps)
        lists.append(bytes_field(1, bytes_field(1, name.encode()) + bytes_field(2, made)))
    return encode_example(context) + bytes_field(2, b"".join(lists))  # both kinds keep their features in field 1


class Example(dict[str, Any]):
    """The features of one tf.Example, as a dict of arrays.

    >>> record = hr.io.Example({"x": 1, "words": ["a", "b"]}).encode()
    >>> hr.io.Example.parse(record)
    Example({'words': array([b'a', b'b'], dtype=object), 'x': array([1])})
    """

    def encode(self) -> bytes:
        """Serialized, as tf.train.Example's SerializeToString."""
        return encode_example(self)

    @classmethod
    def parse(cls, serialized: bytes) -> Example:
        """Whatever a serialized Example holds, without a description; features that hold nothing are left out."""
        try:
            return cls(_parse(memoryview(serialized)))
        except ValueError as error:
            raise ParseError(f"not an Example: {error}") from None

    FromString = parse

    def SerializeToString(self) -> bytes:  # noqa: N802 - as protobuf calls it
        """Serialized: `encode`."""
        return self.encode()

    def __repr__(self) -> str:
        return f"Example({super().__repr__()})"


def _parse(data: memoryview) -> dict[str, Array]:
    found = {}
    for features in (f.value for f in fields(data) if f[:2] == (1, 2)):
        for entry in (f.value for f in fields(features) if f[:2] == (1, 2)):
            parts_of = {f.number: f.value for f in fields(entry)}
            array = _feature_values(parts_of.get(2, memoryview(b"")))
            if array is not None:
                found[bytes(parts_of.get(1, b"")).decode(errors="backslashreplace")] = array
    return found


def feature_names(serialized: bytes) -> list[str]:
    """Return the names of the features and feature lists of a record, as far as it can be read."""
    found: list[str] = []
    try:
        for group in (f.value for f in fields(memoryview(serialized)) if f.number in (1, 2) and f.wire == 2):
            for entry in (f.value for f in fields(group) if f[:2] == (1, 2)):
                found += [bytes(f.value).decode(errors="backslashreplace") for f in fields(entry) if f[:2] == (1, 2)]
    except ValueError:  # the names up to there
        return found
    return found


def _feature_values(feature: memoryview) -> Array | None:
    """Return the values of one Feature; of several lists those of the last kind."""
    kind = 0
    lists: list[memoryview] = []
    for field in fields(feature):
        if field.number in DTYPES and field.wire == 2:
            if field.number != kind:
                kind, lists = field.number, []
            lists.append(field.value)
    if not kind:
        return None
    found = [f for values in lists for f in fields(values) if f.number == 1]
    if kind == BYTES:
        made = np.empty(len(found), object)
        made[:] = [bytes(f.value) for f in found]
        return made
    return np.concatenate([np.empty(0, DTYPES[kind]), *(numbers(f, DTYPES[kind]) for f in found)])


def _holds_nothing(value: object) -> bool:
    return value is None or (isinstance(value, Sequence) and not isinstance(value, str | bytes) and not len(value))


def _flat_or_listed(name: str, value: object) -> Array | list[Component]:
    """Return what is not a plain number or text, or a list of these, as the kernel takes it."""
    row = _flat(name, value)
    return row.tolist() if row.dtype.hasobject else row


def _flat(name: str, value: object) -> Array:
    """Return the values of a feature in one row: int64, float32 or bytes."""
    array = np.asarray(value, object) if isinstance(value, str | bytes) else np.asarray(value)
    if array.dtype.kind in "SU":
        array = np.array(value, object)
    return _convert(name, array.ravel())


def _convert(name: str, array: Array) -> Array:
    if array.dtype.kind in "iub":
        if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
            raise ValueError(f"feature {name!r}: {array.max()} does not fit into int64")
        return np.ascontiguousarray(array, np.int64)
    if array.dtype.kind == "f" or (is_extended(array.dtype) and "float" in array.dtype.name):
        return np.ascontiguousarray(array, np.float32)
    if array.dtype.kind != "O":
        raise TypeError(f"feature {name!r}: an Example holds integers, floats and bytes, not {array.dtype}")
    for item in array.tolist():
        if not isinstance(item, bytes | str):
            raise TypeError(f"feature {name!r}: an Example holds integers, floats and bytes, not {item!r}")
    return array


WrittenFeature = tuple[bytes, int, Array, "NDArray[np.int64] | None", "NDArray[np.int64] | None"]


def _write_column(name: str, values: Array, splits: NDArray[np.int64] | None) -> WrittenFeature:
    """Return one column as the kernel takes it."""
    if values.dtype == object:
        return name.encode(), BYTES, *parts(bytes_column(values)), splits
    return name.encode(), INT64 if values.dtype == np.int64 else FLOAT, values, None, splits


def _column(name: str, column: Column) -> WrittenFeature:
    if isinstance(column, Stacked | Varied):
        column = in_plain_kinds(column)
    if isinstance(column, Ragged):
        values = column.values
        if isinstance(values, Ragged):
            raise TypeError(f"feature {name!r}: an Example has no rows of rows; write their lengths beside the values")
        inner = int(np.prod(values.shape[1:]))
        return _write_column(name, _convert(name, values.ravel()), column.offsets * inner)
    if isinstance(column, np.ndarray):
        return _write_column(name, _flat(name, column), None)
    if isinstance(column, list) and column and isinstance(column[0], bytes | str):
        return name.encode(), BYTES, *parts(bytes_column(column)), None
    if isinstance(column, list):
        rows = [np.empty(0, np.int64) if _holds_nothing(row) else _flat(name, row) for row in column]
        full = [row for row in rows if len(row)] or rows[:1] or [np.empty(0, np.int64)]
        if len({row.dtype for row in full}) > 1:
            raise TypeError(f"feature {name!r} holds integers, floats or text in different rows")
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
        return _write_column(name, np.concatenate(full), offsets)
    if hasattr(column, "type") and not _textual(column):
        return _column(name, column.to_numpy(zero_copy_only=False))
    return name.encode(), BYTES, *parts(bytes_column(column)), None


def _textual(column: Column) -> bool:
    import pyarrow as pa

    kind = column.type
    return bool(
        pa.types.is_large_binary(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def _feature(values: Array) -> bytes:
    """Return one tf.train.Feature."""
    if values.dtype == object:
        items = (v.encode() if isinstance(v, str) else v for v in values.tolist())
        return bytes_field(BYTES, b"".join(bytes_field(1, item) for item in items))
    if values.dtype == np.float32:
        return bytes_field(FLOAT, bytes_field(1, values.astype("<f4").tobytes()) if len(values) else b"")
    return bytes_field(INT64, bytes_field(1, b"".join(varint(v) for v in values.tolist())) if len(values) else b"")
