"""Files in stores: fetched by ranges of exact length, all of the same object."""

from __future__ import annotations

import errno
import hashlib
import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from glob import has_magic
from itertools import takewhile
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.core.types import JsonObject
from headrace.errors import TransportError
from headrace.remote.faults import LengthError
from headrace.remote.identity import Identity, Token
from headrace.remote.kept_object import KeptObject
from headrace.remote.mapped_object import MappedObject
from headrace.remote.ranges import (
    FirstAnswer,
    Handle,
    Ranges,
    Requests,
    ask,
    begin_asking,
    begin_opening,
    done,
    forget_answer,
    is_asynchronous,
)
from headrace.remote.redact import show_path
from headrace.remote.transport import Future, Transport, folder_remedy

BLOCK = 4 << 20
"""A remote file is read in ranges of this size, the next one while this one is used."""
READ_AHEAD_BYTES = BLOCK // 4
"""The next range is requested once this much of a range was used: a reader of the first bytes gets no more."""
REQUESTS_IN_FLIGHT = 16
"""How many requests are in flight if many are to be made."""
MAX_WHOLE_FILE_BYTES = 64 << 20
"""A server without range requests returns the whole file, which is cut here if it is at most this large."""
MAX_GAP_BYTES = 64 << 10
"""Ranges with no more than this between them are fetched together."""
MIN_RANDOM_READ_BYTES = 256 << 10
"""The smallest request of a reader with random access, in bytes."""
RANGES_PER_LOOKUP = 32
"""How many ranges are looked up in the cache at a time."""
RANGES_PER_MAPPING = 8
"""How many cached ranges are mapped at a time."""
KEPT_RANDOM_READS = 2
"""How many of these requests are kept: table files are read at both ends alternately."""
STAMPS = (
    "md5Hash", "crc32c", "content_md5", "ETag", "etag", "generation", "Last-Modified", "LastModified", "last_modified",
    "mtime", "modified", "created",
)  # fmt: skip
"""Metadata fields that identify a file's content, the best first."""

Bounds = tuple[int, int]
Buffer = bytes | memoryview
PendingRanges = dict[Bounds, Future[bytes]]


def identity_of(info: JsonObject) -> Identity:
    """Return the identity of a file from its store's metadata."""
    known = next((f"{key} {info[key]}" for key in STAMPS if info.get(key)), None)
    if known is None:
        known = hashlib.blake2b(repr(sorted(info.items(), key=str)).encode(), digest_size=12).hexdigest()
    return Identity(info.get("size"), known)


def remote_identity(path: str, via: Transport) -> Identity:
    """Return what a file is now, by one request. Raise OSError if there is none."""
    system, name = via.system(path)
    return identity_of(via.attempt(path, lambda: ask(via, system, name)))


def remote_identities(paths: Sequence[str], via: Transport) -> dict[str, Identity | None]:
    """Return what files are now, None for missing ones. Several requests run at a time."""
    begun: dict[str, Future[JsonObject]] = {}
    found: dict[str, Identity | None] = {}
    for i, path in enumerate(paths):
        for each in paths[i : i + REQUESTS_IN_FLIGHT]:
            if each not in begun:
                begun[each] = begin_asking(via, *via.system(each))
        found[path] = None
        with suppress(FileNotFoundError):
            found[path] = identity_of(via.attempt(path, partial(_answer, path, via, begun)))
    return found


def _answer(path: str, via: Transport, begun: dict[str, Future[JsonObject]]) -> JsonObject:
    return via.wait(begun.pop(path) if path in begun else begin_asking(via, *via.system(path)))


class RemoteFile:
    """A file in any store that fsspec supports. If it is read in order, the next range is fetched ahead."""

    def __init__(self, path: str, via: Transport, opening: FirstAnswer | None = None) -> None:
        self._path = path
        self._via = via
        self._system, self._name = system, name = via.system(path)
        if opening is None:
            opening = via.attempt(path, lambda: via.wait(begin_opening(via, system, name)))
        info = opening.info
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, folder_remedy(path), show_path(path))
        self._identity = identity_of(info)
        self.size: int | None = self._identity.size
        self.token: Token = Token(path, self._identity.token)
        self._cache: KeptObject | None = None
        if via.cache is not None and self.size is not None:
            self._cache = KeptObject(via.cache, path, f"{self.size} {self._identity.stamp}")
        self._ranges: Ranges
        if is_asynchronous(system) and self.size is not None:
            self._ranges = Requests(via, system, name, info, self._is_this)
        else:
            self._ranges = Handle(via, system, name, self._is_this)
        self._begun: PendingRanges = {}
        self._kept: dict[Bounds, bool] = {}
        self._memory: MappedObject | None = None
        self._start = 0
        self._gone_on = -1
        self._ahead = (0, 0)
        self._block: Buffer = b""
        first = opening.first
        if first is not None and len(first) == min(BLOCK, self.size or 0):
            self._begun[self._bounds(0)] = done(lambda: first)

    def identity(self) -> Identity:
        """Return which file it is."""
        return self._identity

    def _is_this(self, info: JsonObject) -> bool:
        return identity_of(info) == self._identity

    def read_into(self, out: NDArray[np.uint8], offset: int) -> int:
        left = len(out) if self.size is None else max(0, min(len(out), self.size - offset))
        if self._memory is not None:
            self._memory.load(offset, offset + left)
            out[:left] = self._memory.data[offset : offset + left]
            if not self._memory.intact:
                raise self.broken()
            return left
        if not self._ranges.ahead:
            data = self._fetched((offset, offset + left), {})
            out[: len(data)] = np.frombuffer(data, np.uint8)
            return len(data)
        done = 0
        while done < left:
            at = offset + done
            start, block = self.range_with(at, offset + left)
            piece = block[at - start : offset + left - start]
            out[done : done + len(piece)] = piece
            done += len(piece)
        return done

    @property
    def has_ranges(self) -> bool:
        """Return whether `range_with` is available at some offset."""
        return self._ranges.ahead and self.size is not None

    def range_with(self, at: int, stop: int) -> tuple[int, NDArray[np.uint8]]:
        """Return the bytes of the range that contains an offset, and its start. They will be read up to `stop`."""
        if not self._start <= at < self._start + len(self._block):
            start = at - at % BLOCK
            self._start, self._block = start, b""
            self._pass_to(self._bounds(start))
            self._block = self._fetched(self._bounds(start), self._begun)
        self._go_on(min(stop, self._start + len(self._block)))
        return self._start, np.frombuffer(self._block, np.uint8)

    def _go_on(self, stop: int) -> None:
        """Ask for what comes next, once, when a block was read up to here."""
        if self._gone_on != self._start and (stop - self._start > READ_AHEAD_BYTES or stop == self.size):
            self._gone_on = self._start
            self._read_on()

    def map_memory(self) -> MappedObject:
        """Return the file as memory, read in order. Raise ValueError if none of it is cached on disk."""
        if self._cache is None or not self._ranges.ahead or not self.size:
            raise ValueError("only files with a cache on disk are mapped")
        if self._memory is None:
            self._memory = MappedObject(self.size, BLOCK, self._put_blocks, self._look_on)
        return self._memory

    def _put_blocks(self, parts: _native.MappedParts, start: int) -> list[int]:
        bounds = self._bounds(start)
        self._pass_to(bounds)
        assert self._cache is not None and self.size is not None
        wanted = [
            self._bounds(each) for each in range(start, min(self.size, start + RANGES_PER_MAPPING * BLOCK), BLOCK)
        ]
        count = self._cache.map_known(parts, takewhile(lambda each: each not in self._begun, wanted))
        if count:
            self._via.counters.cached(count)
            return [first for first, _ in wanted[:count]]
        if bounds not in self._begun and self._cache.map_into(parts, *bounds):
            self._via.counters.cached(1)
        else:
            parts.put_copy(self._fetched(bounds, self._begun), start)
        return [start]

    def _look_on(self, stop: int) -> None:
        """Mapped bytes up to here will be looked at."""
        self._start = max(0, stop - 1) // BLOCK * BLOCK
        self._go_on(stop)

    def broken(self) -> Exception:
        """Return the error for mapped memory that is no longer intact."""
        cut = "a file of its cache on disk could not be read, or was cut short while it was; it will be fetched again"
        return TransportError(f"{show_path(self._path)}: {cut}")

    def _read_on(self) -> None:
        """Keep as many ranges in flight as have proved good: of this file, then of the files after it."""
        in_flight = self._via.in_flight
        wanted = in_flight.share(id(self))
        spare, each = in_flight.spare(id(self), wanted - self.begin_first(wanted, self._start + BLOCK))
        if spare:
            self._via.coming.begin_next(self._path, spare, each)

    def begin_first(self, count: int, start: int = 0) -> int:
        """Request `count` ranges from one offset on. Return how many there are."""
        if not self._ranges.ahead or self.size is None:
            return 0
        stop = min(start + count * BLOCK, self.size)
        if start < self._ahead[0]:  # a reader went back
            self._ahead = (start, start)
        for each in range(max(start, self._ahead[1]), stop, BLOCK):
            self._begin(self._bounds(each), self._begun, ahead=True)
        self._ahead = (start, max(stop, self._ahead[1]))
        return len(range(start, stop, BLOCK))

    def _pass_to(self, bounds: Bounds) -> None:
        """Drop requests before a block. Request more at a time if the reader has to wait for it."""
        for passed in [each for each in self._begun if each[0] < bounds[0]]:
            self._begun.pop(passed).cancel()
        found = self._begun.get(bounds)
        if not (self._kept.get(bounds) if found is None else found.done()):
            self._via.in_flight.grow(self._via.most_in_flight)

    def _bounds(self, start: int) -> Bounds:
        return start, start + BLOCK if self.size is None else min(start + BLOCK, self.size)

    def _begin(self, bounds: Bounds, begun: PendingRanges, *, ahead: bool = False) -> None:
        if bounds[0] >= bounds[1] or bounds in begun:
            return
        if ahead and self._is_kept(bounds):
            return
        started = perf_counter_ns()
        begun[bounds] = request = self._ranges.begin(*bounds)
        self._via.counters.watch(started, request)

    def _is_kept(self, bounds: Bounds) -> bool:
        """Return whether the cache had a range when it was looked up together with those after it: each lookup may
        block.
        """
        if self._cache is None:
            return False
        if bounds not in self._kept:
            start, size = bounds[0], self.size or 0
            behind = (
                range(start, min(size, start + RANGES_PER_LOOKUP * BLOCK), BLOCK)
                if bounds == self._bounds(start)
                else ()
            )
            wanted = [self._bounds(each) for each in behind] or [bounds]
            self._kept.update(zip(wanted, self._cache.has(wanted), strict=True))
        return self._kept.get(bounds, False)

    def _fetched(self, bounds: Bounds, begun: PendingRanges) -> Buffer:
        """Return all bytes between these bounds. They may be in flight already, or on disk."""
        start, stop = bounds
        if start >= stop:
            return b""
        if self._cache is not None and bounds not in begun:
            kept = self._cache.get(*bounds)
            self._via.counters.cached(kept is not None, kept is None)
            if kept is not None:
                return kept

        def fetch() -> bytes:
            self._begin(bounds, begun)
            data = self._via.wait(begun.pop(bounds))
            if self.size is None or len(data) == stop - start:
                return self._keep(bounds, data)
            if len(data) == self.size <= MAX_WHOLE_FILE_BYTES:
                return self._keep(bounds, data[start:stop])
            self._ranges.close()  # which may have kept it
            raise LengthError(f"{len(data)} bytes came of the {stop - start} from byte {start} on that were asked for")

        try:
            return self._via.attempt(self._path, fetch, opened=True)
        except TransportError:
            forget_answer(self._system, self._name)
            raise

    def _keep(self, bounds: Bounds, data: bytes) -> bytes:
        if self._cache is not None:
            self._cache.put(*bounds, data)
            self._kept.pop(bounds, None)
        return data

    def read_ranges(self, bounds: Sequence[Bounds]) -> list[Buffer]:
        """Return the bytes between each of these bounds, several requested at a time; from whatever thread."""
        begun: PendingRanges = {}
        runs = list(_runs(bounds))
        found: list[Buffer] = []
        try:
            for i, run in enumerate(runs):
                for _, start, stop in runs[i : i + REQUESTS_IN_FLIGHT] if self._ranges.ahead else ():
                    self._begin((start, stop), begun, ahead=True)
                count, first, last = run
                data = self._fetched((first, last), begun)
                parts = bounds[len(found) : len(found) + count]
                found += [data[start - first : stop - first] for start, stop in parts] if count > 1 else [data]
            return found
        finally:
            for future in begun.values():
                future.cancel()

    def read_range(self, start: int, stop: int | None) -> bytes:
        """Return the bytes from one place to before another, or to the end."""
        last = min(2**62 if stop is None else stop, 2**62 if self.size is None else self.size)
        if self.size is not None:
            return b"".join(self.read_ranges([(at, min(last, at + BLOCK)) for at in range(start, last, BLOCK)]))
        parts = []
        while start < last and (part := self._fetched((start, min(last, start + BLOCK)), {})):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def close(self) -> None:
        begun, self._begun = self._begun, {}
        for future in begun.values():
            future.cancel()
        self._via.in_flight.leave(id(self))
        self._ranges.close()
        self._block = b""
        self._memory = None


def _runs(bounds: Sequence[Bounds]) -> Iterator[tuple[int, int, int]]:
    """Yield how many consecutive bounds are so close that one request serves them, and what it requests."""
    count = first = last = 0
    for start, stop in bounds:
        if count and last <= start <= last + MAX_GAP_BYTES and stop - first <= BLOCK:
            count, last = count + 1, stop
            continue
        if count:
            yield count, first, last
        count, first, last = 1, start, stop
    if count:
        yield count, first, last


def open_remote(path: str, via: Transport, *, start: int | None = None) -> RemoteFile:
    """Open a file in a store. The first bytes may come along if it is read in order from `start` on."""
    begun = via.coming.take(path)
    first = BLOCK if start is not None and start < BLOCK and via.cache is None else 0
    if begun is not None and begun.file is not None:
        via.coming.ask_after(path, first)
        return begun.file
    system, name = via.system(path)
    future: Future[FirstAnswer] | None = None if begun is None else begun.future
    future = future or begin_opening(via, system, name, first=first)
    if not future.done():
        via.in_flight.grow(via.most_in_flight)
    via.coming.ask_after(path, first)  # when this one was asked about

    def opening() -> FirstAnswer:
        nonlocal future
        asked, future = future, None
        return via.wait(asked or begin_opening(via, system, name, first=first))

    return RemoteFile(path, via, via.attempt(path, opening))


class Seekable(io.RawIOBase):
    """A remote file for random access: small reads share a range, large ones have their own."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._at = 0
        self._pieces: deque[tuple[int, Buffer]] = deque(maxlen=KEPT_RANDOM_READS)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size or 0}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = self._file.size or 0
        count = max(0, min(len(buffer), size - self._at))
        if count >= MIN_RANDOM_READ_BYTES:
            (data,) = self._file.read_ranges([(self._at, self._at + count)])
        else:
            start, piece = self._piece(self._at, self._at + count)
            data = piece[self._at - start : self._at - start + count]
        buffer[:count] = data
        self._at += count
        return count

    def _piece(self, start: int, stop: int) -> tuple[int, Buffer]:
        """Return a range that contains these bytes, and where it begins."""
        for first, piece in self._pieces:
            if first <= start and stop <= first + len(piece):
                return first, piece
        size = self._file.size or 0
        first = max(0, min(start, size - MIN_RANDOM_READ_BYTES))
        (piece,) = self._file.read_ranges([(first, min(size, first + MIN_RANDOM_READ_BYTES))])
        self._pieces.append((first, piece))
        return first, piece

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def matching_names(pattern: str, via: Transport) -> list[str]:
    """Return the URLs in a store that match a pattern."""
    system, path = via.system(pattern)

    def find() -> list[str]:
        system.invalidate_cache()
        if not is_asynchronous(system):
            return list(system.glob(path)) or ([path] if has_magic(path) and system.exists(path) else [])
        names: list[str] = via.wait(via.begin(system, system._glob(path)))
        return names or ([path] if has_magic(path) and via.wait(via.begin(system, system._exists(path))) else [])

    try:
        names = via.attempt(pattern, find)
    except FileNotFoundError:
        return []
    return [_url(pattern, name, system.unstrip_protocol) for name in names]


def _url(pattern: str, name: str, unstrip: Callable[[str], str]) -> str:
    """Return the name of a file that was found by a pattern, which may be a chain of URLs."""
    first, *rest = pattern.split("::")
    protocol, separator, path = first.partition("://")
    if not rest:
        return unstrip(name)
    if separator and path:  # a file within an archive
        return "::".join([f"{protocol}://{name}", *rest])
    return "::".join([*pattern.split("::")[:-1], unstrip(name)])
