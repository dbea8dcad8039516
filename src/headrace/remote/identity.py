"""Identify a file by its size and content, so that a copy is the same file at any path."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from headrace.core.owned_file import DescriptorFile, OwnedFile
from headrace.core.types import Reduced
from headrace.errors import StateError
from headrace.storage.files import naming

SAMPLE_BYTES, SAMPLES = 4096, 8
"""A file's content is identified by SAMPLES samples of SAMPLE_BYTES bytes, from its first to its last."""
SETTLED_SECONDS = 2.0
"""Seconds after which a file with unchanged times is assumed to be the same: file system clocks are coarse."""
MAX_CACHED_IDENTITIES = 1 << 16
"""How many file identities are cached at most."""


class Identity(NamedTuple):
    """A file's size, and a digest of its content as far as known."""

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
    """Return what changes when a local file is written to, or another takes its place; not when it is renamed."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _dated_signature(found: os.stat_result) -> Signature:
    return *signature(found), found.st_ctime_ns  # which cannot be set back


def local_identity(path: str) -> Identity:
    """Return what the file at this path is now. Raise OSError if there is none."""
    found = os.stat(path)  # noqa: PTH116 - it is asked for many
    known = _known.get(_dated_signature(found))
    if known is not None or not stat.S_ISREG(found.st_mode):  # a pipe can be read only once
        return Identity(found.st_size, known or "")
    with OwnedFile(path) as file:
        return open_identity(file.fileno(), path)


def open_identity(descriptor: int, path: str) -> Identity:
    """Return what an open local file is; `path` is for errors."""
    found = os.fstat(descriptor)
    known = _known.get(_dated_signature(found))
    if known is None:
        with naming(path):
            known = _content(descriptor, found.st_size) if stat.S_ISREG(found.st_mode) else ""
        if time.time() - max(found.st_mtime, found.st_ctime) > SETTLED_SECONDS:
            if len(_known) >= MAX_CACHED_IDENTITIES:
                _known.clear()
            _known[_dated_signature(found)] = known
    return Identity(found.st_size, known)


def _content(descriptor: int, size: int) -> str:
    """Return a checksum of samples of the file, or of all of it if it is small."""
    digest = hashlib.blake2b(digest_size=12)
    if size <= SAMPLE_BYTES * SAMPLES:
        digest.update(_read(descriptor, size, 0))
    else:
        for i in range(SAMPLES):
            digest.update(_read(descriptor, SAMPLE_BYTES, (size - SAMPLE_BYTES) * i // (SAMPLES - 1)))
    return digest.hexdigest()


def _read(descriptor: int, size: int, offset: int) -> bytes:
    """Read `size` bytes of a file; fewer only at its end, even if the system returns fewer per call."""
    parts: list[bytes] = []
    while size and (got := os.pread(descriptor, size, offset)):
        parts.append(got)
        size -= len(got)
        offset += len(got)
    return b"".join(parts)


class OpenFile(Protocol):
    """A local file that is open while a reader uses it."""

    def duplicate(self) -> OwnedFile:
        """Open it once more. Raise OSError or ValueError if it is closed."""
        ...


class Token:
    """The identity of an opened file in one number, computed on request.

    Every mark has one, and most marks are never used. By then the file may be closed, and replaced by another.
    """

    GONE = 1
    """The token of a file that was closed and replaced before it was identified; no other file has it."""

    def __init__(
        self, path: str, value: int | None = None, *, seen: Signature | None = None, file: OpenFile | None = None
    ) -> None:
        self.path = path
        self._value = value
        self._seen = seen
        self._file = file

    def __reduce__(self) -> Reduced:
        return Token, (self.path, self.to_json())

    def to_json(self) -> int:
        """Return the number."""
        if self._value is None:
            self._value = self._found()
        return self._value

    @classmethod
    def from_json(cls, data: object) -> Token:
        """Return what `to_json` gave."""
        if type(data) is not int:
            raise StateError(f"the state is damaged: {data!r:.80} in place of a file's identity")
        return cls("", data)

    def _found(self) -> int:
        for file in self._files():
            with file:
                if signature(os.fstat(file.fileno())) == self._seen:
                    return open_identity(file.fileno(), self.path).token
        return self.GONE

    def _files(self) -> Iterator[OwnedFile]:
        """Yield the file, by what was opened, if it still is, and by its name; either may be another by now."""
        with suppress(OSError, ValueError):
            if self._file is not None:
                yield self._file.duplicate()
        with suppress(OSError):
            yield DescriptorFile.with_flags(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
