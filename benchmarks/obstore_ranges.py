"""Ranges of one object: obstore against fsspec (s3fs, gcsfs), from a server on this machine with and without latency.

python benchmarks/obstore_ranges.py prints one line a store, latency and library: seconds of wall clock, CPU seconds of
the client, and MB/s. The server runs in a process of its own and sends from memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OBJECT_BYTES = 64 << 20
RANGE_BYTES = 1 << 20
MAX_REQUESTS_IN_FLIGHT = 16
RANGES = [(start, start + RANGE_BYTES) for start in range(0, OBJECT_BYTES, RANGE_BYTES)]
ROUNDS = 3


def serve(port: Any, latency_seconds: float) -> None:
    """A bucket with one object, under the paths of S3 and of both APIs of Cloud Storage."""
    body = os.urandom(1 << 20) * (OBJECT_BYTES >> 20)

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._send(b"", OBJECT_BYTES)

        def do_GET(self) -> None:
            time.sleep(latency_seconds)
            if self.path.startswith("/storage/v1/") and "alt=media" not in self.path:
                about = {"name": "o", "bucket": "b", "size": str(OBJECT_BYTES), "generation": "1", "etag": "e"}
                self._send(json.dumps(about).encode(), None)
                return
            wanted = self.headers.get("Range", f"bytes=0-{OBJECT_BYTES - 1}").removeprefix("bytes=")
            first, last = map(int, wanted.split("-"))
            self._send(body[first : last + 1], None, first)

        def do_POST(self) -> None:
            self._send(b'{"access_token": "t", "expires_in": 3600}', None)

        def _send(self, data: bytes, size: int | None, first: int | None = None) -> None:
            self.send_response(200 if first is None else 206)
            self.send_header("Content-Length", str(len(data) if size is None else size))
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
            if first is not None:
                self.send_header("Content-Range", f"bytes {first}-{first + len(data) - 1}/{OBJECT_BYTES}")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    port.value = server.server_address[1]
    server.serve_forever()


def with_fsspec(protocol: str, url: str) -> Callable[[], list[bytes]]:
    """Ranges by the file system's own coroutines, as the range reader asks for them."""
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # it asks by gRPC what kind of bucket it is
    import fsspec

    if protocol == "s3":
        system = fsspec.filesystem("s3", key="k", secret="s", endpoint_url=url, client_kwargs={"region_name": "eu"})
    else:
        system = fsspec.filesystem("gcs", endpoint_url=url, token="anon")

    async def read() -> list[bytes]:
        gate = asyncio.Semaphore(MAX_REQUESTS_IN_FLIGHT)

        async def one(start: int, stop: int) -> bytes:
            async with gate:
                return bytes(await system._cat_file("b/o", start=start, end=stop))

        return list(await asyncio.gather(*(one(*each) for each in RANGES)))

    return lambda: asyncio.run_coroutine_threadsafe(read(), system.loop).result()


def with_obstore(protocol: str, url: str) -> Callable[[], list[bytes]]:
    """Ranges by threads, whose calls give up the GIL."""
    from obstore.store import GCSStore, S3Store

    client = {"allow_http": True}
    if protocol == "s3":
        store: Any = S3Store(
            "b", endpoint=url, access_key_id="k", secret_access_key="s", region="eu", client_options=client
        )
    else:
        key = json.dumps(
            {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        )
        store = GCSStore("b", service_account_key=key, client_options=client)
    pool = ThreadPoolExecutor(MAX_REQUESTS_IN_FLIGHT)
    import obstore

    return lambda: list(pool.map(lambda each: bytes(obstore.get_range(store, "o", start=each[0], end=each[1])), RANGES))


def main() -> None:
    for latency in (0.0, 0.1):
        port = multiprocessing.Value("i", 0)
        server = multiprocessing.Process(target=serve, args=(port, latency), daemon=True)
        server.start()
        while not port.value:
            time.sleep(0.05)
        url = f"http://127.0.0.1:{port.value}"
        digests: set[str] = set()
        for protocol in ("s3", "gcs"):
            for make in (with_fsspec, with_obstore):
                read = make(protocol, url)
                digests.add(hashlib.sha256(b"".join(read())).hexdigest())
                found = []
                for _ in range(ROUNDS):
                    wall, cpu = time.perf_counter(), time.process_time()
                    read()
                    found.append((time.perf_counter() - wall, time.process_time() - cpu))
                wall, cpu = min(found)
                name = make.__name__.removeprefix("with_")
                rate = OBJECT_BYTES / 1e6 / wall
                print(
                    f"{protocol:4} {latency * 1000:3.0f} ms {name:8} {wall:6.2f} s {cpu:6.2f} s CPU {rate:7.0f} MB/s",
                    flush=True,
                )
        assert len(digests) == 1, "all read the same bytes"
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
