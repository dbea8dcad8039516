"""Workers for tests: in this process, which costs nothing to start, and in processes that can be killed."""

import pytest

import headrace as hr
from headrace.cluster.serve import stop_server
from headrace.cluster.server import start_server


@pytest.fixture(scope="session")
def workers():
    """Two workers that are threads of this process."""
    servers = [start_server(token="secret") for _ in range(2)]
    with hr.cluster.addresses([f"127.0.0.1:{s.port}" for s in servers], token="secret") as cluster:
        cluster.wait_for(2)
        yield cluster
    for server in servers:
        stop_server(server)


@pytest.fixture(scope="module")
def processes():
    """Two workers that are processes."""
    with hr.cluster.local(2, timeout=30) as cluster:
        cluster.wait_for(2)
        yield cluster
