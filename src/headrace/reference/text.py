"""The meaning of `TextLineDataset`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.types import Component
from headrace.formats.text.format import Lines
from headrace.reference.records import NaiveRecord, Wrong, read_records


@read_records.register
def _(form: Lines, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:  # noqa: ARG001
    offset = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        line = data[offset : len(data) if end < 0 else end].replace(b"\r", b"")
        if end >= 0 or line:
            yield _decode(line, form.encoding), offset, 0
        offset = len(data) if end < 0 else end + 1


def _decode(line: bytes, encoding: str | None) -> Component:
    try:
        return line if encoding is None else line.decode(encoding)
    except UnicodeDecodeError as error:
        return Wrong(f"not {encoding}: {error.reason} (encoding=None gives the bytes)")
