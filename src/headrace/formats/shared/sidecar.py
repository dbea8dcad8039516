"""Sidecars: files with the offsets of the records of other files, where they are kept, and when they are trusted.

Readers keep the indexes they make in the user's cache folder (`index_cache.py`) and write nothing beside the data. What
a user asks for, or writes, is kept beside it: that of `data/x.tfrecord` is `data/.headrace/x.tfrecord.idx`, where no
pattern for data finds it.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headrace.core.owned_file import read_bytes
from headrace.core.types import Array, JsonObject
from headrace.errors import TransportError
from headrace.formats.shared.files import File, local_path, open_path, read_all, read_range, write_whole
from headrace.formats.shared.format import Format, Offsets
from headrace.formats.shared.index_cache import SUFFIX, cached_path, index_cache, keep_index, read_index
from headrace.remote.identity import Identity
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport
from headrace.storage.files import clear_stale

log: logging.Logger = logging.getLogger("headrace")

FOLDER = ".headrace"
KIND, VERSION = b"headrace index ", b"2\n"
HEADER = {"format": str, "size": int, "stamp": str, "count": int, "open": bool, "wide": int, "crc": int}
"""The fields of the header and their types."""
HEADER_BYTES = 4096
RECORDS_PER_GROUP = 1024
"""Offsets are stored as distances from the first of this many records."""
RECORDS_CHECKED = 8
"""How many records are checked against the file before an index is trusted."""
MAX_CHECKED_BYTES = 64 << 10


class Sidecar:
    """Offsets, one for each record and one for the end."""

    def __init__(self, header: JsonObject, bases: Offsets, deltas: Array, place: str | None = None) -> None:
        self.count: int = header["count"]
        self.identity: Identity = Identity(header["size"], header["stamp"])
        self.terminator = b"\n" if header["open"] else b""
        self.place = place
        self._bases = bases
        self._deltas = deltas

    def starts(self, numbers: Offsets) -> Offsets:
        return self._bases[numbers // RECORDS_PER_GROUP] + self._deltas[numbers].astype(np.int64)

    def belongs_to(self, found: Identity) -> bool:
        return found == self.identity


def beside_path(path: str) -> str:
    """Return where the sidecar of a file is kept beside it."""
    local = local_path(path)
    folder, slash, name = (path if local is None else local).rpartition("/")
    return f"{folder}{slash}{FOLDER}/{name}{SUFFIX}"


def is_sidecar(path: str, via: Transport = ALONE) -> bool:
    """Return whether this is the index of a file, and holds no records itself."""
    if not path.endswith(SUFFIX):
        return False
    try:
        return read_range(path, 0, len(KIND), via) == KIND
    except OSError:
        return False


def fresh_sidecar(path: str, form: Format, via: Transport) -> Sidecar | None:
    """Return the sidecar of a file, if there is one that belongs to what the file is now."""
    for place, data in _kept_bytes(path, form, via):
        found = _load(data, form, place)
        if found is not None and _fits(found, path, form, via):
            return found
        log.info("%s is damaged, or %s has changed since it was made", show_path(place), show_path(path))
    return None


def _kept_bytes(path: str, form: Format, via: Transport) -> Iterator[tuple[str, bytes]]:
    """Yield the places where a sidecar of this file was found, and what it holds: first that beside the file."""
    with suppress(OSError):
        yield (place := beside_path(path)), read_all(place, via)
    folder = index_cache()
    if folder is None or not folder.is_dir():
        return
    with suppress(OSError):
        cached = cached_path(path, type(form).__name__)
        if cached is not None:
            yield str(cached), read_index(cached)


def _load(data: bytes, form: Format, place: str) -> Sidecar | None:
    """Return the index in these bytes; None if they are invalid, or for another format."""
    start = len(KIND + VERSION)
    stop = data.find(b"\n", start, start + HEADER_BYTES)
    if not data.startswith(KIND + VERSION) or stop < 0:
        return None
    try:
        header = json.loads(data[start:stop].decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or {name: type(value) for name, value in header.items()} != HEADER:
        return None
    arrays = memoryview(data)[stop + 1 :]
    count, wide, groups = header["count"], header["wide"], header["count"] // RECORDS_PER_GROUP + 1
    if count < 0 or wide not in (4, 8) or len(arrays) != 8 * groups + wide * (count + 1):
        return None
    bases = np.frombuffer(arrays[: 8 * groups], np.int64)
    deltas = np.frombuffer(arrays[8 * groups :], np.uint32 if wide == 4 else np.uint64)
    named = header["format"] == type(form).__name__ and header["crc"] == zlib.crc32(arrays)
    return Sidecar(header, bases, deltas, place) if named and _in_order(bases, deltas, header["size"]) else None


def _in_order(bases: Offsets, deltas: Array, size: int) -> bool:
    """Return whether offsets increase and the last is within the file."""
    if (
        not 0 <= size < 2**62
        or bases.min() < 0
        or bases.max() > size
        or deltas.max() > size
        or deltas[::RECORDS_PER_GROUP].any()
    ):
        return False
    steps = deltas[1:] > deltas[:-1]
    steps[RECORDS_PER_GROUP - 1 :: RECORDS_PER_GROUP] = bases[1:] > bases[:-1] + deltas[
        RECORDS_PER_GROUP - 1 : -1 : RECORDS_PER_GROUP
    ].astype(np.int64)
    return bool(steps.all()) and int(bases[-1]) + int(deltas[-1]) <= size


def _fits(found: Sidecar, path: str, form: Format, via: Transport) -> bool:
    """Return whether a sidecar belongs to the file: compare the file's identity, its end, and some of its records."""
    end, size = int(found.starts(np.array([found.count]))[0]), found.identity.size or 0
    try:
        file = open_path(path, via)
        try:
            if not found.belongs_to(file.identity()) or not _holds(file, form, end, size, 0):
                return False
            return all(_holds(file, form, start, stop, 1) for start, stop in _some_records(found, path))
        finally:
            file.close()
    except OSError:
        return False


def _some_records(found: Sidecar, path: str) -> list[list[int]]:
    """Return where some of the records that can be checked quickly begin and end."""
    if local_path(path) is None or not found.count:  # a store needs a request for each
        return []
    numbers = np.arange(min(found.count, RECORDS_CHECKED)) * (found.count - 1) // max(1, RECORDS_CHECKED - 1)
    bounds = np.stack([found.starts(numbers), found.starts(numbers + 1)], 1)
    made: list[list[int]] = bounds[bounds[:, 1] - bounds[:, 0] <= MAX_CHECKED_BYTES].tolist()
    return made


def _holds(file: File, form: Format, start: int, stop: int, records: int) -> bool:
    """Return whether there are exactly `records` records between two offsets."""
    if stop - start > MAX_CHECKED_BYTES:
        return False
    data = np.empty(stop - start, np.uint8)
    if stop > start and file.read_into(data, start) < len(data):
        return False
    starts, used, wrong = form.starts(data, final=True)
    return wrong is None and len(starts) == records and (used == len(data) or not records)


class SavedIndex(NamedTuple):
    """Record offsets of a file of this identity; `open_end`: the last record lacks a terminator."""

    identity: Identity
    positions: Offsets
    open_end: bool


def kept_sidecar(path: str, form: Format, found: SavedIndex, via: Transport, *, beside: bool) -> Sidecar:
    """Return a sidecar, written where the next reader finds it if possible.

    Args:
        path: The file with the records.
        form: The format of the records.
        found: Where they begin.
        via: How stores are reached.
        beside: Write it beside the file, and into the user's cache folder only if that fails; else always there.
    """
    positions = found.positions
    bases = positions[::RECORDS_PER_GROUP].copy()
    deltas = positions - np.repeat(bases, RECORDS_PER_GROUP)[: len(positions)]
    deltas = deltas.astype(np.uint32 if deltas.max() < 2**32 else np.uint64)
    arrays = bases.tobytes() + deltas.tobytes()
    header = {
        "format": type(form).__name__, "size": found.identity.size or 0, "stamp": found.identity.stamp,
        "count": len(positions) - 1, "open": found.open_end, "wide": deltas.itemsize, "crc": zlib.crc32(arrays),
    }  # fmt: skip
    parts = [KIND + VERSION, json.dumps(header).encode(), b"\n", arrays]
    place, why = _write_beside(path, parts, via) if beside else (None, None)
    if place is None:
        place, why = _write_to_cache(cached_path(path, type(form).__name__), parts, why)
    if place is None:
        log.warning("the index of %s is not kept: %s", show_path(path), why)
    return Sidecar(header, bases, deltas, place)


def _write_beside(path: str, parts: Sequence[bytes], via: Transport) -> tuple[str | None, Exception | None]:
    """Write a sidecar beside its file; returns where, or why not."""
    place = beside_path(path)
    try:
        local = local_path(place)
        if local is not None:
            Path(local).parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, list(parts), via)
    except (OSError, TransportError) as error:
        return None, error
    return place, None


def _write_to_cache(
    place: Path | None, parts: Sequence[bytes], why: Exception | None
) -> tuple[str | None, Exception | None]:
    """Write a sidecar into the user's cache folder, replacing a damaged one; returns where, or why not."""
    if place is None:
        return None, why or FileNotFoundError("the user has no home folder, and XDG_CACHE_HOME is not set")
    try:
        place.unlink(missing_ok=True)
        return (str(place), None) if keep_index(place, parts) else (None, OSError("it is larger than the cache may be"))
    except OSError as error:
        return None, error


def put_beside(path: str, found: Sidecar, via: Transport) -> Sidecar:
    """Copy a sidecar of the cache folder to where its file is; returns it as it was if that fails."""
    if found.place is None or found.place == beside_path(path):
        return found
    try:
        data = read_bytes(found.place)
    except OSError:  # another process needed the room
        return found
    place, _ = _write_beside(path, [data], via)
    if place is not None:
        found.place = place
    return found


def drop_orphans(path: str) -> None:
    """Remove the sidecars beside this local file whose files are not there any more, and what killed writers left."""
    folder = Path(beside_path(path)).parent
    with suppress(OSError):  # there is none, or it is not ours to change
        for sidecar in folder.glob(f"*{SUFFIX}"):
            if not os.path.lexists(folder.parent / sidecar.name.removesuffix(SUFFIX)):
                sidecar.unlink(missing_ok=True)
        clear_stale(folder)
        folder.rmdir()
