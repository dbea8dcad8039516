"""Ranges of one object, requested from an asynchronous file system or read from an open file of any other."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from headrace.core.types import Argument, JsonObject, LibraryObject
from headrace.remote.faults import ReplacedError, is_passing

if TYPE_CHECKING:
    from headrace.remote.transport import Transport

BLOCK, BLOCKS = 4 << 20, 4
"""The cache of an open file: bytes per block, and number of blocks."""

HAS_STAMP = (200, 206, 416)
"""HTTP status codes of answers that identify the file: all of it, a range, no such range."""
MAX_CACHED_ANSWERS = 1 << 17
"""How many answers of stores are cached at most, if they may be cached."""

T = TypeVar("T")
Info = JsonObject
FetchRange = Callable[[int, int], Coroutine[Any, Any, bytes]]


class Ranges(Protocol):
    """Read the bytes of a file between two offsets; `ahead` if several requests can be in progress."""

    ahead: bool

    def begin(self, start: int, stop: int) -> Future[bytes]:
        """Ask for some bytes; fewer come at the end of the file."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def is_asynchronous(system: object) -> bool:
    """Return whether requests of a file system can be in progress without a thread to wait for each."""
    from fsspec.asyn import AsyncFileSystem

    return isinstance(system, AsyncFileSystem)


def begin_asking(via: Transport, system: LibraryObject, name: str) -> Future[Info]:
    """Ask what a store knows of a file now: not what it said in a listing some time ago."""
    if is_asynchronous(system):
        return via.begin(system, _info(system, name))
    system.invalidate_cache(name)
    return done(lambda: system.info(name))


async def _info(system: LibraryObject, name: str) -> Info:
    system.invalidate_cache(name)
    if "gs" in _protocols(system) and hasattr(system, "_get_object"):
        found: Info = await system._get_object(name)  # `_info` also asks whether it is a folder
        return found
    return await system._info(name)  # type: ignore[no-any-return]


def _protocols(system: LibraryObject) -> set[str]:
    return {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)


def ask(via: Transport, system: object, name: str) -> Info:
    """Return what it says."""
    return via.wait(begin_asking(via, system, name))


class FirstAnswer(NamedTuple):
    """A store's metadata of a file, and the file's first bytes if they came with it."""

    info: Info
    first: bytes | None = None


_answers: dict[tuple[Any, str], tuple[float, FirstAnswer]] = {}
"""Cached answers of stores with their times, for readers that accept cached metadata."""


def begin_opening(via: Transport, system: object, name: str, *, first: int = 0) -> Future[FirstAnswer]:
    """Request the metadata of a file, with its `first` bytes if one request can do both."""
    told = _answers.get((getattr(system, "_fs_token", None), name)) if via.valid else None
    if told is not None and time.monotonic() - told[0] < via.valid:
        return done(lambda: told[1])
    begun = time.perf_counter_ns()
    if is_asynchronous(system):
        future = via.begin(system, _open_object(system, name, first))
    else:
        future = done(lambda: FirstAnswer(begin_asking(via, system, name).result()))
    via.counters.watch(begun, future)
    if via.valid:
        future.add_done_callback(partial(_remember_answer, system, name))
    return future


async def _open_object(system: LibraryObject, name: str, first: int) -> FirstAnswer:
    system.invalidate_cache(name)
    open_with = next((how for protocol, how in OPEN_WITH_BYTES.items() if protocol in _protocols(system)), None)
    if first and open_with is not None:
        try:
            return await open_with(system, name, first)
        except Exception as error:
            if is_passing(error):
                raise
            # There is none, or it is empty, or a directory, or the answer does not say: then request the metadata
            # explicitly.
    return FirstAnswer(await _info(system, name))


async def _open_s3(system: object, name: str, first: int) -> FirstAnswer:
    answer = await _get_s3(system, name, 0, first)
    try:
        size = int(answer["ContentRange"].rpartition("/")[2])
        info = {"ETag": answer["ETag"], "LastModified": answer["LastModified"], "size": size, "type": "file"}
        return FirstAnswer(info, await answer["Body"].read())
    finally:
        answer["Body"].close()


async def _open_gs(system: LibraryObject, name: str, first: int) -> FirstAnswer:
    headers, data = await system._call("GET", system.url(name), headers={"Range": f"bytes=0-{first - 1}"})
    hashes = dict(each.strip().split("=", 1) for each in headers["x-goog-hash"].split(","))
    size = int(headers["Content-Range"].rpartition("/")[2])
    info = {"generation": headers["x-goog-generation"], "size": size, "type": "file", "crc32c": hashes["crc32c"]}
    return FirstAnswer(info | ({"md5Hash": hashes["md5"]} if "md5" in hashes else {}), data)


OPEN_WITH_BYTES = {"s3": _open_s3, "gs": _open_gs}
"""Stores that identify the object along with the bytes of a range."""


async def _get_s3(system: LibraryObject, name: str, start: int, stop: int, **asked: Argument) -> LibraryObject:
    bucket, key, version = system.split_path(name)
    asked |= {"VersionId": version} if version else {}
    which = {"Bucket": bucket, "Key": key, "Range": f"bytes={start}-{stop - 1}"}
    return await system._call_s3("get_object", **which, **asked, **system.req_kw)


def _remember_answer(system: LibraryObject, name: str, future: Future[FirstAnswer]) -> None:
    if not future.cancelled() and future.exception() is None:
        if len(_answers) >= MAX_CACHED_ANSWERS:
            _answers.clear()
        _answers[system._fs_token, name] = time.monotonic(), FirstAnswer(future.result().info)


def forget_answer(system: object, name: str) -> None:
    """Forget the cached answer about a file."""
    _answers.pop((getattr(system, "_fs_token", None), name), None)


def done(work: Callable[[], T]) -> Future[T]:
    """Return a finished future with the result or the exception of `work`."""
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future


class Requests:
    """One request per range, of the object that was opened and no other.

    Some stores take its tag with the request and reject another, or identify the object with the bytes. For the others,
    the metadata is requested again after each range to check that the object is the same.
    """

    ahead = True

    def __init__(
        self, via: Transport, system: LibraryObject, name: str, info: Info, is_this: Callable[[Info], bool]
    ) -> None:
        self._via = via
        self._system = system
        self._name = name
        self._is_this = is_this
        self._fetch = _pin_object(system, name, info) or self._checked

    def begin(self, start: int, stop: int) -> Future[bytes]:
        return self._via.begin(self._system, self._fetch(start, stop))

    async def _checked(self, start: int, stop: int) -> bytes:
        data: bytes = await self._system._cat_file(self._name, start=start, end=stop)
        if not self._is_this(await _info(self._system, self._name)):
            raise ReplacedError
        return data

    def close(self) -> None:
        """Nothing is open."""


def _pin_object(system: LibraryObject, name: str, info: Info) -> FetchRange | None:
    """Return a function that requests ranges of this very object, None if the store has no such request."""
    protocols = _protocols(system)
    if "s3" in protocols and info.get("ETag"):
        return partial(_from_s3, system, name, info["ETag"])
    generation = info.get("generation")
    if "gs" in protocols and generation and "generation" in inspect.signature(system.url).parameters:
        return lambda start, stop: system._cat_file(name, start=start, end=stop, generation=generation)
    if {"http", "https"} & protocols and info.get("ETag", info.get("Last-Modified")):
        return partial(_from_http, system, name, info)
    return None


async def _from_s3(system: object, name: str, tag: str, start: int, stop: int) -> bytes:
    answer = await _get_s3(system, name, start, stop, IfMatch=tag)
    try:
        if answer.get("ETag", tag) != tag:
            raise ReplacedError
        data: bytes = await answer["Body"].read()
        return data
    finally:
        answer["Body"].close()


async def _from_http(system: LibraryObject, name: str, info: Info, start: int, stop: int) -> bytes:
    stamp = "ETag" if info.get("ETag") else "Last-Modified"
    how = dict(system.kwargs)
    headers = {**how.pop("headers", {}), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    session = await system.set_session()
    async with session.get(system.encode_url(name), headers=headers, **how) as answer:
        data: bytes = await answer.read()
        found = answer.headers.get(stamp)
        size = answer.headers.get("Content-Range", "").rpartition("/")[2]
        is_other = found not in (None, info[stamp]) or size not in ("", "*", str(info["size"]))
        if is_other and answer.status in HAS_STAMP:
            raise ReplacedError
        system._raise_not_found_for_status(answer, name)
    if found is None and (await _info(system, name)).get(stamp) != info[stamp]:
        raise ReplacedError
    return data


class Handle:
    """A file that some other file system has opened; opened again after a fault."""

    ahead = False

    def __init__(self, via: Transport, system: LibraryObject, name: str, is_this: Callable[[Info], bool]) -> None:
        self._via = via
        self._system = system
        self._name = name
        self._is_this = is_this
        self._file: LibraryObject = None
        self._checked = -1
        self._lock = threading.RLock()

    def begin(self, start: int, stop: int) -> Future[bytes]:
        with self._lock:
            read = done(lambda: self._read(start, stop))
            if read.exception() is not None:
                self.close()
        return read

    def _read(self, start: int, stop: int) -> bytes:
        if self._file is None:
            self._file = self._opened()
        if self._file.tell() != start:
            self._move(start)
        parts, left = [], stop - start
        while left and (part := self._file.read(left)):
            parts.append(part)
            left -= len(part)
        if start // BLOCK != self._checked:
            if not self._is_this(ask(self._via, self._system, self._name)):
                raise ReplacedError
            self._checked = start // BLOCK
        return b"".join(parts)

    def _opened(self) -> LibraryObject:
        from fsspec.implementations.cached import CachingFileSystem

        if isinstance(self._system, CachingFileSystem):
            return self._system.open(self._name, "rb")
        cache = {"maxblocks": BLOCKS}
        return self._system.open(self._name, "rb", block_size=BLOCK, cache_type="background", cache_options=cache)

    def _move(self, start: int) -> None:
        try:
            self._file.seek(start)
            return
        except (OSError, ValueError):  # a stream, which only goes forward
            pass
        if start < self._file.tell():
            self.close()
            self._file = self._opened()
        while (left := start - self._file.tell()) > 0 and self._file.read(min(left, BLOCK)):
            pass

    def close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        file.close()
        ahead = getattr(getattr(file, "cache", None), "_thread_executor", None)
        if ahead is not None:  # else its thread would stay until the collector comes by
            ahead.shutdown(wait=False, cancel_futures=True)
