"""Map the next local record files while other threads find their record offsets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from headrace import _native
from headrace.formats.shared.files import LocalFile, local_path
from headrace.remote.identity import Signature

FILES_AHEAD = 16
"""How many files are scanned before they are requested: those of one round, if files are interleaved."""
MIN_SCANNED_BYTES = 1 << 20
"""Smaller files are scanned faster than they are handed over."""
MAX_SCANNED_BYTES = 64 << 20
"""How much of each file is scanned at most."""


class ScannedFile(NamedTuple):
    """A mapped file, and the scan of its records."""

    memory: _native.MappedFile
    scan: _native.RecordScan

    @classmethod
    def of(cls, file: LocalFile, most: int) -> ScannedFile:
        """Map the file and scan its records up to `most` bytes."""
        memory = file.map_memory()
        return cls(memory, _native.RecordScan(memory, 0, most))


class ScansAhead:
    """Scan the files that follow the one requested last, if they are requested in order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._next = len(names)
        self._waiting: dict[str, tuple[Signature, ScannedFile]] = {}
        self._in_order = True
        self._lock = threading.Lock()

    def take(self, path: str, file: LocalFile) -> ScannedFile | None:
        """Return this file if it is being scanned and is still the same. Start scanning the files after it."""
        with self._lock:
            found = self._waiting.pop(path, None)
            if found is None:
                self._begin_at(path, file)
            while self._in_order and self._next < len(self._names) and len(self._waiting) < FILES_AHEAD:
                self._look_at(self._names[self._next])
                self._next += 1
        return found[1] if found is not None and found[0] == file.signature else None

    def _begin_at(self, path: str, file: LocalFile) -> None:
        """Handle an unexpected file: the first one, the first of another epoch, or another order."""
        self._in_order = self._in_order and not self._waiting and (file.size or 0) >= MIN_SCANNED_BYTES
        self._waiting.clear()
        if self._in_order and self._next >= len(self._names):
            self._next = self._names.index(path) + 1 if path in self._names else len(self._names)

    def _look_at(self, name: str) -> None:
        """Begin with a file; what is wrong with it is met when it is requested."""
        local = local_path(name)
        if local is None or name in self._waiting:
            return
        try:
            file = LocalFile(local)
        except OSError:
            return
        try:
            if (file.size or 0) >= MIN_SCANNED_BYTES:
                self._waiting[name] = file.signature, ScannedFile.of(file, MAX_SCANNED_BYTES)
        except (OSError, ValueError):  # it cannot be mapped
            return
        finally:
            file.close()
