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
from headrace.records.disk_cache import SUFFIX, DiskCache
from headrace.records.range_file import MAGIC, describe, open_file, read_checked, seen_whole, was_whole
from headrace.records.redact import show_path

log = logging.getLogger("headrace")
T = TypeVar("T")

QUIET = 60.0
"""Seconds in which it is said once that a cache keeps nothing more: every range would say so."""
_warned: dict[str, float] = {}


class KeptObject:
    """What a cache has of an object, which its path and what its store knows its content by tell from others.

    What is read is checked against its checksum; what is damaged is a range that is not there.
    """

    def __init__(self, cache: DiskCache, path: str, stamp: str) -> None:
        key = hashlib.blake2b("\0".join([MAGIC, path, stamp]).encode(), digest_size=20).hexdigest()
        self._cache = cache
        self._path = path
        self._prefix = os.path.join(cache.folder, key)  # noqa: PTH118 - there are many names to make

    def has(self, bounds: Iterable[tuple[int, int]]) -> list[bool]:
        """Of ranges, whether each seems to be kept."""
        return _native.can_read([os.fsencode(self._file(start, stop)) for start, stop in bounds])

    def get(self, start: int, stop: int) -> memoryview | None:
        """The bytes of a range, None where they are not kept."""
        return self._use(self._file(start, stop), lambda descriptor: read_checked(descriptor, stop - start))

    def map_known(self, parts: _native.MappedParts, bounds: Iterable[tuple[int, int]]) -> int:
        """Have the first of these ranges where they belong, as far as this process knows them to be whole."""
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
        """Have the bytes of a range where they belong in the object; False where they are not kept.

        They are checked once by each process, and again if the file has changed.
        """
        file = self._file(start, stop)

        def put(descriptor: int) -> bool | None:
            if not was_whole(file, descriptor, stop - start):
                return None
            parts.put_file(descriptor, start, stop - start)
            return True

        return self._use(file, put) is not None

    def put(self, start: int, stop: int, data: bytes) -> None:
        """Keep a range, if there is room for it; it costs nobody anything where there is none."""
        end = describe(show_path(self._path), start, stop, data)
        try:
            self._cache.add(Path(self._file(start, stop)), data, end)
        except OSError as error:
            folder, now = self._cache.folder, time.monotonic()
            if now - _warned.get(folder, -QUIET) >= QUIET:
                _warned[folder] = now
                log.warning("the cache in %s keeps nothing more: %s", folder, error)

    def _file(self, start: int, stop: int) -> str:
        return f"{self._prefix}-{start}-{stop}{SUFFIX}"

    def _use(self, file: str, work: Callable[[int], T | None]) -> T | None:
        """What `work` makes of the file of a range, None where there is none, or `work` finds it damaged."""
        try:
            with open_file(file) as descriptor:
                with contextlib.suppress(OSError):  # a file of somebody else's, a disk that cannot be written to
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
