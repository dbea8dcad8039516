"""Remote files behind a proxy that keeps every answer back for 100 ms, against the bare libraries; and the cache.

S3 and Google Cloud Storage are their emulators on loopback. The bare library asks for ranges of 4 MB, 8 or 16 at a
time, and does nothing with the bytes; headrace reads records of 1 MB.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
from harness import Bound, Case, UnsupportedError, main

import headrace as hr

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.stores import servers
from tests.stores.faults import running

LATENCY = 0.1
BLOCK, RECORD, SIZE, FILES = 4 << 20, 1 << 20, 32 << 20, 16
LARGE, LARGE_FILES = 128 << 20, 16
KNOWN = {"key": "AKIAEXAMPLEKEY", "secret": "secret", "client_kwargs": {"region_name": "eu-west-1"}}
SPAWN = multiprocessing.get_context("spawn")
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # which the emulator has not
_folder = TemporaryDirectory(prefix="headrace-benchmark-")
_open = ExitStack()
atexit.register(_open.close)


def content(number: int, size: int) -> bytes:
    return np.random.default_rng(number).bytes(size)


class Store:
    """Files behind the slow proxy; `options` are those of its file system."""

    def __init__(self, protocol: str, options: dict[str, Any]) -> None:
        here, there = SPAWN.Pipe()
        process = SPAWN.Process(target=serve, args=(protocol, there), daemon=True)
        process.start()
        there.close()
        _open.callback(process.join)
        _open.callback(here.close)
        try:
            self.proxy: str = here.recv()
        except EOFError:
            raise UnsupportedError(f"the emulator of {protocol} is not installed") from None
        self.protocol = protocol
        self.options = {name: self.proxy if value is ... else value for name, value in options.items()}
        self.names = [f"{protocol}://bench/{i}" for i in range(FILES)]


def serve(protocol: str, pipe: Any) -> None:
    """A store and the proxy before it, in a separate process, so that the reader does not share the GIL with them."""
    with ExitStack() as stack:
        upstream = (
            stack.enter_context(servers.moto() if protocol == "s3" else servers.emulator())
            if protocol in FILL
            else None
        )
        if upstream is not None:
            FILL[protocol](upstream)
        proxy = stack.enter_context(running(upstream))
        proxy.before = lambda _: time.sleep(LATENCY)
        proxy.describe_object = cache(proxy.describe_object)  # type: ignore[method-assign] # no object changes
        if upstream is None:
            for i in range(LARGE_FILES):
                proxy.put(f"{i}", content(i, LARGE))
        pipe.send(proxy.url)
        with suppress(EOFError):
            pipe.recv()


def fill_s3(url: str) -> None:
    import fsspec

    direct = fsspec.filesystem("s3", **KNOWN, endpoint_url=url)
    direct.mkdir("bench")
    for i in range(FILES):
        direct.pipe_file(f"bench/{i}", content(i, SIZE))


def fill_gs(url: str) -> None:
    def post(path: str, data: bytes, kind: str) -> None:
        urlopen(Request(f"{url}{path}", data, {"Content-Type": kind}, method="POST")).close()

    post("/storage/v1/b?project=p", json.dumps({"name": "bench"}).encode(), "application/json")
    for i in range(FILES):
        post(f"/upload/storage/v1/b/bench/o?uploadType=media&name={i}", content(i, SIZE), "text/plain")


FILL = {"s3": fill_s3, "gs": fill_gs}


@cache
def s3() -> Store:
    return Store("s3", {**KNOWN, "endpoint_url": ...})


@cache
def gs() -> Store:
    return Store("gs", {"token": "anon", "project": "p", "endpoint_url": ...})


@cache
def large() -> Store:
    """Two gigabytes: a pass waits for one answer before its first row, and is to take several times that."""
    made = Store("http", {})
    made.names = [f"{made.proxy}/{i}" for i in range(LARGE_FILES)]
    return made


def bare(store: Callable[[], Store], at_once: int) -> Callable[[], int]:
    """All ranges of all files by the library alone, with this many requests in flight."""

    def job() -> int:
        import fsspec

        made = store()
        system = fsspec.filesystem(made.protocol, **made.options)

        async def fetch() -> int:
            free = asyncio.Semaphore(at_once)

            async def one(name: str, start: int) -> int:
                async with free:
                    return len(await system._cat_file(name, start=start, end=start + BLOCK))

            ranges = [(name, start) for name in made.names for start in range(0, SIZE, BLOCK)]
            return sum(await asyncio.gather(*(one(*each) for each in ranges)))

        return asyncio.run_coroutine_threadsafe(fetch(), system.loop).result() // RECORD

    return job


def ours(store: Callable[[], Store], reads: int | None, **options: Any) -> Callable[[], int]:
    def job() -> int:
        made = store()
        told = hr.Options(storage_options={made.protocol: made.options}, **options)
        ds = hr.FixedLengthRecordDataset(made.names, RECORD, num_parallel_reads=reads).with_options(told)
        return sum(1 for _ in ds)

    return job


def cached(store: Callable[[], Store], reads: int | None, valid: float | None = None) -> Callable[[], int]:
    return ours(store, reads, remote_cache=str(Path(_folder.name, "cache")), remote_cache_valid=valid)


@cache
def local_files(files: int, size: int) -> list[str]:
    names = []
    for i in range(files):
        path = Path(_folder.name, f"local-{size}-{i}")
        path.write_bytes(content(i, size))
        names.append(str(path))
    return names


def local(reads: int | None, files: int = LARGE_FILES, size: int = LARGE) -> Callable[[], int]:
    names = cache(lambda: local_files(files, size))
    return lambda: sum(1 for _ in hr.FixedLengthRecordDataset(names(), RECORD, num_parallel_reads=reads))


def over_bound(rounds: int) -> list[float]:
    """By how many bytes a cache of 2 MB was ever over its bound: 4 processes, 10,000 reads in all, 20 kills."""
    from tests.stores.test_cache import writers

    del rounds
    largest, kills = writers(Path(_folder.name, "bound"), processes=4, reads=2500, kills=20)
    assert not kills
    return [max(0.0, largest - 2_000_000)]


RECORDS = FILES * SIZE // RECORD
CASES: list[Case | Bound] = [
    *(
        Case(
            f"{name}, 100 ms, {how}",
            {"the library": 0.8},
            {"headrace": ours(store, reads), "the library": {f"{n} at once": bare(store, n) for n in (8, 16)}},
            RECORDS,
        )
        for name, store in (("S3", s3), ("GCS", gs))
        for how, reads in (("in order", None), ("4 reads", 4))
    ),
    *(
        Case(
            f"2 GB by HTTP, second pass from the cache, {how}",
            {"local files": 0.8},
            {"headrace": cached(large, reads, valid), "local files": local(reads)},
            LARGE_FILES * LARGE // RECORD,
        )
        for how, reads, valid in (
            ("in order", None, None),
            ("4 reads", 4, None),
            ("in order, answers of a minute count", None, 60),
        )
    ),
    Case(
        "256 MB of S3, second pass from the cache: mostly one answer of 100 ms",
        {},
        {"headrace": cached(s3, None), "local files": local(None, FILES, SIZE)},
        RECORDS,
    ),
    Bound("cache over its bound", 0, "bytes", over_bound),
]

if __name__ == "__main__":
    sys.exit(main("headrace: stores", CASES, description=__doc__))
