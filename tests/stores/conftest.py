"""Stores on loopback: S3 and Google Cloud Storage by their emulators, HTTP by our own, behind a proxy with faults."""

from __future__ import annotations

import json
import logging
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

import headrace as hr
from tests.stores.faults import Proxy, running


@dataclass
class Store:
    """A place for files behind a proxy; `options` are what its file system is told."""

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


@pytest.fixture(scope="session")
def moto() -> Any:
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    yield f"http://{host}:{port}"
    made.stop()


@pytest.fixture(scope="session")
def emulator() -> Any:
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = (
        "false"  # read when gcsfs is imported; the emulator has no such thing
    )
    server = pytest.importorskip("gcp_storage_emulator.server", reason="gcp-storage-emulator is not installed")
    pytest.importorskip("gcsfs", reason="gcsfs is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = server.create_server("127.0.0.1", port, in_memory=True)
    made.start()
    yield f"http://127.0.0.1:{port}"
    made.stop()


@pytest.fixture
def s3(moto: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    import fsspec

    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    known = {"key": "AKIAEXAMPLEKEY", "secret": "example-secret-key", "client_kwargs": {"region_name": "eu-west-1"}}
    direct = fsspec.filesystem("s3", **known, endpoint_url=moto, skip_instance_cache=True)
    direct.mkdir(bucket)
    with running(moto) as proxy:
        # One try each, so that it is headrace that tries again.
        once = {"config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 5}}
        options = {**known, **once, "endpoint_url": proxy.url}
        yield Store(
            proxy, "s3", f"s3://{bucket}", options, lambda name, data: direct.pipe_file(f"{bucket}/{name}", data)
        )


@pytest.fixture
def gs(emulator: str) -> Any:
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"

    def post(path: str, data: bytes, kind: str) -> None:
        with urlopen(Request(f"{emulator}{path}", data, {"Content-Type": kind}, method="POST")) as answer:
            assert answer.status == 200

    def write(name: str, data: bytes) -> None:
        post(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}", data, "text/plain")

    post("/storage/v1/b?project=p", json.dumps({"name": bucket}).encode(), "application/json")
    with running(emulator) as proxy:
        options = {"token": "anon", "endpoint_url": proxy.url, "project": "p"}
        yield Store(proxy, "gs", f"gs://{bucket}", options, write)


@pytest.fixture
def http() -> Any:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with running() as proxy:
        yield Store(proxy, "http", proxy.url, {}, proxy.put)


@pytest.fixture(params=["s3", "gs", "http"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of store in turn."""
    made: Store = request.getfixturevalue(request.param)
    return made
