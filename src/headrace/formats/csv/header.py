"""The header line of a CSV file, and its first rows as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace import _native
from headrace.errors import ParseError
from headrace.formats.shared.files import Bytes
from headrace.formats.text.format import mark_length

if TYPE_CHECKING:
    from headrace.formats.csv.format import Csv

QUOTE_INSIDE, UNCLOSED = 1, 3
"""The kernel's error codes: the record's end is known despite the error, or it is not."""
MAX_QUOTED_HEADER_BYTES = 64 << 10
"""A header with a quoted line end that is longer than this is rejected: the quotes were left open."""
HEAD_BYTES = 1 << 10
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Header(NamedTuple):
    """The bounds of a header, what is wrong with it, if anything, and whether its end is unknown."""

    start: int
    stop: int
    reason: str | None = None
    lost: bool = False


def find_header(form: Csv, data: Bytes, start: int, final: bool) -> Header | None:
    """Return the first line from `start` on that is not blank, or None if more bytes are needed."""
    start = _after_line_ends(data, start)
    if start == len(data):
        return Header(start, start, "the file is empty: it has no header line") if final else None
    starts, problems = form.records(data[start:], 1, final)
    stop = start + int(starts[-1])
    seen = stop if stop > start else len(data)
    if count_lines(data[start : max(start, seen - MAX_QUOTED_HEADER_BYTES)]) or (
        len(problems) and problems[0, 1] == UNCLOSED
    ):
        return Header(start, stop, "its header line opens quotes that are not closed", lost=True)
    if stop == start:
        return None
    if not len(problems):
        return Header(start, stop)
    _, error, field = problems[0].tolist()
    reason = f"its header line cannot be read: {form.reason(error, field, data[start:stop])}"
    return Header(start, stop, reason, lost=error != QUOTE_INSIDE)


def _after_line_ends(data: Bytes, start: int) -> int:
    """Return where the first byte from `start` on is that does not end a line."""
    while start < len(data):
        head = data[start : start + HEAD_BYTES].tobytes()
        rest = head.lstrip(b"\r\n")
        start += len(head) - len(rest)
        if rest:
            break
    return start


def names_in(header: Bytes, form: Csv) -> tuple[str, ...] | None:
    """Return the names in a header line; None if they are no text."""
    try:
        return csv_fields(header.tobytes().decode(), form)
    except UnicodeDecodeError:
        return None


def csv_fields(record: str, form: Csv) -> tuple[str, ...]:
    """Return the fields of a record in which nothing is wrong."""
    record = record.removesuffix("\n").removesuffix("\r")
    fields: list[str] = []
    at = 0
    while True:
        if form.quoted and record.startswith('"', at):
            stop = record.index('"', at + 1)
            while record.startswith('"', stop + 1):
                stop = record.index('"', stop + 2)
            fields.append(record[at + 1 : stop].replace('""', '"'))
            at = stop + 1
        else:
            stop = record.find(form.delimiter, at)
            fields.append(record[at : stop if stop >= 0 else None])
            at = stop if stop >= 0 else len(record)
        if at == len(record):
            return tuple(fields)
        at += 1


def first_rows(data: bytes, form: Csv, rows: int, *, final: bool) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the names in the header of a file that begins with `data`, if it has one, and its first good rows.

    Raises ParseError, with the line in `row`, if the header is invalid.
    """
    if data.startswith(UTF_16):
        raise ParseError("it is encoded as UTF-16; convert it to UTF-8")
    raw = np.frombuffer(data, np.uint8)
    start = mark_length(raw, final=True) or 0
    names: tuple[str, ...] | None = ()
    if form.header:
        header = find_header(form, raw, start, final)
        if header is None:
            raise ParseError(f"its header line is longer than {len(data)} bytes")
        start = header.stop
        names = () if header.reason else names_in(raw[header.start : start], form)
        reason = header.reason or ("its header line is not UTF-8" if names is None else None)
        if reason is not None:
            raise ParseError(reason, count_lines(raw[: header.start]))
    starts, problems = form.records(raw[start:], rows, final)
    bad = set(problems[:, 0].tolist())
    cuts = zip((starts[:-1] + start).tolist(), (starts[1:] + start).tolist(), strict=True)
    good = [raw[a:b].tobytes().decode(errors="replace") for row, (a, b) in enumerate(cuts) if row not in bad]
    return names or (), [csv_fields(record, form) for record in good]


def count_lines(data: Bytes) -> int:
    """Return how many line ends there are."""
    return _native.count_line_ends(data.data)
