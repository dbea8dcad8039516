"""Stores on loopback as fixtures; skipped where their emulators are not installed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stores import servers
from tests.stores.servers import Store


@pytest.fixture(scope="session")
def moto() -> Any:
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    with servers.moto() as url:
        yield url


@pytest.fixture(scope="session")
def emulator() -> Any:
    pytest.importorskip("gcp_storage_emulator.server", reason="gcp-storage-emulator is not installed")
    with servers.emulator() as url:
        pytest.importorskip("gcsfs", reason="gcsfs is not installed")
        yield url


@pytest.fixture
def s3(moto: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with servers.s3(moto) as made:
        yield made


@pytest.fixture
def gs(emulator: str) -> Any:
    with servers.gs(emulator) as made:
        yield made


@pytest.fixture
def http() -> Any:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with servers.http() as made:
        yield made


@pytest.fixture(params=["s3", "gs", "http"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of store in turn."""
    made: Store = request.getfixturevalue(request.param)
    return made
