"""Where each record of a file begins: by arithmetic, or in a sidecar `FILE.idx`."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ElementError, HeadraceError, TransportError
from headrace.records.files import identity, local_path, opened, read_all, write_whole
from headrace.records.fixed import FixedLength
from headrace.records.format import Format, Offsets
from headrace.records.identity import Identity
from headrace.records.redact import shown
from headrace.records.transport import ALONE, Transport
from headrace.records.window import window

log = logging.getLogger("headrace")

MAGIC = b"headrace index 1\n"
SUFFIX = ".idx"
HEAD = 4096
"""So many bytes of the file are part of what tells whether an index still belongs to it."""
GROUP = 1024
"""Positions are kept as distances from the first of so many records."""
CHUNK = 4 << 20


class Index(Protocol):
    """Where the records of one file lie."""

    count: int
    identity: Identity
    terminator: bytes
    """What the last record lacks at its end, for it to stand before others."""

    def starts(self, numbers: Offsets) -> Offsets:
        """The bytes at which these records begin; number `count` is the end of the last."""
        ...


class Arithmetic:
    """The index of a file of records of one length."""

    terminator = b""

    def __init__(self, form: FixedLength, known: Identity) -> None:
        assert known.size is not None
        self.count = form.count(known.size)
        self.identity = known
        self._first = form.header_bytes
        self._step = form.record_bytes

    def starts(self, numbers: Offsets) -> Offsets:
        return self._first + numbers * self._step


class Sidecar:
    """Positions, as many as there are records and one more for the end."""

    def __init__(self, header: dict[str, Any], bases: Offsets, deltas: NDArray[Any]) -> None:
        self.count: int = header["count"]
        self.identity = Identity(header["size"], header["stamp"])
        self.terminator = b"\n" if header["open"] else b""
        self._bases = bases
        self._deltas = deltas

    def starts(self, numbers: Offsets) -> Offsets:
        return self._bases[numbers // GROUP] + self._deltas[numbers].astype(np.int64)


def indexes(names: Sequence[str], form: Format, wanted: bool | str, via: Transport = ALONE) -> tuple[Index, ...] | None:
    """An index for each file: built where `wanted` is True, else (`"auto"`) those there are, None if one is missing."""
    if wanted not in (True, "auto"):
        raise ValueError(f'index must be True, False or "auto", not {wanted!r}')
    if wanted == "auto" and (form.compression or any(local_path(name) is None for name in names)):
        return None
    found = []
    for name in names:
        index = build_index(name, form, via) if wanted is True else fresh_index(name, form, via)
        if index is None:
            return None
        found.append(index)
    return tuple(found)


def _check(path: str, form: Format) -> None:
    if form.compression:
        raise ValueError(
            f"{shown(path)}: a file compressed as {form.compression} cannot be indexed, since it is read from the "
            "start only; write it uncompressed"
        )
    if not form.indexed:
        raise ValueError(f"{shown(path)}: files of this format cannot be indexed")


def fresh_index(path: str, form: Format, via: Transport = ALONE) -> Index | None:
    """The index of a file, if there is one that belongs to what the file is now."""
    try:
        known = identity(path, via)
        if isinstance(form, FixedLength):
            return Arithmetic(form, known) if known.size is not None and not form.refusal(known.size) else None
        header, bases, deltas = _loaded(read_all(path + SUFFIX, via=via))
        if header == {**header, **_described(path, form, known, via)}:
            return Sidecar(header, bases, deltas)
    except (OSError, ValueError, KeyError):
        return None
    log.info("%s%s is stale: %s has changed since it was made", shown(path), SUFFIX, shown(path))
    return None


def build_index(path: str, form: Format, via: Transport = ALONE) -> Index:
    """The index of a file; made in one pass and written beside it where there is no fresh one."""
    _check(path, form)
    found = fresh_index(path, form, via)
    if found is not None:
        return found
    if isinstance(form, FixedLength):
        raise _damaged(path, form.refusal(identity(path, via).size or 0) or "its size is not known", 0, 0)
    known = identity(path, via)
    described = _described(path, form, known, via)
    positions, open_end = _positions(path, form, via)
    if identity(path, via) != known:
        raise HeadraceError(f"{shown(path)} changed while its index was made")
    count = len(positions) - 1
    bases = positions[::GROUP].copy()
    deltas = positions - np.repeat(bases, GROUP)[: len(positions)]
    deltas = deltas.astype(np.uint32 if not len(deltas) or deltas.max() < 2**32 else np.uint64)
    arrays = bases.tobytes() + deltas.tobytes()
    header = {**described, "count": count, "open": open_end, "wide": deltas.itemsize, "crc": zlib.crc32(arrays)}
    try:
        write_whole(path + SUFFIX, [MAGIC, json.dumps(header).encode(), b"\n", arrays], via)
    except (OSError, TransportError) as error:
        log.warning("the index of %s is not kept: %s", shown(path), error)
    return Sidecar(header, bases, deltas)


def _described(path: str, form: Format, known: Identity, via: Transport) -> dict[str, Any]:
    """What must agree between an index and its file."""
    head = zlib.crc32(read_all(path, HEAD, via))
    return {"format": type(form).__name__, "size": known.size, "stamp": known.stamp, "head": head}


def _loaded(data: bytes) -> tuple[dict[str, Any], Offsets, NDArray[Any]]:
    if not data.startswith(MAGIC):
        raise ValueError("no index of headrace's")
    line = data.index(b"\n", len(MAGIC))
    header = json.loads(data[len(MAGIC) : line])
    arrays = memoryview(data)[line + 1 :]
    groups = header["count"] // GROUP + 1
    wide = np.uint32 if header["wide"] == 4 else np.uint64
    if len(arrays) != 8 * groups + header["wide"] * (header["count"] + 1) or zlib.crc32(arrays) != header["crc"]:
        raise ValueError("the index is damaged")
    return header, np.frombuffer(arrays[: 8 * groups], np.int64), np.frombuffer(arrays[8 * groups :], wide)


class _Positions(NamedTuple):
    positions: Offsets
    open_end: bool


def _positions(path: str, form: Format, via: Transport) -> _Positions:
    """Where every record begins, and the last one ends."""
    file = opened(path, via)
    try:
        view = window(file, "", 0, CHUNK)
        found: list[Offsets] = []
        count, open_end = 0, False
        while not view.final:
            view.more()
            if view.offset == 0:
                view.use(form.lead(view.data))
            starts, used, wrong = form.starts(view.data, final=view.final)
            if wrong is not None:
                raise _damaged(path, wrong, count + len(starts), view.offset + used)
            found.append(starts + view.offset)
            count += len(starts)
            if used:
                open_end = form.terminated and bool(view.data[used - 1] != ord("\n"))
            view.use(used)
        return _Positions(np.concatenate([*found, [view.offset]]).astype(np.int64), open_end)
    finally:
        view.close()
        file.close()


def _damaged(path: str, reason: str, number: int, offset: int) -> ElementError:
    where = f"{shown(path)}, record {number}, byte {offset}"
    return ElementError(reason, operation="index", ordinal=number, provenance=where)
