"""The content of GZIP files, with checkpoints to go to without inflating what is before them."""

from __future__ import annotations

import io
import threading
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

BLOCK_BYTES = 1 << 20
GZIP_WINDOW = 31
"""For zlib: data with GZIP's frame."""
MAX_CHECKPOINTS = 256
"""A checkpoint holds a state of zlib, of about 45 kB."""


class Checkpoint(NamedTuple):
    """A position of the content, where its data goes on in the file, and the state of zlib there."""

    at: int
    raw_at: int
    member: zlib._Decompress


class Checkpoints:
    """Positions of one file, at least `spacing` bytes apart: the more content, the farther apart."""

    def __init__(self, spacing: int = 4 << 20) -> None:
        self._spacing = spacing
        self._checkpoints: list[Checkpoint] = []
        self._lock = threading.Lock()

    def last_before(self, at: int) -> Checkpoint | None:
        """Return the last checkpoint that is not behind a position."""
        with self._lock:
            number = bisect_right(self._checkpoints, at, key=lambda checkpoint: checkpoint.at)
            return self._checkpoints[number - 1] if number else None

    def add(self, at: int, raw_at: int, member: zlib._Decompress) -> None:
        """Keep a checkpoint, if it is far enough behind the last one."""
        with self._lock:
            if at < (self._checkpoints[-1].at if self._checkpoints else 0) + self._spacing:
                return
            self._checkpoints.append(Checkpoint(at, raw_at, member.copy()))
            if len(self._checkpoints) > MAX_CHECKPOINTS:
                self._checkpoints = self._checkpoints[1::2]
                self._spacing *= 2


_kept: dict[tuple[str, int, int], Checkpoints] = {}
"""The checkpoints of files by path, size and time, within `keeping_checkpoints`."""
_keepers: list[object] = []
_lock = threading.Lock()


@contextmanager
def keeping_checkpoints() -> Iterator[None]:
    """Keep checkpoints of all GZIP files that are read meanwhile, for those who read them again."""
    keeper = object()
    with _lock:
        _keepers.append(keeper)
    try:
        yield
    finally:
        with _lock:
            _keepers.remove(keeper)
            if not _keepers:
                _kept.clear()


def checkpoints_of(path: Path) -> Checkpoints | None:
    """Return the checkpoints of a file, if they are kept."""
    found = path.stat()
    with _lock:
        if not _keepers:
            return None
        return _kept.setdefault((str(path), found.st_size, found.st_mtime_ns), Checkpoints())


class InflatedFile(io.RawIOBase):
    """The content of a GZIP file of one or more members, whose checksums zlib verifies.

    A seek continues at a known checkpoint, if that is nearer; else it begins anew, or inflates what is between.

    Args:
        raw: the file, open at its beginning.
        checkpoints: what is known of it from readers before, and what is learned for others.
    """

    def __init__(self, raw: IO[bytes], checkpoints: Checkpoints | None = None) -> None:
        super().__init__()
        self._raw = raw
        self._checkpoints = checkpoints
        self._continue(Checkpoint(0, 0, zlib.decompressobj(GZIP_WINDOW)))

    def _continue(self, checkpoint: Checkpoint) -> None:
        self._raw.seek(checkpoint.raw_at)
        self._member = checkpoint.member
        self._waiting = b""
        self._at = checkpoint.at

    def seekable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def tell(self) -> int:
        """See io.RawIOBase."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position of the content."""
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the length of GZIP data is not known")
        wanted = offset if whence == io.SEEK_SET else self._at + offset
        known = None if self._checkpoints is None else self._checkpoints.last_before(wanted)
        if known is not None and not known.at <= self._at <= wanted:
            self._continue(known._replace(member=known.member.copy()))
        elif wanted < self._at:
            self._continue(Checkpoint(0, 0, zlib.decompressobj(GZIP_WINDOW)))
        passed = memoryview(bytearray(min(BLOCK_BYTES, wanted - self._at)))
        while self._at < wanted and self.readinto(passed[: wanted - self._at]):
            pass
        return self._at

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io.RawIOBase."""
        while True:
            data = self._waiting or self._raw.read(BLOCK_BYTES)
            self._waiting = b""
            if self._member.eof:
                data = data.lstrip(b"\0")  # some programs fill the last block
                if not data:
                    return 0
                self._member = zlib.decompressobj(GZIP_WINDOW)
            elif not data:
                raise EOFError("the GZIP data ends before its end mark")
            made = self._member.decompress(data, len(buffer))
            self._waiting = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if made:
                buffer[: len(made)] = made
                self._at += len(made)
                if self._checkpoints is not None and not self._member.eof:
                    self._checkpoints.add(self._at, self._raw.tell() - len(self._waiting), self._member)
                return len(made)
