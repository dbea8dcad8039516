"""The ranges of one remote object that the cache on disk has."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from headrace import _native
from headrace.remote.disk_cache import SUFFIX, DiskCache
from headrace.remote.range_file import MAGIC, describe, open_file, read_checked, seen_whole, was_whole
from headrace.remote.redact import show_path

log: logging.Logger = logging.getLogger("headrace")
T = TypeVar("T")

QUIET_SECONDS = 60.0
"""The warning that a cache is full is logged at most once in this many seconds."""
_warned: dict[str, float] = {}


class KeptObject:
    """The cached ranges of an object, identified by its path and its store's content tag.

    Bytes are checked against their checksum when they are read; a damaged range counts as missing.
    """

    def __init__(self, cache: DiskCache, path: str, stamp: str) -> None:
        key = hashlib.blake2b("\0".join([MAGIC, path, stamp]).encode(), digest_size=20).hexdigest()
        self._cache = cache
        self._path = path
        self._prefix = os.path.join(cache.folder, key)  # noqa: PTH118 - there are many names to make

    def has(self, bounds: Iterable[tuple[int, int]]) -> list[bool]:
        """Return whether each range seems to be cached."""
        return _native.can_read([os.fsencode(self._file(start, stop)) for start, stop in bounds])

    def get(self, start: int, stop: int) -> memoryview | None:
        """Return the bytes of a range, or None if it is not cached."""
        return self._use(self._file(start, stop), lambda descriptor: read_checked(descriptor, stop - start))

    def map_known(self, parts: _native.MappedParts, bounds: Iterable[tuple[int, int]]) -> int:
        """Map the first of these ranges to their offsets, as long as this process knows them to be intact.

        Return how many.
        """
        files: list[tuple[bytes, int, int, int, int, int, int]] = []
        for start, stop in bounds:
            file = self._file(start, stop)
            seen = seen_whole(file, stop - start)
            if seen is None:
                break
            files.append((os.fsencode(file), start, *seen))
        try:
            return parts.put_known(files)
        except OSError as error:
            log.warning("%s cannot be mapped: %s", self._cache.folder, error)
            return 0

    def map_into(self, parts: _native.MappedParts, start: int, stop: int) -> bool:
        """Map the bytes of a range to their offset in the object. Return False if they are not cached.

        Each process checks them once, and again if the file has changed.
        """
        file = self._file(start, stop)

        def put(descriptor: int) -> bool | None:
            if not was_whole(file, descriptor, stop - start):
                return None
            parts.put_file(descriptor, start, stop - start)
            return True

        return self._use(file, put) is not None

    def put(self, start: int, stop: int, data: bytes) -> None:
        """Cache a range if there is room for it; failing to do so is no error."""
        end = describe(show_path(self._path), start, stop, data)
        try:
            self._cache.add(Path(self._file(start, stop)), data, end)
        except OSError as error:
            folder, now = self._cache.folder, time.monotonic()
            if now - _warned.get(folder, -QUIET_SECONDS) >= QUIET_SECONDS:
                _warned[folder] = now
                log.warning("the cache in %s keeps nothing more: %s", folder, error)

    def _file(self, start: int, stop: int) -> str:
        return f"{self._prefix}-{start}-{stop}{SUFFIX}"

    def _use(self, file: str, work: Callable[[int], T | None]) -> T | None:
        """Return the result of `work` on the file of a range; None if there is none, or `work` finds it damaged."""
        try:
            with open_file(file) as descriptor:
                with contextlib.suppress(OSError):  # the file belongs to another user, or the disk is read-only
                    os.utime(descriptor, ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))
                found = work(descriptor)
            if found is None:
                log.warning("%s is damaged, and will be fetched again", file)
                Path(file).unlink(missing_ok=True)
            return found
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s cannot be read: %s", file, error)
            return None
