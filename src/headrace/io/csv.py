"""Lines of CSV to columns."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace.block import Column, objects
from headrace.errors import ParseError
from headrace.io.binary import binary, one, shape_of

if TYPE_CHECKING:
    import pyarrow as pa


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Any]:
    """The fields of one line of CSV, or of many.

    `record_defaults` has an entry for each field: a dtype where a value must be there, else the value for an empty
    field; the dtype is that of NumPy, str and bytes are text.

    >>> hr.io.decode_csv("3,,7.5", [np.int64, "none", 0.0])
    [np.int64(3), 'none', np.float64(7.5)]
    >>> hr.io.decode_csv(["1,a", "2,b"], [0, b""])
    [array([1, 2]), array([b'a', b'b'], dtype=object)]
    """
    shape = shape_of(records)
    rows = binary(one(records) if shape == () else records)
    columns = decode_csv_columns(rows, record_defaults, field_delim, use_quote_delim, na_value, select_cols)
    if shape == ():
        return [c[0] if isinstance(c, np.ndarray) else c[0].as_py() for c in columns]
    dense = [c if isinstance(c, np.ndarray) else objects(c) for c in columns]
    return [c.reshape(shape) if shape is not None else c for c in dense]


def decode_csv_columns(
    rows: pa.LargeBinaryArray,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Column]:
    """The block form of `decode_csv`: arrays of numbers, and text in Arrow's layout."""
    import pyarrow as pa

    if len(field_delim) != 1 or field_delim in '"\r\n':
        raise ValueError(f"field_delim must be one character, no quote and no end of a line, not {field_delim!r}")
    fields = [_field(default) for default in record_defaults]
    chosen = list(range(len(fields))) if select_cols is None else list(select_cols)
    if len(chosen) != len(fields) or sorted(set(chosen)) != chosen or (chosen and chosen[0] < 0):
        raise ValueError(f"select_cols must be {len(fields)} rising numbers, one for each default, not {select_cols}")
    try:
        text = rows.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise ParseError(f"CSV must be UTF-8: {error}") from None
    table = _split(text, field_delim, use_quote_delim, None if select_cols is not None else len(fields), chosen)
    return [_converted(column, field, na_value) for column, field in zip(table, fields, strict=True)]


class _Field(NamedTuple):
    """What a field becomes."""

    dtype: np.dtype[Any]
    required: bool
    default: Any


def _field(default: Any) -> _Field:
    if isinstance(default, type | np.dtype):
        return _Field(np.dtype(default), True, None)
    array = np.asarray(default)
    if array.size > 1:
        raise ValueError(f"a default is one value, not {default!r}")
    if not array.size:  # as tf.io has it: an empty array of the dtype where a value is required
        return _Field(array.dtype, True, None)
    return _Field(array.dtype, False, array.ravel()[0])


def _split(
    text: pa.LargeStringArray, delimiter: str, quotes: bool, count: int | None, chosen: list[int]
) -> list[pa.LargeStringArray]:
    """The chosen fields of each line, a column each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not quotes or not pc.any(pc.match_substring(text, '"')).as_py():
        ends = pc.match_substring_regex(text, "[\r\n]")
        if pc.any(ends).as_py():
            raise ParseError("a line has another line's end in it", ends.index(True).as_py())
        lines = pc.split_pattern(text, delimiter)
        lengths = lines.value_lengths().to_numpy(zero_copy_only=False)
        starts = lines.offsets.to_numpy()[:-1]
        flat = lines.values
    else:
        broken = [_quoted(row, delimiter, number) for number, row in enumerate(text.to_pylist())]
        lengths = np.array([len(line) for line in broken], np.int64)
        starts = np.cumsum(lengths) - lengths
        flat = pa.array([value for line in broken for value in line], pa.large_string())
    needed = chosen[-1] + 1 if chosen else 0
    wrong = lengths < needed if count is None else lengths != count
    if wrong.any():
        row = int(wrong.argmax())
        raise ParseError(f"a line has {lengths[row]} fields where {needed if count is None else count} were asked", row)
    return [flat.take(pa.array(starts + number)) for number in chosen]


def _quoted(line: str, delimiter: str, number: int) -> list[str]:
    """The fields of a line that has quotes in it."""
    for field in _unquoted(line, delimiter):
        if set(field) & set('"\r\n'):
            raise ParseError(f"a quote or a line's end in a field that begins without a quote: {field!r}", number)
    try:
        lines = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ParseError(f"bad quotes: {error}", number) from None
    return lines[0] if lines else [""]


def _unquoted(line: str, delimiter: str) -> list[str]:
    """The fields that do not begin with a quote."""
    found, at = [], 0
    while at <= len(line):
        if line[at : at + 1] == '"':
            at += 1
            while at < len(line) and (line[at] != '"' or line[at + 1 : at + 2] == '"'):
                at += 2 if line[at] == '"' else 1
            end = line.find(delimiter, at + 1)
        else:
            end = line.find(delimiter, at)
            found.append(line[at:] if end < 0 else line[at:end])
        if end < 0:
            break
        at = end + 1
    return found


def _converted(column: pa.LargeStringArray, field: _Field, na_value: str) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    empty = pc.or_(pc.equal(column, ""), pc.equal(column, na_value))
    if pc.any(empty).as_py():
        if field.required:
            raise ParseError(f"a field of {field.dtype} is empty and has no default", empty.index(True).as_py())
        column = pc.if_else(empty, None, column)
    kind = field.dtype.kind
    if kind in "SUO":
        filled = column if field.default is None else pc.fill_null(column, _text(field.default))
        return filled.cast(pa.large_binary()) if kind != "U" else filled
    try:
        made = pc.cast(pc.utf8_trim_whitespace(column), pa.from_numpy_dtype(field.dtype))
    except pa.ArrowInvalid:
        made = _one_by_one(column, field.dtype)
    if made.null_count:
        made = pc.fill_null(made, pa.scalar(field.default, made.type))
    return made.to_numpy(zero_copy_only=False)


def _text(default: Any) -> str:
    return default.decode() if isinstance(default, bytes) else str(default)


def _one_by_one(column: pa.LargeStringArray, dtype: np.dtype[Any]) -> pa.Array:
    """Numbers as Python reads them, which is more than Arrow does; or which of them is none."""
    import pyarrow as pa

    made: list[Any] = []
    for number, value in enumerate(column.to_pylist()):
        try:
            read = None if value is None else dtype.type(float(value) if dtype.kind == "f" else int(value))
        except (ValueError, OverflowError):
            raise ParseError(f"{value!r} is no {dtype}", number) from None
        made.append(read)
    return pa.array(made, pa.from_numpy_dtype(dtype))
