"""Stores on loopback: S3 and Google Cloud Storage by their emulators, HTTP by our own, behind a proxy with faults."""

from __future__ import annotations

import json
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import HTTPServer
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import headrace as hr
from tests.stores.faults import Proxy, Server, running


@dataclass
class Store:
    """A place for files behind a proxy; `options` are those of its file system."""

    proxy: Proxy
    protocol: str
    prefix: str
    options: dict[str, Any]
    write: Callable[[str, bytes], None]

    def put(self, name: str, data: bytes) -> str:
        """Write a file, past the proxy; its URL."""
        self.write(name, data)
        return self.url(name)

    def url(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def patient(self, **changes: Any) -> hr.Options:
        """Options that reach this store."""
        return hr.Options(**{"storage_options": {self.protocol: self.options}, "timeout": 30.0, **changes})


@contextmanager
def moto() -> Iterator[str]:
    """S3, whose URL this is."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        made.stop()


@contextmanager
def emulator() -> Iterator[str]:
    """Google Cloud Storage, whose URL this is."""
    # Read when gcsfs is imported; the emulator has no such thing.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    from gcp_storage_emulator.server import create_server

    HTTPServer.request_queue_size = Server.request_queue_size  # the emulator's has room for five connections
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = create_server("127.0.0.1", port, in_memory=True)
    made.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        made.stop()


@contextmanager
def s3(server: str) -> Iterator[Store]:
    """A bucket of its own."""
    import fsspec

    bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    known = {"key": "AKIAEXAMPLEKEY", "secret": "example-secret-key", "client_kwargs": {"region_name": "eu-west-1"}}
    direct = fsspec.filesystem("s3", **known, endpoint_url=server, skip_instance_cache=True)
    direct.mkdir(bucket)
    with running(server) as proxy:
        # One try each, so that it is headrace that tries again.
        once = {"config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 5}}
        options = {**known, **once, "endpoint_url": proxy.url}
        yield Store(
            proxy, "s3", f"s3://{bucket}", options, lambda name, data: direct.pipe_file(f"{bucket}/{name}", data)
        )


@contextmanager
def gs(server: str) -> Iterator[Store]:
    """A bucket of its own."""
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"

    def post(path: str, data: bytes, kind: str) -> None:
        with urlopen(Request(f"{server}{path}", data, {"Content-Type": kind}, method="POST")) as answer:
            assert answer.status == 200

    def write(name: str, data: bytes) -> None:
        post(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}", data, "text/plain")

    post("/storage/v1/b?project=p", json.dumps({"name": bucket}).encode(), "application/json")
    with running(server) as proxy:
        options = {"token": "anon", "endpoint_url": proxy.url, "project": "p"}
        yield Store(proxy, "gs", f"gs://{bucket}", options, write)


@contextmanager
def http() -> Iterator[Store]:
    """Files of the proxy's own."""
    with running() as proxy:
        yield Store(proxy, "http", proxy.url, {}, proxy.put)
