"""What kind of file it is, and how it is read."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import headrace as hr
from headrace.records.format import Bad, ScanHints
from headrace.records.ipc import SCHEMA, FlatTable
from headrace.records.packed import likely_packing
from headrace.records.reader import first_bytes
from headrace.records.text import MARK
from headrace.records.tfrecord import TFRecords

if TYPE_CHECKING:
    from headrace.dataset import Dataset

HEAD = 64 << 10
MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow"}
ENDINGS = {
    ".tfrecord": "TFRecord", ".tfrecords": "TFRecord", ".csv": "CSV", ".tsv": "CSV", ".jsonl": "JSON lines",
    ".ndjson": "JSON lines", ".parquet": "Parquet", ".arrow": "Arrow", ".arrows": "Arrow", ".feather": "Arrow",
    ".txt": "text",
}  # fmt: skip
CONTINUED = b"\xff\xff\xff\xff"
PACKINGS = {".gz", ".zst", ".zlib", ".z"}
READERS = {
    "TFRecord": "TFRecordDataset", "CSV": "Dataset.from_csv", "JSON lines": "JsonLinesDataset",
    "Parquet": "ParquetDataset", "Arrow": "ArrowDataset", "text": "TextLineDataset",
}  # fmt: skip


class Kind(NamedTuple):
    """A format, and the name of its compression, as tf.data has it."""

    format: str
    compression: str

    @property
    def reader(self) -> str:
        """The name of what reads it, after `hr.`."""
        return READERS[self.format]

    def open(self, files: list[str], **options: Any) -> Dataset:
        """The rows of files of this kind."""
        if self.compression:
            options["compression_type"] = self.compression
        if self.format == "CSV" and all(_ending(path) == ".tsv" for path in files):
            options["field_delim"] = "\t"
        made: Dataset = attrgetter(self.reader)(hr)(files, **options)
        return made


def kind_of(path: str) -> Kind:
    """What a file is, by what it begins with, and its name where that says nothing."""
    head = first_bytes(path, "", HEAD, packed=True)
    if _is_tfrecord(head):
        return Kind("TFRecord", "")
    compression = likely_packing(head)
    if compression:
        head = b""
        with suppress(OSError):  # damaged from the start, as who reads it will say
            head = first_bytes(path, compression, HEAD)
    if _is_tfrecord(head):
        return Kind("TFRecord", compression)
    for magic, name in MAGIC.items():
        if head.startswith(magic):
            return Kind(name, compression)
    if _is_arrow_stream(head):
        return Kind("Arrow", compression)
    named = ENDINGS.get(_ending(path))
    if named is not None and (named not in MAGIC.values() or not head):
        return Kind(named, compression)
    if b"\0" in head or _is_binary(head):
        raise ValueError(f"{path}: neither TFRecord, Parquet, Arrow, JSON lines, CSV nor text")
    text = head.removeprefix(MARK).lstrip()
    return Kind("JSON lines" if text.startswith(b"{") else "text", compression)


def kind_of_all(paths: list[str]) -> Kind:
    """What files are that are read together."""
    kinds = {path: kind_of(path) for path in paths}
    first = kinds[paths[0]]
    for path, kind in kinds.items():
        if kind != first:
            raise ValueError(f"{paths[0]} is {_text(first)}, but {path} is {_text(kind)}: convert them one by one")
    return first


def _ending(path: str) -> str:
    endings = [e.lower() for e in PurePath(path).suffixes if e.lower() not in PACKINGS]
    return endings[-1] if endings else ""


def _text(kind: Kind) -> str:
    return f"{kind.format} ({kind.compression})" if kind.compression else kind.format


def _is_tfrecord(head: bytes) -> bool:
    if len(head) < 12:
        return False
    found = TFRecords().scan(np.frombuffer(head, np.uint8), ScanHints(first=True, final=False)).parts[:1]
    return not (found and isinstance(found[0], Bad) and found[0].lost)


def _is_arrow_stream(head: bytes) -> bool:
    """Whether the first message is a schema."""
    try:
        return head.startswith(CONTINUED) and FlatTable.root(head[8:]).number(1, "<B") == SCHEMA
    except ValueError:
        return False


def _is_binary(head: bytes) -> bool:
    try:
        head[: HEAD - 4].decode()
    except UnicodeDecodeError as error:
        return error.end < len(head) - 4
    return False
