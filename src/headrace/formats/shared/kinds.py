"""File formats: how each is recognized and read. New formats are registered here."""

from __future__ import annotations

import codecs
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from headrace.formats.shared.format import Format
from headrace.formats.shared.packed import likely_packing
from headrace.formats.shared.reader import first_bytes
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport

if TYPE_CHECKING:
    from headrace.dataset import Dataset

HEAD = 64 << 10
PACKINGS = {".gz", ".zst", ".zlib", ".z"}
OWN_FORMATS = (
    "formats.csv.from_csv",
    "formats.jsonl.source",
    "formats.tables.source",
    "formats.text.source",
    "formats.tfrecord.source",
    "sources.webdataset",
)
"""The modules that register a format when they are imported."""
PLUGINS = "headrace.plugins"
"""The entry-point group whose modules register extensions."""


@dataclass(frozen=True)
class FileFormat:
    """A file format: its name, its reader, the reader's public name, and how a file of it is recognized.

    - `reader(files, **options)` returns a dataset; it takes `on_error`, and `compression_type` if files may be
    compressed. - `magic`: what every file begins with, if anything; `matches(head)` decides if that is ambiguous. -
    `endings` of names count for files that begin like nothing in particular. - `records(compression)`, if rows can be
    read by number: the Format of the records, for `headrace index`. - `columns`: whether rows are dicts, which other
    files of rows can hold.
    """

    name: str
    reader: Callable[..., Dataset]
    called: str
    endings: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    matches: Callable[[bytes], bool] | None = None
    records: Callable[[str], Format] | None = None
    columns: bool = True

    def begins(self, head: bytes) -> bool:
        """Return whether a file that begins like this is one."""
        return head.startswith(self.magic or (b"",)) and (self.matches(head) if self.matches else bool(self.magic))


_formats: dict[str, FileFormat] = {}


def register_format(form: FileFormat) -> FileFormat:
    """Register a format: its files are found, inspected and converted like those of headrace."""
    known = _formats.get(form.name)
    if known is not None and known.reader.__module__ != form.reader.__module__:
        raise ValueError(f"there is a format called {form.name!r} already, read by {known.called}")
    for other in _formats.values():
        shared = set(form.endings) & set(other.endings)
        if other.name != form.name and shared:
            raise ValueError(f"names that end in {min(shared)} are those of {other.name}, not of {form.name}")
    _formats[form.name] = form
    return form


def known_formats() -> dict[str, FileFormat]:
    """The formats by name, those of installed packages included."""
    _load_own()
    _load_plugins()
    return _formats


@cache
def _load_own() -> None:
    """Import headrace's own formats. The package imports a reader only when its name is used."""
    for module in OWN_FORMATS:
        import_module(f"headrace.{module}")


@cache
def _load_plugins() -> None:
    from importlib.metadata import entry_points  # which takes longer than all else here

    for entry in entry_points(group=PLUGINS):
        try:
            entry.load()
        except Exception as error:  # in third-party code, without which everything else works
            warnings.warn(f"{entry.value}, which adds to headrace, cannot be imported: {error!r}", stacklevel=3)


class FileKind(NamedTuple):
    """The name of a format, and that of its compression, as in tf.data."""

    format: str
    compression: str

    @property
    def about(self) -> FileFormat:
        """What is registered of the format."""
        return known_formats()[self.format]

    def open(self, files: list[str], **options: object) -> Dataset:
        """Return the rows of files of this kind."""
        if self.compression:
            options["compression_type"] = self.compression
        return self.about.reader(files, **options)

    def __str__(self) -> str:
        return f"{self.format} ({self.compression})" if self.compression else self.format


def file_kind(path: str, via: Transport = ALONE) -> FileKind:
    """Return the format of a file by its first bytes, or by its name if they are ambiguous."""
    formats = known_formats()
    head = first_bytes(path, "", HEAD, via, packed=True)
    for form in _by_content(head):
        return FileKind(form.name, "")
    compression = likely_packing(head)
    if compression:
        head = b""
        with suppress(OSError):  # damaged from the start, which its reader will report
            head = first_bytes(path, compression, HEAD, via)
        for form in _by_content(head):
            return FileKind(form.name, compression)
    ending = name_ending(path)
    for form in formats.values():
        if ending in form.endings and (not head or not form.magic):
            return FileKind(form.name, compression)
    if b"\0" in head or _is_binary(head):
        raise ValueError(f"{show_path(path)}: neither {', '.join(sorted(set(formats) - {'text'}))} nor text")
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    return FileKind("JSON lines" if text.startswith(b"{") else "text", compression)


def _by_content(head: bytes) -> Iterator[FileFormat]:
    """Formats that a file which begins like this may have, the surest first."""
    for form in sorted(known_formats().values(), key=lambda form: -max(map(len, form.magic), default=0)):
        if form.begins(head):
            yield form


def common_file_kind(paths: list[str]) -> FileKind:
    """Return the kind of files that are read together. Raise ValueError if they differ."""
    kinds = {path: file_kind(path) for path in paths}
    first = kinds[paths[0]]
    for path, kind in kinds.items():
        if kind != first:
            raise ValueError(
                f"{show_path(paths[0])} is {first}, but {show_path(path)} is {kind}: convert them one by one"
            )
    return first


def name_ending(path: str) -> str:
    """Return how a name ends, that of a compression aside."""
    endings = [e.lower() for e in PurePath(path).suffixes if e.lower() not in PACKINGS]
    return endings[-1] if endings else ""


def _is_binary(head: bytes) -> bool:
    try:
        head[: HEAD - 4].decode()
    except UnicodeDecodeError as error:
        return error.end < len(head) - 4
    return False
