"""Files that say where the records of other files begin: where they lie, and when they are believed.

That of `data/x.tfrecord` is `data/.headrace/x.tfrecord.idx`, where no pattern for data finds it, or lies in the user's
cache folder, if nothing can be written beside the data.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.errors import TransportError
from headrace.records.files import File, local_path, open_path, read_all, read_range, write_whole
from headrace.records.format import Format, Offsets
from headrace.records.identity import Identity
from headrace.records.redact import show_path
from headrace.records.transport import ALONE, Transport
from headrace.storage.files import clear_stale

log = logging.getLogger("headrace")

FOLDER, SUFFIX = ".headrace", ".idx"
KIND, VERSION = b"headrace index ", b"2\n"
HEADER = {"format": str, "size": int, "stamp": str, "count": int, "open": bool, "wide": int, "crc": int}
"""What the header says, and of which type each is."""
HEADER_BYTES = 4096
GROUP = 1024
"""Positions are kept as distances from the first of so many records."""
CHECKED = 8
"""So many records are looked at before an index is believed, to see whether they lie where it says."""
CHECKED_BYTES = 64 << 10


class Sidecar:
    """Positions, as many as there are records and one more for the end."""

    def __init__(self, header: dict[str, Any], bases: Offsets, deltas: NDArray[Any], place: str | None = None) -> None:
        self.count: int = header["count"]
        self.identity = Identity(header["size"], header["stamp"])
        self.terminator = b"\n" if header["open"] else b""
        self.place = place
        self._bases = bases
        self._deltas = deltas

    def starts(self, numbers: Offsets) -> Offsets:
        return self._bases[numbers // GROUP] + self._deltas[numbers].astype(np.int64)

    def belongs_to(self, found: Identity) -> bool:
        return found == self.identity


def sidecar_paths(path: str) -> Iterator[str]:
    """Where the sidecar of a file may lie, the best place first."""
    local = local_path(path)
    folder, slash, name = (path if local is None else local).rpartition("/")
    yield f"{folder}{slash}{FOLDER}/{name}{SUFFIX}"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path's may raise
    if local is not None and not cache.startswith("~"):  # as it does for a user without a home
        whole = hashlib.blake2b(os.fsencode(Path(local).absolute()), digest_size=12).hexdigest()
        yield str(Path(cache, "headrace", "indexes", whole + SUFFIX))


def is_sidecar(path: str, via: Transport = ALONE) -> bool:
    """Whether this is the index of a file, and holds no records itself."""
    if not path.endswith(SUFFIX):
        return False
    try:
        return read_range(path, 0, len(KIND), via) == KIND
    except OSError:
        return False


def fresh_sidecar(path: str, form: Format, via: Transport) -> Sidecar | None:
    """The sidecar of a file, if there is one that belongs to what the file is now."""
    for place in sidecar_paths(path):
        try:
            data = read_all(place, via)
        except OSError:
            continue
        found = _load(data, form, place)
        if found is not None and _fits(found, path, form, via):
            return found
        log.info("%s is damaged, or %s has changed since it was made", show_path(place), show_path(path))
    return None


def _load(data: bytes, form: Format, place: str) -> Sidecar | None:
    """What these bytes say, None if they are nonsense, or about another format."""
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
    count, wide, groups = header["count"], header["wide"], header["count"] // GROUP + 1
    if count < 0 or wide not in (4, 8) or len(arrays) != 8 * groups + wide * (count + 1):
        return None
    bases = np.frombuffer(arrays[: 8 * groups], np.int64)
    deltas = np.frombuffer(arrays[8 * groups :], np.uint32 if wide == 4 else np.uint64)
    named = header["format"] == type(form).__name__ and header["crc"] == zlib.crc32(arrays)
    return Sidecar(header, bases, deltas, place) if named and _in_order(bases, deltas, header["size"]) else None


def _in_order(bases: Offsets, deltas: NDArray[Any], size: int) -> bool:
    """Whether each record begins behind the one before it, and the last ends within the file."""
    if not 0 <= size < 2**62 or bases.min() < 0 or bases.max() > size or deltas.max() > size or deltas[::GROUP].any():
        return False
    steps = deltas[1:] > deltas[:-1]
    steps[GROUP - 1 :: GROUP] = bases[1:] > bases[:-1] + deltas[GROUP - 1 : -1 : GROUP].astype(np.int64)
    return bool(steps.all()) and int(bases[-1]) + int(deltas[-1]) <= size


def _fits(found: Sidecar, path: str, form: Format, via: Transport) -> bool:
    """Whether a sidecar is that of the file: by what the file is, by its end, and by some of its records."""
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
    """Where some of the records that can be looked at quickly begin and end."""
    if local_path(path) is None or not found.count:  # in a store each look is a request
        return []
    numbers = np.arange(min(found.count, CHECKED)) * (found.count - 1) // max(1, CHECKED - 1)
    bounds = np.stack([found.starts(numbers), found.starts(numbers + 1)], 1)
    made: list[list[int]] = bounds[bounds[:, 1] - bounds[:, 0] <= CHECKED_BYTES].tolist()
    return made


def _holds(file: File, form: Format, start: int, stop: int, records: int) -> bool:
    """Whether there are so many records between two places, and nothing else."""
    if stop - start > CHECKED_BYTES:
        return False
    data = np.empty(stop - start, np.uint8)
    if stop > start and file.read_into(data, start) < len(data):
        return False
    starts, used, wrong = form.starts(data, final=True)
    return wrong is None and len(starts) == records and (used == len(data) or not records)


class SavedIndex(NamedTuple):
    """Where records begin in a file of this identity; `open_end`: the last one lacks what ends the others."""

    identity: Identity
    positions: Offsets
    open_end: bool


def kept_sidecar(path: str, form: Format, found: SavedIndex, via: Transport) -> Sidecar:
    """A sidecar, written where the next reader finds it, if that can be done."""
    positions = found.positions
    bases = positions[::GROUP].copy()
    deltas = positions - np.repeat(bases, GROUP)[: len(positions)]
    deltas = deltas.astype(np.uint32 if deltas.max() < 2**32 else np.uint64)
    arrays = bases.tobytes() + deltas.tobytes()
    header = {
        "format": type(form).__name__, "size": found.identity.size or 0, "stamp": found.identity.stamp,
        "count": len(positions) - 1, "open": found.open_end, "wide": deltas.itemsize, "crc": zlib.crc32(arrays),
    }  # fmt: skip
    parts = [KIND + VERSION, json.dumps(header).encode(), b"\n", arrays]
    return Sidecar(header, bases, deltas, _write(path, parts, via))


def _write(path: str, parts: list[bytes], via: Transport) -> str | None:
    why: Exception | None = None
    for place in sidecar_paths(path):
        try:
            local = local_path(place)
            if local is not None:
                Path(local).parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, parts, via)
            return place
        except (OSError, TransportError) as error:
            why = error
    log.warning("the index of %s is not kept: %s", show_path(path), why)
    return None


def drop_orphans(path: str) -> None:
    """Remove the sidecars beside this local file whose files are not there any more, and what killed writers left."""
    folder = Path(next(sidecar_paths(path))).parent
    with suppress(OSError):  # there is none, or it is not ours to change
        for sidecar in folder.glob(f"*{SUFFIX}"):
            if not os.path.lexists(folder.parent / sidecar.name.removesuffix(SUFFIX)):
                sidecar.unlink(missing_ok=True)
        clear_stale(folder)
        folder.rmdir()
