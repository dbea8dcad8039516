"""Files of records on this machine that come next: mapped, while other threads look for where their records begin."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from headrace import _native
from headrace.records.files import LocalFile, local_path
from headrace.records.identity import Signature

AHEAD = 16
"""So many files are looked at before somebody asks for them: those of one round, where files take turns."""
LEAST_BYTES = 1 << 20
"""Smaller files are looked at sooner than they are handed over."""
MOST_BYTES = 64 << 20
"""Of each file no more than this."""


class ScannedFile(NamedTuple):
    """A file as memory, and who looks for its records."""

    memory: _native.MappedFile
    scan: _native.RecordScan

    @classmethod
    def of(cls, file: LocalFile, most: int) -> ScannedFile:
        """The file, whose records are looked for up to so many bytes."""
        memory = file.map_memory()
        return cls(memory, _native.RecordScan(memory, most))


class ScansAhead:
    """The files of a list that follow the one that was asked for last, if they are asked for in order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._next = len(names)
        self._waiting: dict[str, tuple[Signature, ScannedFile]] = {}
        self._in_order = True
        self._lock = threading.Lock()

    def take(self, path: str, file: LocalFile) -> ScannedFile | None:
        """This file, if somebody looks at it already, and it is still the same; those after it are begun with."""
        with self._lock:
            found = self._waiting.pop(path, None)
            if found is None:
                self._begin_at(path, file)
            while self._in_order and self._next < len(self._names) and len(self._waiting) < AHEAD:
                self._look_at(self._names[self._next])
                self._next += 1
        return found[1] if found is not None and found[0] == file.signature else None

    def _begin_at(self, path: str, file: LocalFile) -> None:
        """One that nobody expected: the first, or the first of another epoch; else they come in another order."""
        self._in_order = self._in_order and not self._waiting and (file.size or 0) >= LEAST_BYTES
        self._waiting.clear()
        if self._in_order and self._next >= len(self._names):
            self._next = self._names.index(path) + 1 if path in self._names else len(self._names)

    def _look_at(self, name: str) -> None:
        """Begin with a file; what is wrong with it is met when it is asked for."""
        local = local_path(name)
        if local is None or name in self._waiting:
            return
        try:
            file = LocalFile(local)
        except OSError:
            return
        try:
            if (file.size or 0) >= LEAST_BYTES:
                self._waiting[name] = file.signature, ScannedFile.of(file, MOST_BYTES)
        except (OSError, ValueError):  # it cannot be mapped
            return
        finally:
            file.close()
