"""Read the bytes of a file in order, decompressing them if necessary."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Protocol

import numpy as np

from headrace.core.limits import MAX_RECORD_BYTES
from headrace.errors import may_pass
from headrace.formats.shared.files import Bytes, File
from headrace.remote.identity import Identity, Token

if TYPE_CHECKING:
    pass

CODECS = ("", "GZIP", "ZLIB", "ZSTD")
COMPRESSED_CHUNK_BYTES = 256 << 10
"""How many compressed bytes are read at a time."""
DECOMPRESSED_CHUNK_BYTES = 64 << 10
"""How many bytes of zstd data are requested at a time: fixed, so that the bytes before damage are always the same."""


def codec(compression_type: str | None) -> str:
    """Return a compression as tf.data names it."""
    named = compression_type or ""
    if named not in CODECS:
        known = ", ".join(repr(c) for c in CODECS)
        raise ValueError(f"compression_type must be one of {known}, not {compression_type!r}")
    return named


class DamagedError(Exception):
    """The packed bytes cannot be unpacked any further."""


class Unpacker(Protocol):
    """A reader of the bytes of a file, in order."""

    def read_into(self, out: Bytes) -> int:
        """Read some bytes into `out`, none only at the end. Return how many. Raises DamagedError."""
        ...


class PlainBytes:
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
        self._packed = PlainBytes(file, 0)
        self._gzip = gzip
        self._inflate = self._fresh()
        self._input = b""
        self._begun = False
        self._ended = False
        self._damage: DamagedError | None = None

    def _fresh(self) -> zlib._Decompress:
        return zlib.decompressobj(31 if self._gzip else 15)

    def read_into(self, out: Bytes) -> int:
        while not self._ended:
            if got := self._some(len(out)):
                out[: len(got)] = np.frombuffer(got, np.uint8)
                return len(got)
        return 0

    def _some(self, most: int) -> bytes:
        if self._damage is not None:
            self._ended = True
            raise self._damage
        if self._inflate.eof and not self._next_member():
            self._ended = True
            return b""
        if not self._input:
            self._input = _piece(self._packed)
        if not self._input:
            rest: bytes = self._inflate.decompress(b"", most)  # what did not fit into the previous buffer
            if rest:
                return rest
            self._ended = True
            if self._begun:
                raise DamagedError(f"the {'gzip' if self._gzip else 'zlib'} data end early")
            return b""
        self._begun = True
        before = self._inflate.copy()
        try:
            got: bytes = self._inflate.decompress(self._input, most)
        except zlib.error as error:
            self._damage = DamagedError(f"not {'gzip' if self._gzip else 'zlib'} data: {error}")
            return _inflated_before_damage(before, self._input, most)
        self._input = self._inflate.unconsumed_tail
        return got

    def _next_member(self) -> bool:
        """Return whether another gzip member follows; zeros between members and after the last are padding."""
        if not self._gzip:
            return False
        rest = self._inflate.unused_data.lstrip(b"\0")
        while not rest and (piece := _piece(self._packed)):
            rest = piece.lstrip(b"\0")
        self._inflate, self._input, self._begun = self._fresh(), rest, False
        return bool(rest)


def _inflated_before_damage(state: zlib._Decompress, packed: bytes, most: int) -> bytes:
    """Return the bytes before damage, however many are requested at a time: a call that hits it returns none."""
    found: list[bytes] = []
    while most:
        attempt = state.copy()
        try:
            got = attempt.decompress(packed, most)
        except zlib.error:
            most //= 2
            continue
        if not got:
            break
        found.append(got)
        state, packed = attempt, attempt.unconsumed_tail
    return b"".join(found)


class Arrow:
    """ZSTD, by Arrow's own codec."""

    def __init__(self, file: File) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(pa.PythonFile(_Raw(file), mode="r"), "zstd")
        self._empty = file.size == 0
        self._buffer = np.empty(DECOMPRESSED_CHUNK_BYTES, np.uint8)
        self._unpacked = self._buffer[:0]

    def read_into(self, out: Bytes) -> int:
        if not len(self._unpacked) and not self._empty:
            self._unpacked = self._buffer[: self._read()]
        got = min(len(out), len(self._unpacked))
        out[:got] = self._unpacked[:got]
        self._unpacked = self._unpacked[got:]
        return got

    def _read(self) -> int:
        """Fill the buffer; returns how many bytes came. Arrow's `read` would leak its result on damage."""
        try:
            got: int = self._stream.readinto(self._buffer.data)
        except OSError as error:
            if may_pass(error):
                raise
            self._empty = True
            raise DamagedError(f"not zstd data, or they end early: {error}") from None
        return got


class _Raw(io.RawIOBase):
    """A file as Arrow reads it."""

    def __init__(self, file: File) -> None:
        self._packed = PlainBytes(file, 0)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return _piece(self._packed, COMPRESSED_CHUNK_BYTES if size < 0 else size)


def _piece(packed: PlainBytes, size: int = COMPRESSED_CHUNK_BYTES) -> bytes:
    buffer = np.empty(size, np.uint8)
    return buffer[: packed.read_into(buffer)].tobytes()


def unpack_bytes(data: bytes, compression: str, most: int = MAX_RECORD_BYTES) -> bytes:
    """Return decompressed bytes, without taking memory for more than `most` of them.

    Args:
        data: The compressed bytes, of one gzip member or several.
        compression: "GZIP", "ZLIB" or "ZSTD".
        most: How many bytes there may be.

    Raises:
        DamagedError: They are not compressed like this, damaged, or more than `most`.
    """
    unpacker = unpack_stream(_Memory(data), compression, 0)
    parts: list[Bytes] = []
    size, room = 0, max(4 * len(data), 1 << 12)
    while True:
        out = np.empty(max(1, min(room, most + 1 - size)), np.uint8)
        got = unpacker.read_into(out)
        if not got:
            return b"".join(part.tobytes() for part in parts)
        parts.append(out[:got])
        size, room = size + got, min(2 * room, 16 << 20)
        if size > most:
            raise DamagedError(f"more than {most} bytes: max_record_bytes allows more")


class _Memory:
    """Bytes as a file."""

    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, np.uint8)
        self.size: int | None = len(data)
        self.token = Token("")

    def identity(self) -> Identity:
        return Identity(self.size, "")

    def read_into(self, out: Bytes, offset: int) -> int:
        found = self._data[offset : offset + len(out)]
        out[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """There is nothing to close."""


def unpack_stream(file: File, compression: str, offset: int) -> Unpacker:
    """Return the bytes of a file; packed ones can only be read from the start."""
    if not compression:
        return PlainBytes(file, offset)
    return Arrow(file) if compression == "ZSTD" else Inflated(file, gzip=compression == "GZIP")
