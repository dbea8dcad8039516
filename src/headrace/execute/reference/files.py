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
from headrace.ops.flat_map import FlatMap
from headrace.ops.interleave import Interleave
from headrace.plan.node import Node
from headrace.records.csv import Csv
from headrace.records.files import read_all
from headrace.records.fixed import FixedLength
from headrace.records.format import Bad, Look
from headrace.records.jsonl import JsonLines
from headrace.records.pieces import Lost, blamed
from headrace.records.reader import At
from headrace.records.tables import rows_of
from headrace.records.text import Lines
from headrace.records.tfrecord import TFRecords
from headrace.sources.files import Files
from headrace.sources.from_tfrecord import Examples
from headrace.sources.records import Records
from headrace.sources.table_rows import TableRows, Tables

Found = tuple[Any, int, int]
"""A value or, as a _Wrong, why there is none; the byte and the line where it begins."""


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
def _(node: Records, at: Place) -> Iterator[Row]:
    for number, (value, offset, line) in enumerate(_found(node)):
        made = node.bad(value, At(offset, number, line)) if isinstance(value, _Wrong) else value
        if node.on_error is None or not isinstance(value, _Wrong):
            yield Row((at.path, number), made)
        elif isinstance(node.format, TFRecords):
            raise NotImplementedError("the reference executor does not look for the record behind a damaged one")


def _found(node: Records) -> Iterator[Found]:
    form = node.format
    try:
        data = read_all(node.path)
    except OSError as error:
        yield _Wrong(error.strerror or error), 0, 0
        return
    if form.compression:
        data = _unpacked(data, form.compression)
    if isinstance(form, Lines):
        yield from _lines(data, form)
    elif isinstance(form, FixedLength):
        yield from _fixed(data, form)
    elif isinstance(form, TFRecords):
        yield from _tfrecords(data)
    elif isinstance(form, Examples):
        yield from _examples(data, form)
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
        groups = form.open(node.path)
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
    offset = 0
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
        yield _Wrong(refused), 0, 0
        return
    for offset in range(form.header_bytes, len(data) - form.footer_bytes, form.record_bytes):
        yield data[offset : offset + form.record_bytes], offset, 0


def _tfrecords(data: bytes) -> Iterator[Found]:
    offset = 0
    while offset < len(data):
        header, length = data[offset : offset + 12], int.from_bytes(data[offset : offset + 8], "little")
        left = len(data) - offset
        if left < 12:
            yield _Wrong(f"the file ends {left} bytes into a record"), offset, 0
            return
        if _masked(header[:8]) != header[8:]:
            doubt = "" if offset else "; is this a TFRecord file at all?"
            yield _Wrong("the checksum of the length is wrong" + doubt), offset, 0
            return
        if left < length + 16:
            yield _Wrong(f"the file ends {left} bytes into a record of {length + 16}"), offset, 0
            return
        record = data[offset + 12 : offset + 12 + length]
        if _masked(record) != data[offset + 12 + length : offset + 16 + length]:
            yield _Wrong("the checksum of the data is wrong"), offset, 0
            return
        yield record, offset, 0
        offset += length + 16


def _examples(data: bytes, form: Examples) -> Iterator[Found]:
    for record, offset, line in _tfrecords(data):
        try:
            good = not isinstance(record, _Wrong)
            yield parse_single_example(record, dict(form.features)) if good else record, offset, line
        except ParseError as error:
            yield _Wrong(str(error)), offset, line


def _masked(data: bytes) -> bytes:
    crc = _native.crc32c(data, portable=True)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
