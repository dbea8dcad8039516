"""Lines of CSV to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column, box_text
from headrace.columns.arrow_text import Offsets, parts
from headrace.columns.arrow_text import binary as binary_of
from headrace.core.types import Argument, Component, TensorLike
from headrace.errors import ParseError
from headrace.formats.csv.columns import KINDS, CsvColumn, csv_default_column
from headrace.formats.csv.format import NOT_SPLIT
from headrace.io.binary import bytes_column, bytes_shape, one_record, record
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa


def _fields(records: TensorLike, record_defaults: Sequence[object], *_: object, **__: object) -> tuple[TensorSpec, ...]:
    record(records)
    return tuple(TensorSpec((), column.kind) for column in _columns(record_defaults))


def _compile_columns(records: TensorLike, *how: Argument, **named: Argument) -> Callable[[Any], tuple[Column, ...]]:
    del records
    return lambda rows: tuple(decode_csv_columns(bytes_column(rows), *how, **named))


@traced_operation(spec=_fields, block=_compile_columns)
def decode_csv(
    records: TensorLike,
    record_defaults: Sequence[object],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Component]:
    """Parse the fields of one line of CSV, or of many.

    `record_defaults` has an entry for each field: a dtype if a value is required, else the value for an empty field. As
    in tf.data, 0 means int32 and 0.0 float32, `np.int64(0)` and `np.float64(0)` mean themselves.

    Args:
        records: Records to decode: one, or an array of them.
        record_defaults: A type (value required) or a default value for each column.
        field_delim: Character between fields.
        use_quote_delim: Whether double quotes enclose fields.
        na_value: Text that stands for a missing value.
        select_cols: Numbers of the columns to read. Default: all.

    >>> hr.io.decode_csv("3,,7.5", [np.int64, "none", 0.0])
    [np.int64(3), 'none', np.float32(7.5)]
    >>> hr.io.decode_csv(["1,a", "2,b"], [0, b""])
    [array([1, 2], dtype=int32), array([b'a', b'b'], dtype=object)]
    """
    shape = bytes_shape(records)
    rows = bytes_column(one_record(records) if shape == () else records)
    columns = decode_csv_columns(rows, record_defaults, field_delim, use_quote_delim, na_value, select_cols)
    if shape == ():
        return [c[0] if isinstance(c, np.ndarray) else c[0].as_py() for c in columns]
    dense = [c if isinstance(c, np.ndarray) else box_text(c) for c in columns]
    return [c.reshape(shape) if shape is not None else c for c in dense]


def decode_csv_columns(
    rows: pa.LargeBinaryArray,
    record_defaults: Sequence[object],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Column]:
    """Return the block form of `decode_csv`: arrays of numbers, and text in Arrow's layout."""
    if len(field_delim.encode()) != 1 or field_delim in '"\r\n':
        raise ValueError(f"field_delim must be one ASCII character, no quote and no end of a line, not {field_delim!r}")
    kinds = _columns(record_defaults)
    chosen = list(range(len(kinds))) if select_cols is None else list(select_cols)
    if not kinds or len(chosen) != len(kinds) or sorted(set(chosen)) != chosen or chosen[0] < 0:
        raise ValueError(f"select_cols must be {len(kinds)} rising numbers, one for each default, not {select_cols}")
    slots = [chosen.index(field) if field in chosen else -1 for field in range(chosen[-1] + 1)]
    lines, cuts = parts(_end_rows(rows))
    content, cuts = lines[cuts[0] : cuts[-1]], cuts - cuts[0]
    made, starts, wrong = _native.parse_csv(
        content.data,
        [(KINDS[column.kind], column.default) for column in kinds],
        slots,
        select_cols is None,
        field_delim.encode(),
        b'"' if use_quote_delim else b"",
        na_value.encode(),
        len(rows) + 1,
        True,
    )
    _refuse(rows, kinds, starts, cuts, wrong.reshape(-1, 3))
    return [_finish_column(values, column.kind) for values, column in zip(made, kinds, strict=True)]


def _columns(record_defaults: Sequence[object]) -> list[CsvColumn]:
    columns = []
    for number, default in enumerate(record_defaults):
        try:
            columns.append(csv_default_column(default, by_name=False))
        except ValueError as error:
            raise ValueError(f"record_defaults[{number}]: {error}") from None
    return columns


def _end_rows(rows: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return each row with an end of line."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(rows, *(pa.scalar(part, pa.large_binary()) for part in (b"", b"\n")))


def _refuse(rows: Column, kinds: list[CsvColumn], starts: Offsets, cuts: Offsets, wrong: NDArray[np.int64]) -> None:
    """Raise an error for the first row that is no record, or not one of these."""
    known = min(len(starts), len(cuts))
    apart = np.flatnonzero(starts[:known] != cuts[:known])
    other = int(apart[0]) - 1 if len(apart) else len(rows) if len(starts) == len(cuts) else known - 1
    empty = np.flatnonzero(np.diff(cuts) == 1)
    if len(empty) and empty[0] <= other:
        raise ParseError(f"a line is empty where {len(kinds)} fields were asked", int(empty[0]))
    if len(wrong) and wrong[:, 0].min() <= other:
        row, error, field = wrong[np.lexsort((wrong[:, 2], wrong[:, 0]))[0]].tolist()
        said = WRONG[error].format(field=field, kind=kinds[field].kind if error > NOT_SPLIT else "", count=len(kinds))
        raise ParseError(f"{said}: {rows[row].as_py()[:40]!r}", row)
    if other < len(rows):
        raise ParseError("a line's end outside of quotes, or quotes that are never closed", other)


WRONG = {
    1: "field {field} holds a quote but does not begin with one",
    2: "a quote within field {field} is not doubled",
    3: "the quotes of field {field} are never closed",
    4: "a line has fewer than the {count} fields that were asked",
    5: "a line has more than the {count} fields that were asked",
    6: "field {field} of the result is empty and has no default",
    7: "field {field} of the result is no {kind}",
}
"""The messages of the kernel's error codes."""


def _finish_column(column: Column, kind: str) -> Column:
    """Return numbers as they are, text in Arrow's layout."""
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return column
    text = binary_of(*column)
    if kind == "bytes":
        return text
    try:
        return text.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise ParseError(f"text must be UTF-8, or else be asked for as bytes: {error}") from None
