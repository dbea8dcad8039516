"""The bytes of one file from some offset on, in a sliding window."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headrace import _native
from headrace.core.limits import MAX_RECORD_BYTES
from headrace.core.override import override
from headrace.formats.shared.files import Bytes, File, LocalFile
from headrace.formats.shared.unpack import DamagedError, unpack_stream
from headrace.remote.objects import RemoteFile

FIRST_CHUNK_BYTES = 64 << 10
MAX_CHUNK_BYTES = 1 << 20
"""How much is read at a time once a file has proved large: enough rows to amortize the calls."""
MAX_RESIDENT_BYTES = 16 << 20
"""How many bytes of a mapped file that were read stay mapped in this process at most."""


def too_long(most: int) -> str:
    """Return the reason for which a record of more bytes is refused."""
    return f"a record of more than {most} bytes: hr.Options(max_record_bytes=…) allows larger ones"


class FileWindow(Protocol):
    """Bytes that were read and not consumed: `data`, which begins `offset` bytes into the decompressed file.

    Once `final` is set there is no more; with `cut` the file continues, but the window does not. `damage` says why the
    file could not be read to its end. Nothing that is made from `data` may share its memory: it may be that of the file
    itself.
    """

    data: Bytes
    offset: int
    final: bool
    cut: bool
    damage: str | None
    lasting: bool
    """Whether views of `data` stay valid when the window moves on."""

    @property
    def full(self) -> bool:
        """Whether it holds as many bytes as it may: `more` then reports a record that is too long."""
        ...

    @property
    def stays(self) -> _native.MappedFile | None:
        """The mapping that `data` belongs to, if it persists while it is referenced."""
        ...

    def more(self, least: int = 0) -> None:
        """Read on; twice as much if a record did not fit."""
        ...

    def use(self, count: int) -> None:
        """Consume the first `count` bytes. Raise OSError if they were not the file's bytes."""
        ...

    def close(self) -> None:
        """Free the data."""
        ...


def open_window(
    file: File,
    compression: str,
    offset: int,
    chunk: int | None,
    memory: _native.MappedFile | None = None,
    stop: int | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> FileWindow:
    """Open a window on the bytes of a file.

    Args:
        file: The file.
        compression: One of tf.data's names; offsets count decompressed bytes.
        offset: Where the window begins.
        chunk: How many bytes to read at a time, at most.
        memory: The file, if it is mapped already.
        stop: The end of the window if the file continues; None for the end of the file.
        max_record_bytes: The most bytes that are held of a file that must be copied or decompressed.
    """
    if stop is not None and stop < offset:
        raise ValueError(f"a window from byte {offset} cannot stop at byte {stop}")
    if not compression and isinstance(file, LocalFile | RemoteFile):
        try:
            return Mapped(file, offset, chunk or MAX_CHUNK_BYTES, memory, stop)
        except (OSError, ValueError):  # a pipe, an empty file, a file system that cannot map, no cache
            pass
        if isinstance(file, RemoteFile) and file.has_ranges:
            return Fetched(file, offset, chunk or MAX_CHUNK_BYTES, stop, max_record_bytes)
    return Buffered(file, compression, offset, chunk or MAX_CHUNK_BYTES, stop, max_record_bytes)


class Mapped:
    """A mapped file on disk or in the cache: its bytes are read in place and copied only once.

    If the file has shrunk, the mapping reads as zeros. So it is checked after each read, not before it, whether they
    were bytes of the file.
    """

    damage: str | None = None
    full = False
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
        self.cut: bool = self._stop < len(self._bytes)
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK_BYTES, chunk)
        self._end = self._passed = offset
        self.offset: int = offset
        self.data: Bytes = self._bytes[offset:offset]
        self.final: bool = False

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
        if (
            not self._is_shared and self.offset - self._passed >= 2 * MAX_RESIDENT_BYTES
        ):  # the rest may not have been copied yet
            self._map.release(self._passed, self.offset - MAX_RESIDENT_BYTES)
            self._passed = self.offset - MAX_RESIDENT_BYTES

    def close(self) -> None:
        self.data = self._bytes = np.empty(0, np.uint8)
        if self._is_shared:
            if (self.cut or self._passed) and self._passed < self._end:  # a piece: no other reader uses these pages
                self._map.release(self._passed, self._end)
                self._passed = self._end  # windows are closed more than once
        elif self.stays is not None:  # lazy rows keep the memory, of any number of files
            self.stays.close_file()


class Fetched:
    """A file in a store: its bytes are read in place, and copied if a record spans two ranges."""

    damage: str | None = None
    stays = None
    lasting = True

    def __init__(
        self, file: RemoteFile, offset: int, chunk: int, stop: int | None = None, most: int = MAX_RECORD_BYTES
    ) -> None:
        self.offset: int
        self._file = file
        self._most = most
        size = file.size or 0
        self._stop = size if stop is None else min(stop, size)
        self.cut: bool = self._stop < size
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK_BYTES, chunk)
        self._end = self.offset = offset
        self.data: Bytes = np.empty(0, np.uint8)
        self.final: bool = False

    def more(self, least: int = 0) -> None:  # noqa: ARG002 - memory is not free
        rest = len(self.data)
        if self.full:
            self.final, self.damage = True, too_long(self._most)
            return
        stop = min(self._stop, self._end + min(max(self._chunk, rest), self._most - rest))
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

    @property
    def full(self) -> bool:
        return len(self.data) >= self._most

    def use(self, count: int) -> None:
        self.data = self.data[count:]
        self.offset += count

    def close(self) -> None:
        self.data = np.empty(0, np.uint8)


class Buffered:
    """Any other file, read into memory."""

    stays = None
    lasting = True

    def __init__(
        self,
        file: File,
        compression: str,
        offset: int,
        chunk: int,
        stop: int | None = None,
        most: int = MAX_RECORD_BYTES,
    ) -> None:
        self.data: Bytes = np.empty(0, np.uint8)
        self._most = most
        self.cut: bool = False
        self.final: bool = False
        self._stop = stop
        self.damage: str | None = None
        self._largest = chunk
        self._chunk = min(FIRST_CHUNK_BYTES, self._largest)
        self._bytes = unpack_stream(file, compression, offset if not compression else 0)
        self.offset: int = 0 if compression else offset
        while self.offset < offset and not self.final:
            self.more()
            self.use(min(len(self.data), offset - self.offset))

    def more(self, least: int = 0) -> None:  # noqa: ARG002 - memory is not free
        rest = len(self.data)
        if self.full:
            self.final, self.damage = True, too_long(self._most)
            return
        size = min(max(self._chunk, rest), self._most - rest)
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

    @property
    def full(self) -> bool:
        return len(self.data) >= self._most

    def _goes_on(self) -> bool:
        """Return whether the file has bytes beyond the window."""
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
    full = False
    lasting = True
    final = True

    def __init__(self, data: Bytes, offset: int, *, cut: bool, damage: str | None) -> None:
        self.data: Bytes = data
        self.offset: int = offset
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
    """The bytes that were read before an error. A reader that needs more gets the error."""

    final = False

    def __init__(self, data: Bytes, offset: int, error: Exception) -> None:
        super().__init__(data, offset, cut=False, damage=None)
        self._error = error
        self._seen = not len(data)

    @override
    def more(self, least: int = 0) -> None:
        if self._seen:
            raise self._error
        self._seen = True
