"""Which file it is: told by its size and content, so that a copy is the same file wherever it lies."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from headrace.errors import StateError
from headrace.storage.files import naming

BLOCK, BLOCKS = 4096, 8
"""A file's content is told by so many blocks of so many bytes, from its first to its last."""
SETTLED = 2.0
"""Seconds after which a file that has the same times as before is taken to be the same: clocks of disks are coarse."""
KNOWN = 1 << 16
"""Of so many files at most it is remembered which they are."""


class Identity(NamedTuple):
    """What tells whether a file is the one it was: its size, and what is known of its content."""

    size: int | None
    stamp: str

    @property
    def token(self) -> int:
        """All of it in one number."""
        digest = hashlib.blake2b(f"{self.size} {self.stamp}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "little")


Signature = tuple[int, ...]
_known: Final[dict[Signature, str]] = {}


def signature(found: os.stat_result) -> Signature:
    """What changes when a local file is written to, or another takes its place; not when it is renamed."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _dated_signature(found: os.stat_result) -> Signature:
    return *signature(found), found.st_ctime_ns  # which nobody can set back


def local_identity(path: str) -> Identity:
    """What the file at this path is now; raises OSError where there is none."""
    found = os.stat(path)  # noqa: PTH116 - it is asked for many
    known = _known.get(_dated_signature(found))
    if known is not None or not stat.S_ISREG(found.st_mode):  # a pipe tells what it holds but once
        return Identity(found.st_size, known or "")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return open_identity(descriptor, path)
    finally:
        os.close(descriptor)


def open_identity(descriptor: int, path: str) -> Identity:
    """What an open local file is; `path` is for errors."""
    found = os.fstat(descriptor)
    known = _known.get(_dated_signature(found))
    if known is None:
        with naming(path):
            known = _content(descriptor, found.st_size) if stat.S_ISREG(found.st_mode) else ""
        if time.time() - max(found.st_mtime, found.st_ctime) > SETTLED:
            if len(_known) >= KNOWN:
                _known.clear()
            _known[_dated_signature(found)] = known
    return Identity(found.st_size, known)


def _content(descriptor: int, size: int) -> str:
    """A checksum of the file's blocks, or of all of it where it is no more than these."""
    digest = hashlib.blake2b(digest_size=12)
    if size <= BLOCK * BLOCKS:
        digest.update(_read(descriptor, size, 0))
    else:
        for i in range(BLOCKS):
            digest.update(_read(descriptor, BLOCK, (size - BLOCK) * i // (BLOCKS - 1)))
    return digest.hexdigest()


def _read(descriptor: int, size: int, offset: int) -> bytes:
    """So many bytes of a file; fewer only where it ends, though a system may give fewer at a time."""
    parts: list[bytes] = []
    while size and (got := os.pread(descriptor, size, offset)):
        parts.append(got)
        size -= len(got)
        offset += len(got)
    return b"".join(parts)


class OpenFile(Protocol):
    """A file on this machine, open as long as somebody reads it."""

    def duplicate(self) -> int:
        """Another descriptor of it; raises OSError or ValueError where it is closed."""
        ...


class Token:
    """The identity of a file that was opened, in one number, which is found out when somebody asks for it.

    A mark has one, and most marks are never asked. By then the file may be closed, and another lie in its place.
    """

    GONE = 1
    """Stands for a file that was closed and replaced before it was known which it is; no file is given this number."""

    def __init__(
        self, path: str, value: int | None = None, *, seen: Signature | None = None, file: OpenFile | None = None
    ) -> None:
        self.path = path
        self._value = value
        self._seen = seen
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Token, (self.path, self.to_json())

    def to_json(self) -> int:
        """The number."""
        if self._value is None:
            self._value = self._found()
        return self._value

    @classmethod
    def from_json(cls, data: Any) -> Token:
        """What `to_json` gave."""
        if type(data) is not int:
            raise StateError(f"the state is damaged: {data!r:.80} where the identity of a file belongs")
        return cls("", data)

    def _found(self) -> int:
        for descriptor in self._descriptors():
            try:
                if signature(os.fstat(descriptor)) == self._seen:
                    return open_identity(descriptor, self.path).token
            finally:
                os.close(descriptor)
        return self.GONE

    def _descriptors(self) -> Iterator[int]:
        """The file, by what was opened, if it still is, and by its name; either may be another by now."""
        with suppress(OSError, ValueError):
            if self._file is not None:
                yield self._file.duplicate()
        with suppress(OSError):
            yield os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
