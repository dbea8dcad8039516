"""The offsets of all records of a file: by arithmetic, or from a sidecar."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from headrace.core.types import JsonValue
from headrace.errors import ElementError, HeadraceError
from headrace.formats.shared.files import file_identity, file_size, local_path, open_path
from headrace.formats.shared.format import Format, Offsets
from headrace.formats.shared.packed import PROBE_BYTES
from headrace.formats.shared.reader import warn_of_end
from headrace.formats.shared.sidecar import (
    MAX_CHECKED_BYTES,
    SavedIndex,
    Sidecar,
    fresh_sidecar,
    kept_sidecar,
    put_beside,
)
from headrace.formats.shared.window import FileWindow, open_window
from headrace.plan.capabilities import provides
from headrace.remote.identity import Identity, signature
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport

SCAN_CHUNK_BYTES = 4 << 20


class Index(Protocol):
    """The offsets of the records of one file."""

    count: int
    terminator: bytes
    """The terminator that the last record lacks, to append before others follow."""
    place: str | None
    """The file in which it is kept, if it is."""

    def starts(self, numbers: Offsets) -> Offsets:
        """Return the bytes at which these records begin; number `count` is the end of the last."""
        ...

    def belongs_to(self, found: Identity) -> bool:
        """Return whether it is that of a file of this identity."""
        ...


class CountsBySize(Protocol):
    """A format whose records are found by arithmetic: all have the same number of bytes."""

    @property
    def record_bytes(self) -> int:
        """The size of each record."""

    @property
    def header_bytes(self) -> int:
        """How many bytes come before the first."""

    def count(self, size: int) -> int:
        """Return how many records a file of this size holds."""

    def refusal(self, size: int) -> str | None:
        """Return why a file of this size cannot be one."""


class Arithmetic:
    """The index of a file of fixed-length records, computed from its size."""

    terminator = b""
    place: str | None = None

    def __init__(self, form: CountsBySize, size: int) -> None:
        self.count: int = form.count(size)
        self._size = size
        self._first = form.header_bytes
        self._step = form.record_bytes

    def starts(self, numbers: Offsets) -> Offsets:
        return self._first + numbers * self._step

    def belongs_to(self, found: Identity) -> bool:
        return found.size == self._size


def indexes(names: Sequence[str], form: Format, wanted: bool | str, via: Transport = ALONE) -> tuple[Index, ...] | None:
    """Return an index for each file, or None if one is missing and none is to be made.

    Args:
        names: The files.
        form: The format of their records.
        wanted: `"auto"` takes those there are. True makes missing ones, kept in the user's cache folder; `"beside"`
            writes them beside the files.
        via: How stores are reached.
    """
    if wanted not in (True, "auto", "beside"):
        raise ValueError(f'index must be True, False, "auto" or "beside", not {wanted!r}')
    if wanted == "auto" and (form.compression or any(local_path(name) is None for name in names)):
        return None
    found = []
    for name in names:
        made = wanted != "auto"
        index = index_file(name, form, via, beside=wanted == "beside") if made else fresh_index(name, form, via)
        if index is None:
            return None
        if form.has_end and local_path(name) is not None:
            _check_end(name, index, form)
        found.append(index)
    return tuple(found)


def _check_end(path: str, index: Index, form: Format) -> None:
    """Warn if a file on this machine lacks its end: rows that are found by number are read without reading that."""
    lacks = ""
    start = int(index.starts(np.array([max(0, index.count - 1)]))[0]) if index.count else 0
    with suppress(OSError, ValueError):  # the reader reports what is wrong with it
        file = open_path(path)
        try:
            size = (file.size or 0) - start
            data = np.empty(min(size, MAX_CHECKED_BYTES), np.uint8)
            if size != len(data) or file.read_into(data, start) != size:
                return
        finally:
            file.close()
        lacks = form.missing_end(data)
    warn_of_end(path, lacks)


def _check(path: str, form: Format) -> None:
    if form.compression:
        raise ValueError(
            f"{show_path(path)}: a file compressed as {form.compression} cannot be indexed, since it is read from the "
            "start only; write it uncompressed"
        )
    if not form.indexed:
        raise ValueError(f"{show_path(path)}: files of this format cannot be indexed")


def fresh_index(path: str, form: Format, via: Transport = ALONE) -> Index | None:
    """Return the index of a file, if there is one that belongs to what the file is now."""
    if not provides(form, CountsBySize):
        return fresh_sidecar(path, form, via)
    try:
        size = file_size(path, via)
    except OSError:
        return None
    return Arithmetic(form, size) if size is not None and not form.refusal(size) else None


def index_file(path: str, form: Format, via: Transport = ALONE, *, beside: bool = False) -> Index:
    """Return the index of a file; it is made in one pass and kept if there is no fresh one.

    Args:
        path: The file.
        form: The format of its records.
        via: How stores are reached.
        beside: Keep it beside the file; else in the user's cache folder.
    """
    _check(path, form)
    found = fresh_index(path, form, via)
    if found is not None:
        return put_beside(path, found, via) if beside and isinstance(found, Sidecar) else found
    if provides(form, CountsBySize):
        raise _damage_error(path, form.refusal(file_size(path, via) or 0) or "its size is not known", 0, 0)
    return kept_sidecar(path, form, scan_index(path, form, via), via, beside=beside)


def scan_index(path: str, form: Format, via: Transport = ALONE) -> SavedIndex:
    """Read a file and return the offsets of its records, without storing them."""
    before, known = _stamp(path, via), file_identity(path, via)
    positions, open_end = _positions(path, form, via)
    if _stamp(path, via) != before:
        raise HeadraceError(f"{show_path(path)} changed while its index was made")
    return SavedIndex(known, positions, open_end)


def _stamp(path: str, via: Transport) -> JsonValue:
    """Return what changes when the file does."""
    local = local_path(path)
    return file_identity(path, via) if local is None else signature(os.stat(local))  # noqa: PTH116


def _positions(path: str, form: Format, via: Transport) -> tuple[Offsets, bool]:
    """Return where every record begins and the last one ends, and whether that one lacks a terminator."""
    file = open_path(path, via)
    try:
        view = open_window(file, "", 0, SCAN_CHUNK_BYTES, max_record_bytes=via.max_record_bytes)
        return _positions_in(path, view, form)
    finally:
        file.close()


def _positions_in(path: str, view: FileWindow, form: Format) -> tuple[Offsets, bool]:
    found: list[Offsets] = []
    count, open_end, tail = 0, False, view.data
    try:
        while not view.final:
            view.more()
            if view.offset == 0:
                view.use(form.lead(view.data))
            starts, used, wrong = form.starts(view.data, final=view.final)
            if wrong is not None:
                doubt = "" if view.offset + used else form.doubt(view.data[:PROBE_BYTES].tobytes())
                raise _damage_error(path, wrong + doubt, count + len(starts), view.offset + used)
            tail = view.data[int(starts[-1]) if len(starts) else 0 :]
            found.append(starts + view.offset)
            count += len(starts)
            if used:
                open_end = form.terminated and bool(view.data[used - 1] != ord("\n"))
            view.use(used)
        if view.damage is not None:
            raise _damage_error(path, view.damage, count, view.offset)
        if form.has_end:
            warn_of_end(path, form.missing_end(tail))
        return np.concatenate([*found, [view.offset]]).astype(np.int64), open_end
    finally:
        view.close()


def _damage_error(path: str, reason: str, number: int, offset: int) -> ElementError:
    where = f"{show_path(path)}, record {number}, byte {offset}"
    return ElementError(reason, operation="index", ordinal=number, provenance=where)
