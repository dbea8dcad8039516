"""The meaning of CSV, a character at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.types import Component
from headrace.formats.csv.columns import CsvColumn
from headrace.formats.csv.format import Csv
from headrace.reference.records import NaiveRecord, Wrong, read_records

Record = tuple[list[bytes], str | None, int]
"""The fields of a record, why it is bad if it is, and where the next one begins."""

RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
SPACE = b" \t\n\v\f\r"


@read_records.register
def _(form: Csv, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:  # noqa: ARG001
    at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    if form.header:
        while data[at : at + 1] in (b"\n", b"\r"):
            at += 1
        wrong, end, over = _header(data, at, form)
        if wrong is not None:
            yield Wrong(wrong), 0, _line(data, at)
        if over:
            return
        at = end
    while at < len(data):
        fields, wrong, end = _record(data, at, form)
        value = Wrong(wrong) if wrong is not None else _value(fields, form)
        yield Wrong(f"{value}: {_quote(data[at:end])}") if isinstance(value, Wrong) else value, at, _line(data, at)
        at = end


def _line(data: bytes, at: int) -> int:
    return len(data[:at].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")) - 1


def _quote(record: bytes) -> str:
    return repr(record[:40].decode(errors="replace").rstrip("\r\n") + ("…" if len(record) > 40 else ""))


def _header(data: bytes, at: int, form: Csv) -> tuple[str | None, int, bool]:
    """Return why the header at this byte is invalid, where the first row begins, and whether no row after
    it is read.
    """
    if at == len(data):
        return "the file is empty: it has no header line", at, True
    fields, wrong, end = _record(data, at, form)
    long_ago = data[at : max(at, end - (64 << 10))]
    if b"\n" in long_ago or b"\r" in long_ago or (wrong is not None and "never closed" in wrong):
        return "its header line opens quotes that are not closed", end, True
    if wrong is not None:
        why = f"its header line cannot be read: {wrong}: {_quote(data[at:end])}"
        return why, end, "not doubled" in wrong or form.heading is not None
    if form.heading is not None and fields != [name.encode() for name in form.heading]:
        return f"its header line names other columns than {', '.join(form.heading)}", end, True
    return None, end, False


def _record(data: bytes, at: int, form: Csv) -> Record:
    fields: list[bytes] = []
    wrong: str | None = None
    while True:
        field, problem, at = _field(data, at, form, len(fields))
        wrong = wrong or problem
        fields.append(field)
        if at < len(data) and data[at : at + 1] == form.delimiter.encode():
            at += 1
            continue
        if data[at : at + 2] == b"\r\n":
            return fields, wrong, at + 2
        return fields, wrong, min(len(data), at + 1)


def _field(data: bytes, at: int, form: Csv, number: int) -> tuple[bytes, str | None, int]:
    quote = b'"' if form.quotes and form.delimiter != '"' else None
    ends = (form.delimiter.encode(), b"\n", b"\r")
    wrong = None
    field = b""
    if quote is None or data[at : at + 1] != quote:
        while at < len(data) and data[at : at + 1] not in ends:
            if data[at : at + 1] == quote:
                wrong = f"field {number} holds a quote but is not quoted"
            field += data[at : at + 1]
            at += 1
        return field, wrong, at
    at += 1
    while at < len(data):
        if data[at : at + 1] != quote:
            field += data[at : at + 1]
            at += 1
        elif data[at + 1 : at + 2] == quote:
            field += quote
            at += 2
        elif at + 1 == len(data) or data[at + 1 : at + 2] in ends:
            return field, wrong, at + 1
        else:
            wrong = wrong or f"a quote within field {number} is not doubled"
            at += 1
    return field, wrong or f"the quotes of field {number} are never closed", at


def _value(fields: list[bytes], form: Csv) -> Component:
    count = len(form.columns)
    kept = [f for i, f in enumerate(fields) if (i in form.select if form.select is not None else i not in form.exclude)]
    if len(kept) != count:
        return Wrong(f"{count} fields were expected, there are {'too few' if len(kept) < count else 'more'}")
    values = []
    for i, (field, column) in enumerate(zip(kept, form.columns, strict=True)):
        try:
            values.append(_convert(field, column, form.na.encode(), form.names[i] if form.names else None))
        except ValueError as error:
            return Wrong(f"column {form.names[i]!r} {error}" if form.names else f"column {i} {error}")
    return form.structure.pack(values if form.order is None else [values[i] for i in form.order])


def _convert(field: bytes, column: CsvColumn, na: bytes, name: str | None) -> Component:
    kind = column.kind
    if field in (b"", na):
        if column.default is None:
            remedy = (
                f"nulls={{{name!r}: …}} says what stands for it" if name is not None else "record_defaults can have one"
            )
            raise ValueError(f"is empty, and has no default ({remedy})")
        if isinstance(column.default, bytes):
            return column.default.decode() if kind == "str" else column.default
        return np.dtype(kind).type(column.default)
    if kind == "bytes":
        return field
    if kind == "str":
        try:
            return field.decode()
        except UnicodeDecodeError:
            raise ValueError("is not utf-8 (dtype bytes reads it as it is)") from None
    try:
        return _number(field.strip(SPACE), kind)
    except ValueError:
        raise ValueError(f"holds no {kind}") from None


def _number(text: bytes, kind: str) -> Component:
    if b"_" in text or not text.isascii() or text != text.strip():
        raise ValueError
    if kind in RANGES:
        value = int(text)
        least, most = RANGES[kind]
        if not least <= value <= most:
            raise ValueError
        return np.dtype(kind).type(value)
    plain = text.decode().lower()
    real = float.fromhex(plain) if plain.lstrip("+-").startswith("0x") else float(plain)
    with np.errstate(over="ignore", under="ignore"):
        return np.float32(real) if kind == "float32" else np.float64(real)
