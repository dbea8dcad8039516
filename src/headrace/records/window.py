"""The bytes of one file from some place on, in a open_window that slides along."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headrace import _native
from headrace.records.files import Bytes, File, LocalFile
from headrace.records.remote import RemoteFile
from headrace.records.unpack import DamagedError, unpack_stream

FIRST_CHUNK = 64 << 10
CHUNK = 1 << 20
"""What is read at a time, once a file has shown to be large: rows enough that the calls around them cost little."""
RESIDENT = 16 << 20
"""Of a mapped file no more than these many bytes that were read are kept in this process's own view."""


class FileWindow(Protocol):
    """What has been read and not used up: `data`, which begins `offset` bytes into the (unpack_stream) file.

    Once `final` is set there is no more; with `cut` the file goes on beyond it, but the window does not. `damage` says
    why the file could not be read to its end. Nothing that is made of `data` may share its memory: it may be that of
    the file itself.
    """

    data: Bytes
    offset: int
    final: bool
    cut: bool
    damage: str | None
    lasting: bool
    """Whether views of `data` stay valid when the window moves on."""

    @property
    def stays(self) -> _native.MappedFile | None:
        """What data belongs to that stays as long as somebody holds it."""
        ...

    def more(self, least: int = 0) -> None:
        """Read on; a record that did not fit has as much again."""
        ...

    def use(self, count: int) -> None:
        """The first `count` bytes are done with; raises OSError if what was there to see were not the file's bytes."""
        ...

    def close(self) -> None:
        """Let go of the data."""
        ...


def open_window(
    file: File,
    compression: str,
    offset: int,
    chunk: int | None,
    memory: _native.MappedFile | None = None,
    stop: int | None = None,
) -> FileWindow:
    """Open a window on the bytes of a file.

    Args:
        file: The file.
        compression: One of tf.data's names; offsets count decompressed bytes.
        offset: Where the window begins.
        chunk: How many bytes to read at a time, at most.
        memory: The file, if it is mapped already.
        stop: Where the window ends although the file may go on; None for the end of the file.
    """
    if stop is not None and stop < offset:
        raise ValueError(f"a window from byte {offset} cannot stop at byte {stop}")
    if not compression and isinstance(file, LocalFile | RemoteFile):
        try:
            return Mapped(file, offset, chunk or CHUNK, memory, stop)
        except (OSError, ValueError):  # a pipe, an empty file, a file system that cannot map, no cache
            pass
        if isinstance(file, RemoteFile) and file.has_ranges:
            return Fetched(file, offset, chunk or CHUNK, stop)
    return Buffered(file, compression, offset, chunk or CHUNK, stop)


class Mapped:
    """A file on disk, or kept there, mapped: its bytes are looked at where the system has them, and copied but once.

    Where the file has shrunk meanwhile there are zeros to see. So it is asked after each look, not before it, whether
    they were bytes of the file.
    """

    damage: str | None = None
    lasting = False

    def __init__(
        self,
        file: LocalFile | RemoteFile,
        offset: int,
        chunk: int,
        memory: _native.MappedFile | None = None,
        stop: int | None = None,
    ) -> None:
        self._file = file
        shared = file.shared_memory if isinstance(file, LocalFile) and memory is None else None
        self._map = shared or (file.map_memory() if memory is None else memory)
        self._is_shared = shared is not None
        self._bytes = self._map.data
        self._stop = len(self._bytes) if stop is None else min(stop, len(self._bytes))
        self.cut = self._stop < len(self._bytes)
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK, chunk)
        self._end = self._passed = offset
        self.offset = offset
        self.data: Bytes = self._bytes[offset:offset]
        self.final = False

    @property
    def stays(self) -> _native.MappedFile | None:
        return self._map if isinstance(self._map, _native.MappedFile) else None

    def more(self, least: int = 0) -> None:
        end = min(self._stop, self._end + max(self._chunk, len(self.data), least))
        self._map.load(self.offset, end)
        self._end = end
        self._chunk = min(4 * self._chunk, self._largest)
        self.final = self._end == self._stop
        self.data = self._bytes[self.offset : self._end]

    def use(self, count: int) -> None:
        if not self._map.intact:
            raise self._file.broken()
        self.offset += count
        self.data = self.data[count:]
        if not self._is_shared and self.offset - self._passed >= 2 * RESIDENT:  # the rest may not have been copied yet
            self._map.release(self._passed, self.offset - RESIDENT)
            self._passed = self.offset - RESIDENT

    def close(self) -> None:
        self.data = self._bytes = np.empty(0, np.uint8)
        if self._is_shared:
            if self.cut or self._passed:  # a piece: nobody else reads these pages
                self._map.release(self._passed, self._end)
        elif self.stays is not None:  # rows that somebody has yet to look at keep the memory, of however many files
            self.stays.close_file()


class Fetched:
    """A file in a store: its bytes are looked at where they came, and copied where a record reaches over two ranges."""

    damage: str | None = None
    stays = None
    lasting = True

    def __init__(self, file: RemoteFile, offset: int, chunk: int, stop: int | None = None) -> None:
        self._file = file
        size = file.size or 0
        self._stop = size if stop is None else min(stop, size)
        self.cut = self._stop < size
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK, chunk)
        self._end = self.offset = offset
        self.data: Bytes = np.empty(0, np.uint8)
        self.final = False

    def more(self, least: int = 0) -> None:  # noqa: ARG002 - memory is not free
        rest = len(self.data)
        stop = min(self._stop, self._end + max(self._chunk, rest))
        at, data, pieces = self._end, self.data, [self.data]
        while at < stop:
            start, found = self._file.range_with(at, stop)
            pieces.append(found[at - start : stop - start])
            at = min(stop, start + len(found))
            if start <= self.offset:
                data = found[self.offset - start : at - start]
                break
        else:
            data = np.concatenate(pieces)
        self._end = at
        self._chunk = min(4 * self._chunk, self._largest)
        self.final = at >= self._stop
        self.data = data

    def use(self, count: int) -> None:
        self.data = self.data[count:]
        self.offset += count

    def close(self) -> None:
        self.data = np.empty(0, np.uint8)


class Buffered:
    """Any other file, read into memory."""

    stays = None
    lasting = True

    def __init__(self, file: File, compression: str, offset: int, chunk: int, stop: int | None = None) -> None:
        self.data: Bytes = np.empty(0, np.uint8)
        self.final = self.cut = False
        self._stop = stop
        self.damage: str | None = None
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK, self._largest)
        self._bytes = unpack_stream(file, compression, offset if not compression else 0)
        self.offset = 0 if compression else offset
        while self.offset < offset and not self.final:
            self.more()
            self.use(min(len(self.data), offset - self.offset))

    def more(self, least: int = 0) -> None:  # noqa: ARG002 - memory is not free
        rest = len(self.data)
        size = max(self._chunk, rest)
        if self._stop is not None:
            size = min(size, self._stop - self.offset - rest)
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
        if not self.final and self._stop == self.offset + rest + got:
            self.final = True
            self.cut = self._goes_on()

    def _goes_on(self) -> bool:
        """Whether the file has bytes beyond the window."""
        try:
            return self._bytes.read_into(np.empty(1, np.uint8)) > 0
        except DamagedError:  # reported by the reader of what follows
            return True

    def use(self, count: int) -> None:
        self.data = self.data[count:]
        self.offset += count

    def close(self) -> None:
        self.data = np.empty(0, np.uint8)


class Held:
    """Bytes of a file that are in memory already, from `offset` of the (decompressed) file on."""

    stays = None
    lasting = True
    final = True

    def __init__(self, data: Bytes, offset: int, *, cut: bool, damage: str | None) -> None:
        self.data = data
        self.offset = offset
        self.cut = cut
        self.damage = damage

    def more(self, least: int = 0) -> None:
        """There is no more."""

    def use(self, count: int) -> None:
        self.data = self.data[count:]
        self.offset += count

    def close(self) -> None:
        self.data = np.empty(0, np.uint8)


class Failed(Held):
    """The bytes that were read before an error. Who has used them and wants more meets it."""

    final = False

    def __init__(self, data: Bytes, offset: int, error: Exception) -> None:
        super().__init__(data, offset, cut=False, damage=None)
        self._error = error
        self._seen = not len(data)

    def more(self, least: int = 0) -> None:  # noqa: ARG002
        if self._seen:
            raise self._error
        self._seen = True
