"""The bytes of one file from some place on, unpacked, in a buffer that slides along."""

from __future__ import annotations

import io
import mmap
import zlib
from typing import Any, Protocol

import numpy as np

from headrace.records.files import Bytes, File, LocalFile

CODECS = ("", "GZIP", "ZLIB", "ZSTD")
PACKED_CHUNK = 256 << 10
FIRST_CHUNK = 64 << 10
CHUNK = 256 << 10
"""What is read at a time, from the second chunk on: it stays in cache, and so does what is made of it."""
RESIDENT = 16 << 20
"""Of a mapped file no more than these many bytes that were read are kept in this process's own view."""


def codec(compression_type: str | None) -> str:
    """A compression as tf.data names it."""
    named = compression_type or ""
    if named not in CODECS:
        known = ", ".join(repr(c) for c in CODECS)
        raise ValueError(f"compression_type must be one of {known}, not {compression_type!r}")
    return named


class DamagedError(Exception):
    """The packed bytes cannot be unpacked any further."""


class Unpacker(Protocol):
    """Gives the bytes of a file in order."""

    def read_into(self, out: Bytes) -> int:
        """Put some bytes into `out`, none only at the end; returns how many. Raises DamagedError."""
        ...


class Plain:
    """The bytes as they are."""

    def __init__(self, file: File, offset: int) -> None:
        self._file = file
        self._at = offset

    def read_into(self, out: Bytes) -> int:
        got = self._file.read_into(out, self._at)
        self._at += got
        return got


class Inflated:
    """GZIP, of one member or several, or ZLIB."""

    def __init__(self, file: File, *, gzip: bool) -> None:
        self._packed = Plain(file, 0)
        self._gzip = gzip
        self._inflate = self._fresh()
        self._input = b""
        self._begun = False
        self._ended = False

    def _fresh(self) -> Any:
        return zlib.decompressobj(31 if self._gzip else 15)

    def read_into(self, out: Bytes) -> int:
        while not self._ended:
            if got := self._some(len(out)):
                out[: len(got)] = np.frombuffer(got, np.uint8)
                return len(got)
        return 0

    def _some(self, most: int) -> bytes:
        if self._inflate.eof and not self._next_member():
            self._ended = True
            return b""
        if not self._input:
            self._input = _piece(self._packed)
        if not self._input:
            self._ended = True
            if self._begun:
                raise DamagedError(f"the {'gzip' if self._gzip else 'zlib'} data end early")
            return b""
        self._begun = True
        try:
            got: bytes = self._inflate.decompress(self._input, most)
        except zlib.error as error:
            self._ended = True
            raise DamagedError(f"not {'gzip' if self._gzip else 'zlib'} data: {error}") from None
        self._input = self._inflate.unconsumed_tail
        return got

    def _next_member(self) -> bool:
        """Whether another gzip member follows; zeros between members and after the last are padding."""
        if not self._gzip:
            return False
        rest = self._inflate.unused_data.lstrip(b"\0")
        while not rest and (piece := _piece(self._packed)):
            rest = piece.lstrip(b"\0")
        self._inflate, self._input, self._begun = self._fresh(), rest, False
        return bool(rest)


class Arrow:
    """ZSTD, by Arrow's own codec."""

    def __init__(self, file: File) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(pa.PythonFile(_Raw(file), mode="r"), "zstd")
        self._empty = file.identity.size == 0

    def read_into(self, out: Bytes) -> int:
        if self._empty:
            return 0
        try:
            got = self._stream.read(min(len(out), FIRST_CHUNK))
        except OSError as error:
            self._empty = True
            raise DamagedError(f"not zstd data, or they end early: {error}") from None
        out[: len(got)] = np.frombuffer(got, np.uint8)
        return len(got)


class _Raw(io.RawIOBase):
    """A file as Arrow reads it."""

    def __init__(self, file: File) -> None:
        self._packed = Plain(file, 0)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return _piece(self._packed, PACKED_CHUNK if size < 0 else size)


def _piece(packed: Plain, size: int = PACKED_CHUNK) -> bytes:
    buffer = np.empty(size, np.uint8)
    return buffer[: packed.read_into(buffer)].tobytes()


def unpacked(file: File, compression: str, offset: int) -> Unpacker:
    """The bytes of a file; packed ones can only be read from the start."""
    if not compression:
        return Plain(file, offset)
    return Arrow(file) if compression == "ZSTD" else Inflated(file, gzip=compression == "GZIP")


class Window(Protocol):
    """What has been read and not used up: `data`, which begins `offset` bytes into the (unpacked) file.

    Once `final` is set there is no more. `damage` says why the file could not be read to its end. Nothing that is made
    of `data` may share its memory: it may be that of the file itself.
    """

    data: Bytes
    offset: int
    final: bool
    damage: str | None

    def more(self, least: int = 0) -> None:
        """Read on; a record that did not fit has as much again."""
        ...

    def use(self, count: int) -> None:
        """The first `count` bytes are done with."""
        ...

    def close(self) -> None:
        """Let go of the data."""
        ...


def window(file: File, compression: str, offset: int, chunk: int | None) -> Window:
    """The bytes of a file from `offset` on, `chunk` of them at a time."""
    if not compression and isinstance(file, LocalFile):
        try:
            return Mapped(file, offset, chunk or CHUNK)
        except (OSError, ValueError):  # a pipe, a file without a size, a file system that cannot map
            pass
    return Buffered(file, compression, offset, chunk or CHUNK)


class Mapped:
    """A local file, mapped: its bytes are looked at where the system keeps them, and copied but once.

    A file that shrinks meanwhile would end the process, so its size is asked for before each look.
    """

    damage: str | None = None

    def __init__(self, file: LocalFile, offset: int, chunk: int) -> None:
        self._map = file.mapped()
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK, chunk)
        self._end = self._passed = offset
        self.offset = offset
        self.data: Bytes = self._bytes[offset:offset]
        self.final = False

    def more(self, least: int = 0) -> None:
        if self._map.size() < len(self._bytes):
            raise OSError(f"the file has shrunk while it was read, from {len(self._bytes)} to {self._map.size()} bytes")
        self._end = min(len(self._bytes), self._end + max(self._chunk, len(self.data), least))
        self._chunk = min(4 * self._chunk, self._largest)
        self.final = self._end == len(self._bytes)
        self.data = self._bytes[self.offset : self._end]

    def use(self, count: int) -> None:
        self.offset += count
        self.data = self.data[count:]
        if self.offset - self._passed >= RESIDENT:
            start = self._passed - self._passed % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, start, self.offset - self.offset % mmap.PAGESIZE - start)
            self._passed = self.offset

    def close(self) -> None:
        self.data = self._bytes = np.empty(0, np.uint8)


class Buffered:
    """Any other file, read into memory."""

    def __init__(self, file: File, compression: str, offset: int, chunk: int) -> None:
        self.data: Bytes = np.empty(0, np.uint8)
        self.final = False
        self.damage: str | None = None
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK, self._largest)
        self._bytes = unpacked(file, compression, offset if not compression else 0)
        self.offset = 0 if compression else offset
        while self.offset < offset and not self.final:
            self.more()
            self.use(min(len(self.data), offset - self.offset))

    def more(self, least: int = 0) -> None:  # noqa: ARG002 - memory is not free
        rest = len(self.data)
        size = max(self._chunk, rest)
        self._chunk = min(4 * self._chunk, self._largest)
        data = np.empty(rest + size, np.uint8)
        data[:rest] = self.data
        got = 0
        try:
            while got < size:
                step = self._bytes.read_into(data[rest + got :])
                if not step:
                    self.final = True
                    break
                got += step
        except DamagedError as error:
            self.final = True
            self.damage = str(error)
        self.data = data[: rest + got]

    def use(self, count: int) -> None:
        self.data = self.data[count:]
        self.offset += count

    def close(self) -> None:
        self.data = np.empty(0, np.uint8)
