"""The bytes of a file in order, unpacked where they are packed."""

from __future__ import annotations

import io
import zlib
from typing import Any, Protocol

import numpy as np

from headrace.errors import may_pass
from headrace.records.files import Bytes, File

CODECS = ("", "GZIP", "ZLIB", "ZSTD")
PIECE = 256 << 10
"""So many packed bytes are read at a time."""
UNPACKED = 64 << 10
"""Of zstd data so much is asked for at a time, wherever it goes: what comes before damage does not depend on it."""


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

    def _fresh(self) -> Any:
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
            rest: bytes = self._inflate.decompress(b"", most)  # what there was no room for before
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
        """Whether another gzip member follows; zeros between members and after the last are padding."""
        if not self._gzip:
            return False
        rest = self._inflate.unused_data.lstrip(b"\0")
        while not rest and (piece := _piece(self._packed)):
            rest = piece.lstrip(b"\0")
        self._inflate, self._input, self._begun = self._fresh(), rest, False
        return bool(rest)


def _inflated_before_damage(state: Any, packed: bytes, most: int) -> bytes:
    """The bytes before damage, however many are asked for at a time: a call that meets it gives none."""
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
        self._unpacked: Bytes = np.empty(0, np.uint8)

    def read_into(self, out: Bytes) -> int:
        if not len(self._unpacked) and not self._empty:
            self._unpacked = np.frombuffer(self._read(), np.uint8)
        got = min(len(out), len(self._unpacked))
        out[:got] = self._unpacked[:got]
        self._unpacked = self._unpacked[got:]
        return got

    def _read(self) -> bytes:
        try:
            got: bytes = self._stream.read(UNPACKED)
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
        return _piece(self._packed, PIECE if size < 0 else size)


def _piece(packed: PlainBytes, size: int = PIECE) -> bytes:
    buffer = np.empty(size, np.uint8)
    return buffer[: packed.read_into(buffer)].tobytes()


def unpack_stream(file: File, compression: str, offset: int) -> Unpacker:
    """The bytes of a file; packed ones can only be read from the start."""
    if not compression:
        return PlainBytes(file, offset)
    return Arrow(file) if compression == "ZSTD" else Inflated(file, gzip=compression == "GZIP")
