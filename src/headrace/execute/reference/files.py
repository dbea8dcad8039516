"""What readers of files mean: the whole file in memory, one record after another."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from headrace import _native
from headrace.block import Block
from headrace.errors import ParseError, SpecError
from headrace.execute.reference.base import Place, Row, rows
from headrace.execute.reference.csv import csv_records
from headrace.io.parse import parse_single_example
from headrace.io.wire import fields
from headrace.ops.flat_map import FlatMap
from headrace.ops.interleave import Interleave
from headrace.plan.node import Node
from headrace.records.csv import Csv
from headrace.records.files import read_all
from headrace.records.fixed import FixedLength
from headrace.records.format import Bad, Look
from headrace.records.jsonl import JsonLines
from headrace.records.packed import PROBED, packing, remedy
from headrace.records.pieces import Lost, blamed
from headrace.records.reader import RecordAt
from headrace.records.tables import rows_of
from headrace.records.text import Lines
from headrace.records.tfrecord import TFRecords
from headrace.records.transport import ALONE
from headrace.sources.file_names import FileNames
from headrace.sources.files import Files
from headrace.sources.from_tfrecord import Examples
from headrace.sources.records import Records
from headrace.sources.table_rows import TableRows, Tables

Found = tuple[Any, int, int]
"""A value or, as a _Wrong or an OSError, why there is none; the byte and the line where it begins."""


class _Wrong(str):
    """Why a record could not be read."""


@rows.register
def _(node: Files, at: Place) -> Iterator[Row]:
    def one(name: Any) -> Any:
        return SimpleNamespace(_node=node.fn(name))

    alike: Node = FlatMap(node.input, one, node.seed, site=node.site)
    if node.cycle_length is not None:
        alike = Interleave(node.input, one, node.cycle_length, 1, node.seed, None, site=node.site)
    return rows(alike, at)


@rows.register
def _(node: FileNames, at: Place) -> Iterator[Row]:
    for number, name in enumerate(node.names):
        yield Row((at.path, number), name)


@rows.register
def _(node: Records, at: Place) -> Iterator[Row]:
    for number, (value, offset, line) in enumerate(_found(node)):
        if not isinstance(value, _Wrong | OSError):
            yield Row((at.path, number), value)
        elif node.on_error is None:
            yield Row((at.path, number), node.bad(value, RecordAt(offset, number, line)))


def _found(node: Records) -> Iterator[Found]:
    form = node.format
    try:
        data = read_all(node.path, via=ALONE.using(node.storage_options))
    except OSError as error:
        yield error, 0, 0
        return
    packed = "" if form.compression else packing(data)
    if form.compression:
        data = _unpacked(data, form.compression)
    if packed and isinstance(form, Lines | Csv | JsonLines):
        yield _Wrong(remedy(packed)), 0, 0
    elif isinstance(form, Lines):
        yield from _lines(data, form)
    elif isinstance(form, FixedLength):
        yield from _fixed(data, form)
    elif isinstance(form, TFRecords):
        yield from _tfrecords(data, go_on=node.on_error is not None)
    elif isinstance(form, Examples):
        yield from _examples(data, form, go_on=node.on_error is not None)
    elif isinstance(form, Csv):
        for value, offset, line in csv_records(data, form):
            yield (_Wrong(value) if isinstance(value, str) else value), offset, line
    elif isinstance(form, JsonLines):
        yield from _json(data, form)
    else:
        raise NotImplementedError(f"the reference executor does not know {type(form).__name__}")


@rows.register
def _(node: TableRows, at: Place) -> Iterator[Row]:
    for number, (group, value) in enumerate(_table(node)):
        if not isinstance(value, _Wrong):
            yield Row((at.path, number), value)
        elif node.on_error is None:
            yield Row((at.path, number), node.bad(Lost(value, 1), group, number))


def _table(node: TableRows) -> Iterator[tuple[int, Any]]:
    form = node.format
    try:
        groups = form.open(node.path, ALONE.using(node.storage_options))
    except Exception as error:
        yield 0, _Wrong(f"{type(error).__name__}: {error}")
        return
    for group in range(groups.count):
        left = groups.rows(group) if form.kept is None else None
        try:
            for batch in groups.batches(group):
                for i in range(batch.num_rows):
                    yield group, _row(form, batch.slice(i, 1))
                left = None if left is None else left - batch.num_rows
        except Exception as error:
            reason = blamed(groups, group, error)
            for _ in range(1 if left is None else left):
                yield group, _Wrong(f"rows of group {group} are lost: {reason}")
    groups.close()


def _row(form: Tables, row: Any) -> Any:
    try:
        return next(Block(form.structure, rows_of(row, form.structure, form.choice), 1).elements())
    except SpecError as error:
        return _Wrong(error)


def _json(data: bytes, form: JsonLines) -> Iterator[Found]:
    offset = 0
    for number, line in enumerate(data.split(b"\n")):
        for part in form.scan(np.frombuffer(line, np.uint8), Look(first=not number)).parts:
            if isinstance(part, Bad):
                yield _Wrong(part.reason), offset + part.start, number
            else:
                yield next(Block(form.structure, part.columns, 1).elements()), offset + part.start, number
        offset += len(line) + 1


def _unpacked(data: bytes, compression: str) -> bytes:
    if compression == "GZIP":
        return gzip.decompress(data)
    if compression == "ZLIB":
        return zlib.decompress(data)
    import io

    import pyarrow as pa

    return bytes(pa.CompressedInputStream(io.BytesIO(data), "zstd").read())


def _lines(data: bytes, form: Lines) -> Iterator[Found]:
    offset = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        line = data[offset : len(data) if end < 0 else end].replace(b"\r", b"")
        if end >= 0 or line:
            yield _decoded(line, form.encoding), offset, 0
        offset = len(data) if end < 0 else end + 1


def _decoded(line: bytes, encoding: str | None) -> Any:
    try:
        return line if encoding is None else line.decode(encoding)
    except UnicodeDecodeError as error:
        return _Wrong(f"not {encoding}: {error.reason} (encoding=None gives the bytes)")


def _fixed(data: bytes, form: FixedLength) -> Iterator[Found]:
    refused = form.refusal(len(data))
    if refused is not None:
        packed = "" if form.compression else packing(data)
        yield _Wrong(f"{refused}; {remedy(packed)}" if packed else refused), 0, 0
        return
    for offset in range(form.header_bytes, len(data) - form.footer_bytes, form.record_bytes):
        yield data[offset : offset + form.record_bytes], offset, 0


def _tfrecords(data: bytes, *, go_on: bool) -> Iterator[Found]:
    offset = 0
    while offset < len(data):
        wrong, length = _problem(data, offset)
        if wrong is None:
            yield data[offset + 12 : offset + 12 + length], offset, 0
        else:
            lost = not offset and wrong != WRONG_DATA
            yield _Wrong(wrong + TFRecords().doubt(data[:PROBED]) if lost else wrong), offset, 0
            if not go_on:
                return
        if wrong not in (None, WRONG_DATA):
            whole = (at for at in range(offset + 1, len(data)) if _problem(data, at)[0] is None)
            offset = next(whole, len(data))
        else:
            offset += length + 16


WRONG_LENGTH, WRONG_DATA = "the checksum of the length is wrong", "the checksum of the data is wrong"


def _problem(data: bytes, offset: int) -> tuple[str | None, int]:
    """What is wrong with a record that begins here, and how long it says that it is."""
    header, length = data[offset : offset + 12], int.from_bytes(data[offset : offset + 8], "little")
    left = len(data) - offset
    if left < 12:
        return f"the file ends {left} bytes into a record", 0
    if _masked(header[:8]) != header[8:]:
        return WRONG_LENGTH, 0
    if left < length + 16:
        return f"the file ends {left} bytes into a record of {length + 16}", 0
    record = data[offset + 12 : offset + 12 + length]
    return None if _masked(record) == data[offset + 12 + length : offset + 16 + length] else WRONG_DATA, length


def _examples(data: bytes, form: Examples, *, go_on: bool) -> Iterator[Found]:
    for record, offset, line in _tfrecords(data, go_on=go_on):
        try:
            good = not isinstance(record, _Wrong)
            yield _example(record, form) if good else record, offset, line
        except ParseError as error:
            yield _Wrong(form.reason(error)), offset, line


def _example(record: bytes, form: Examples) -> Any:
    made = parse_single_example(record, {})  # raises where it is none
    if form.inferred:
        for number, what in ((1, "feature"), (2, "feature list")):
            for name in _names(record, number):
                if number == 2 or name not in dict(form.features):
                    raise ParseError(f"{what} {name!r} is none of those that are described")
    return made | parse_single_example(record, dict(form.features))


def _names(record: bytes, number: int) -> Iterator[str]:
    """The names of the features, or of the feature lists, that hold something."""
    for whole in (f.value for f in fields(memoryview(record)) if f[:2] == (number, 2)):
        for entry in (f.value for f in fields(whole) if f[:2] == (1, 2)):
            parts = {f.number: f.value for f in fields(entry)}
            if any(1 <= f.number <= 3 and f.wire == 2 for f in fields(parts.get(2, memoryview(b"")))):
                yield bytes(parts.get(1, b"")).decode(errors="backslashreplace")


def _masked(data: bytes) -> bytes:
    crc = _native.crc32c(data, portable=True)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
