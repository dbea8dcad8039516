"""Workers that refuse a trainer's token are an error at once, however patient the cluster is."""

import pytest

import headrace as hr
from headrace.cluster.server import start_server

FOR_EVER = 1e6


@pytest.fixture
def server():
    made = start_server(token="right")
    yield f"127.0.0.1:{made.port}"
    made.shutdown()


@pytest.mark.parametrize(
    "use",
    [
        lambda cluster: list(hr.Dataset.range(5).distribute_over(cluster, splits=2)),
        lambda cluster: hr.Dataset.range(5).count(cluster=cluster),
        lambda cluster: cluster.wait_for(1),
    ],
)
@pytest.mark.parametrize("token", ["wrong", None])
def test_a_wrong_token_fails_at_once(server, use, token, monkeypatch):
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    with (
        hr.cluster.addresses([server], token=token, patience=FOR_EVER) as cluster,
        pytest.raises(hr.WorkerError, match="the token is missing or wrong"),
    ):
        use(cluster)


def test_workers_that_take_it_are_enough_for_a_pass_but_not_for_all(server):
    other = start_server(token="other")
    try:
        where = [server, f"127.0.0.1:{other.port}"]
        with hr.cluster.addresses(where, token="right", patience=FOR_EVER) as cluster:
            assert len(list(hr.Dataset.range(5).distribute_over(cluster, splits=2))) == 5
            with pytest.raises(hr.WorkerError, match=r"1 of 2 workers.*the token is missing or wrong"):
                cluster.wait_for(2)
    finally:
        other.shutdown()


def test_an_address_that_does_not_answer_is_still_waited_for(server):
    with hr.cluster.addresses([server, "127.0.0.1:9"], token="wrong", patience=FOR_EVER) as cluster:
        with pytest.raises(hr.WorkerError, match="token"):
            cluster.wait_for(2)
        assert cluster.may_have(1)
