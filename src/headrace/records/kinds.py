"""Kinds of files: how each is recognised and read. Whoever adds a format registers it here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.records.format import Format
from headrace.records.packed import likely_packing
from headrace.records.reader import first_bytes
from headrace.records.text import MARK
from headrace.records.transport import ALONE, Transport

if TYPE_CHECKING:
    from headrace.dataset import Dataset

HEAD = 64 << 10
PACKINGS = {".gz", ".zst", ".zlib", ".z"}
PLUGINS = "headrace.plugins"
"""The group of entry points whose modules register what they add."""


@dataclass(frozen=True)
class FileFormat:
    """A format of files: its name, what reads it, how users call that, and how a file of it is recognised.

    - `reader(files, **options)` gives a dataset; it takes `on_error`, and `compression_type` where files may be packed.
    - `magic`: what every file begins with, if anything; `matches(head)` is asked where that says too little.
    - `endings` of names count for files that begin like nothing in particular.
    - `records(compression)`, where rows can be found by number: the Format of the records, for `headrace index`.
    - `columns`: whether rows are dicts, which other files of rows can hold.
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
        """Whether a file that begins like this is one."""
        return head.startswith(self.magic or (b"",)) and (self.matches(head) if self.matches else bool(self.magic))


_formats: dict[str, FileFormat] = {}


def register_format(form: FileFormat) -> FileFormat:
    """Have files of this format found, inspected and converted as those of headrace's own are."""
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
    _load_plugins()
    return _formats


@cache
def _load_plugins() -> None:
    from importlib.metadata import entry_points  # which takes longer than all else here

    for entry in entry_points(group=PLUGINS):
        try:
            entry.load()
        except Exception as error:  # of somebody else's code, without which everything else works
            warnings.warn(f"{entry.value}, which adds to headrace, cannot be imported: {error!r}", stacklevel=3)


class FileKind(NamedTuple):
    """The name of a format, and that of its compression, as tf.data has it."""

    format: str
    compression: str

    @property
    def about(self) -> FileFormat:
        """What is registered of the format."""
        return known_formats()[self.format]

    def open(self, files: list[str], **options: Any) -> Dataset:
        """The rows of files of this kind."""
        if self.compression:
            options["compression_type"] = self.compression
        return self.about.reader(files, **options)

    def __str__(self) -> str:
        return f"{self.format} ({self.compression})" if self.compression else self.format


def file_kind(path: str, via: Transport = ALONE) -> FileKind:
    """What a file is, by what it begins with, and its name where that says nothing."""
    formats = known_formats()
    head = first_bytes(path, "", HEAD, via, packed=True)
    for form in _by_content(head):
        return FileKind(form.name, "")
    compression = likely_packing(head)
    if compression:
        head = b""
        with suppress(OSError):  # damaged from the start, as who reads it will say
            head = first_bytes(path, compression, HEAD, via)
        for form in _by_content(head):
            return FileKind(form.name, compression)
    ending = name_ending(path)
    for form in formats.values():
        if ending in form.endings and (not head or not form.magic):
            return FileKind(form.name, compression)
    if b"\0" in head or _is_binary(head):
        raise ValueError(f"{path}: neither {', '.join(sorted(set(formats) - {'text'}))} nor text")
    text = head.removeprefix(MARK).lstrip()
    return FileKind("JSON lines" if text.startswith(b"{") else "text", compression)


def _by_content(head: bytes) -> Iterator[FileFormat]:
    """Formats that a file which begins like this may have, the surest first."""
    for form in sorted(known_formats().values(), key=lambda form: -max(map(len, form.magic), default=0)):
        if form.begins(head):
            yield form


def common_file_kind(paths: list[str]) -> FileKind:
    """What files are that are read together."""
    kinds = {path: file_kind(path) for path in paths}
    first = kinds[paths[0]]
    for path, kind in kinds.items():
        if kind != first:
            raise ValueError(f"{paths[0]} is {first}, but {path} is {kind}: convert them one by one")
    return first


def name_ending(path: str) -> str:
    """How a name ends, that of a compression aside."""
    endings = [e.lower() for e in PurePath(path).suffixes if e.lower() not in PACKINGS]
    return endings[-1] if endings else ""


def _is_binary(head: bytes) -> bool:
    try:
        head[: HEAD - 4].decode()
    except UnicodeDecodeError as error:
        return error.end < len(head) - 4
    return False
