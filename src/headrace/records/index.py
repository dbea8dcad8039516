"""Where each record of a file begins: by arithmetic, or as a sidecar says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from headrace.errors import ElementError, HeadraceError
from headrace.records.files import file_identity, file_size, local_path, open_path
from headrace.records.fixed import FixedLength
from headrace.records.format import Format, Offsets
from headrace.records.identity import Identity, signature
from headrace.records.packed import PROBED
from headrace.records.redact import show_path
from headrace.records.sidecar import SavedIndex, fresh_sidecar, kept_sidecar
from headrace.records.transport import ALONE, Transport
from headrace.records.window import FileWindow, open_window

CHUNK = 4 << 20


class Index(Protocol):
    """Where the records of one file lie."""

    count: int
    terminator: bytes
    """What the last record lacks at its end, for it to stand before others."""
    place: str | None
    """The file in which it is kept, if it is."""

    def starts(self, numbers: Offsets) -> Offsets:
        """The bytes at which these records begin; number `count` is the end of the last."""
        ...

    def belongs_to(self, found: Identity) -> bool:
        """Whether it is that of a file of this identity."""
        ...


class Arithmetic:
    """The index of a file of records of one length, of which the size tells everything."""

    terminator = b""
    place: str | None = None

    def __init__(self, form: FixedLength, size: int) -> None:
        self.count = form.count(size)
        self._size = size
        self._first = form.header_bytes
        self._step = form.record_bytes

    def starts(self, numbers: Offsets) -> Offsets:
        return self._first + numbers * self._step

    def belongs_to(self, found: Identity) -> bool:
        return found.size == self._size


def indexes(names: Sequence[str], form: Format, wanted: bool | str, via: Transport = ALONE) -> tuple[Index, ...] | None:
    """An index for each file: built where `wanted` is True, else (`"auto"`) those there are, None if one is missing."""
    if wanted not in (True, "auto"):
        raise ValueError(f'index must be True, False or "auto", not {wanted!r}')
    if wanted == "auto" and (form.compression or any(local_path(name) is None for name in names)):
        return None
    found = []
    for name in names:
        index = index_file(name, form, via) if wanted is True else fresh_index(name, form, via)
        if index is None:
            return None
        found.append(index)
    return tuple(found)


def _check(path: str, form: Format) -> None:
    if form.compression:
        raise ValueError(
            f"{show_path(path)}: a file compressed as {form.compression} cannot be indexed, since it is read from the "
            "start only; write it uncompressed"
        )
    if not form.indexed:
        raise ValueError(f"{show_path(path)}: files of this format cannot be indexed")


def fresh_index(path: str, form: Format, via: Transport = ALONE) -> Index | None:
    """The index of a file, if there is one that belongs to what the file is now."""
    if not isinstance(form, FixedLength):
        return fresh_sidecar(path, form, via)
    try:
        size = file_size(path, via)
    except OSError:
        return None
    return Arithmetic(form, size) if size is not None and not form.refusal(size) else None


def index_file(path: str, form: Format, via: Transport = ALONE) -> Index:
    """The index of a file; made in one pass, and kept, where there is no fresh one."""
    _check(path, form)
    found = fresh_index(path, form, via)
    if found is not None:
        return found
    if isinstance(form, FixedLength):
        raise _damage_error(path, form.refusal(file_size(path, via) or 0) or "its size is not known", 0, 0)
    return kept_sidecar(path, form, scan_index(path, form, via), via)


def scan_index(path: str, form: Format, via: Transport = ALONE) -> SavedIndex:
    """Read a file and return where its records begin, without keeping that anywhere."""
    before, known = _stamp(path, via), file_identity(path, via)
    positions, open_end = _positions(path, form, via)
    if _stamp(path, via) != before:
        raise HeadraceError(f"{show_path(path)} changed while its index was made")
    return SavedIndex(known, positions, open_end)


def _stamp(path: str, via: Transport) -> Any:
    """What changes when the file does."""
    local = local_path(path)
    return file_identity(path, via) if local is None else signature(os.stat(local))  # noqa: PTH116


def _positions(path: str, form: Format, via: Transport) -> tuple[Offsets, bool]:
    """Where every record begins and the last one ends; and whether that one lacks what ends the others."""
    file = open_path(path, via)
    try:
        return _positions_in(path, open_window(file, "", 0, CHUNK), form)
    finally:
        file.close()


def _positions_in(path: str, view: FileWindow, form: Format) -> tuple[Offsets, bool]:
    found: list[Offsets] = []
    count, open_end = 0, False
    try:
        while not view.final:
            view.more()
            if view.offset == 0:
                view.use(form.lead(view.data))
            starts, used, wrong = form.starts(view.data, final=view.final)
            if wrong is not None:
                doubt = "" if view.offset + used else form.doubt(view.data[:PROBED].tobytes())
                raise _damage_error(path, wrong + doubt, count + len(starts), view.offset + used)
            found.append(starts + view.offset)
            count += len(starts)
            if used:
                open_end = form.terminated and bool(view.data[used - 1] != ord("\n"))
            view.use(used)
        return np.concatenate([*found, [view.offset]]).astype(np.int64), open_end
    finally:
        view.close()


def _damage_error(path: str, reason: str, number: int, offset: int) -> ElementError:
    where = f"{show_path(path)}, record {number}, byte {offset}"
    return ElementError(reason, operation="index", ordinal=number, provenance=where)
