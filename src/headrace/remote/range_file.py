"""A cache file: the bytes of a range, a trailer that describes them, and the trailer's length.

The bytes come first, so that they can be mapped as they are.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from headrace import _native
from headrace.core.owned_file import DescriptorFile, OwnedFile
from headrace.core.types import JsonObject, JsonValue
from headrace.errors import NONSENSE

MAGIC = "headrace range 2"
LENGTH = struct.Struct("<I")
MAX_TRAILER_BYTES = 1 << 16
"""The longest trailer."""
MAX_KNOWN_FILES = 1 << 18
"""How many files are remembered as intact at most."""
SETTLED_SECONDS = 0.1
"""Seconds after which a change to a file shows in its time."""

Seen = tuple[int, int, int, int, int]
"""The identity of a cache file: device, inode, size, time of the last change; and the length of its range."""
_whole: dict[str, Seen] = {}
"""The identities of files that this process has verified."""


def describe(of: str, start: int, stop: int, data: bytes) -> bytes:
    """Return the trailer of a range."""
    told = {"is": MAGIC, "of": of, "start": start, "stop": stop, "crc": _native.crc32c(data)}
    text = json.dumps(told).encode()
    return text + LENGTH.pack(len(text))


def _description(data: JsonValue) -> JsonObject | None:
    """Parse the trailer in the bytes of a cache file, or its last ones; None if it is invalid."""
    end = len(data) - LENGTH.size
    try:
        (length,) = LENGTH.unpack(data[end:])
        told = json.loads(bytes(data[end - length : end])) if 0 < length <= min(end, MAX_TRAILER_BYTES) else None
        return told if isinstance(told, dict) and told["is"] == MAGIC else None
    except (struct.error, *NONSENSE):
        return None


def name_in(descriptor: int) -> str | None:
    """Return the object that a cache file belongs to, None if it does not say."""
    size, most = os.fstat(descriptor).st_size, MAX_TRAILER_BYTES + LENGTH.size
    told = _description(os.pread(descriptor, most, max(0, size - most)))
    return None if told is None else str(told.get("of"))


@contextlib.contextmanager
def open_file(path: str | Path) -> Iterator[int]:
    """Yield a descriptor. If possible, opening the file does not change its access time."""
    try:
        file: OwnedFile = DescriptorFile.with_flags(path, os.O_RDONLY | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # the file belongs to another user
        file = OwnedFile(path)
    with file:
        yield file.fileno()


def read_checked(descriptor: int, count: int) -> memoryview | None:
    """Return the bytes of a range of this length, None if they are not those that were written."""
    with io.FileIO(descriptor, closefd=False) as file:
        data = memoryview(file.readall())
    return data[:count] if _fits(data, count) else None


def is_whole(descriptor: int, count: int | None = None) -> bool:
    """Return whether a file holds a range, of this length if one is named, as it was written."""
    size = os.fstat(descriptor).st_size
    if not size:
        return False
    mapped = _native.MappedFile(descriptor, size)
    return _fits(mapped.data, count) and mapped.intact


def _fits(data: JsonValue, count: int | None) -> bool:
    told = _description(data)
    try:
        size = told["stop"] - told["start"] if told is not None else -1
        whole = told is not None and 0 <= size <= len(data) and _native.crc32c(data[:size]) == told["crc"]
        return whole and count in (None, size)
    except NONSENSE:
        return False


def seen_whole(path: str, count: int) -> Seen | None:
    """Return what a file was when this process found it to hold a range of this length, as it was written."""
    seen = _whole.get(path)
    return seen if seen is not None and seen[-1] == count else None


def was_whole(path: str, descriptor: int, count: int) -> bool:
    """Return whether a file holds a range as it was written, which is looked at once by each process unless it has
    changed.
    """
    found = os.fstat(descriptor)
    seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, count)
    if _whole.get(path) == seen:
        return True
    if not is_whole(descriptor, count):
        return False
    if time.time() - found.st_mtime > SETTLED_SECONDS:
        if len(_whole) >= MAX_KNOWN_FILES:
            _whole.clear()
        _whole[path] = seen
    return True
