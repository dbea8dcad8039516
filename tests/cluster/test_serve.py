"""`headrace serve`: workers that are started by hand, tokens, certificates, several trainers, elastic states."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app
from headrace.cluster import server
from headrace.cluster.metrics import prometheus_text
from headrace.cluster.parcels import read_label
from headrace.cluster.requests import PackedFragment, Poll, Setting, SplitOpening, SplitWant
from headrace.cluster.server import WorkerService
from headrace.cluster.splits import Fragment, find_cut
from headrace.core.keys import ROOT
from headrace.optimize.rules import prepare
from headrace.testing import same

D = hr.Dataset


@contextlib.contextmanager
def served(*options, env=()):
    command = [sys.executable, "-c", "from headrace.cli.main import main; main()", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(env) or None) as process:
        try:
            line = process.stdout.readline()
            found = re.search(r"listening on (\S+:\d+)", line)
            assert found, line
            yield found[1], line, process
        finally:
            process.kill()


def test_a_worker_from_the_shell_runs_for_clients_with_its_token():
    with served("--token", "abc") as (address, said, process):
        assert "token" not in said
        with hr.cluster.addresses([address], token="abc") as cluster:
            assert list(D.range(5).map(lambda x: x + 1).distribute_over(cluster, splits=2)) == [1, 2, 3, 4, 5]
            assert cluster.members()[0].status()["pid"] == process.pid
        done = CliRunner().invoke(app, ["top", address, "--token", "abc", "--count", "1"])
        assert done.exit_code == 0 and f"process {process.pid} of" in done.output
        twice = ["--count", "2", "--seconds", "0"]
        done = CliRunner().invoke(app, ["top", address, "127.0.0.1:9", "--token", "abc", *twice])
        assert "127.0.0.1:9 " in done.output and done.output.count(address) == 2
        why = pytest.raises(hr.WorkerError, match="token is missing or wrong")
        with hr.cluster.addresses([address], token="wrong", patience=3600) as cluster, why:
            list(D.range(5).distribute_over(cluster, splits=2))
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0


def test_other_addresses_than_this_machine_need_a_token(monkeypatch):
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    done = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0"])
    assert isinstance(done.exception, ValueError) and "needs a token" in str(done.exception)
    done = CliRunner().invoke(app, ["serve", "--tls-cert", "x.pem"])
    assert isinstance(done.exception, ValueError) and "come together" in str(done.exception)


def test_what_is_sent_can_be_encrypted(tmp_path):
    from headrace.cluster.serve import stop_server
    from headrace.cluster.server import start_server

    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    how = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *how, "-out", cert, "-keyout", key],
        check=True,
        capture_output=True,
    )
    server = start_server(token="t", tls=(cert.read_bytes(), key.read_bytes()))
    try:
        where = [f"localhost:{server.port}"]
        with hr.cluster.addresses(where, token="t", tls_root_cert=cert) as cluster:
            assert list(D.range(4).distribute_over(cluster, splits=2)) == [0, 1, 2, 3]
        why = pytest.raises(hr.WorkerError, match="no worker")
        with hr.cluster.addresses(where, token="t", patience=1, timeout=1) as cluster, why:
            list(D.range(4).distribute_over(cluster, splits=2))
    finally:
        stop_server(server)


def test_addresses_are_checked():
    for bad in ("grpc://x:1", "x", "x:y"):
        with pytest.raises(ValueError, match="host:port"):
            hr.cluster.addresses([bad])
    with pytest.raises(TypeError, match="list"):
        hr.cluster.addresses("x:1")


def shares(workers, world, state=None):
    """What the trainers of a world get in turn, step by step."""
    made = [
        D.range(96).map(lambda x: x * 3).filter(lambda x: x % 5 > 0).distribute_over(workers, splits=6)
        for _ in range(world)
    ]
    return [ds.distribute(rank, world, batch_size=2).iterator(state) for rank, ds in enumerate(made)]


def test_trainers_of_a_world_of_two_go_on_as_four_on_other_workers(workers, processes):
    two = shares(workers, 2)
    got = [row for _ in range(5) for it in two for row in next(it)]
    states = [json.loads(json.dumps(it.state())) for it in two]
    merged = hr.merge_states(states)
    four = shares(processes, 4, merged)
    with contextlib.suppress(StopIteration):
        while True:
            got += [row for it in four for row in next(it)]
    for it in (*two, *four):
        it.close()
    want = list(D.range(96).map(lambda x: x * 3).filter(lambda x: x % 5 > 0).distribute_over(workers, splits=6))
    assert got == want[: len(got)] and len(want) - len(got) < 8


def test_a_state_tells_another_number_of_splits(workers):
    it = iter(D.range(40).distribute_over(workers, splits=4))
    next(it)
    state = it.state()
    it.close()
    with pytest.raises(hr.StateError, match="splits=4"):
        list(D.range(40).distribute_over(workers, splits=5).iterator(state))


def test_parallel_epochs_are_passes_in_orders_of_their_own(workers):
    ds = D.range(20).shuffle(seed=1).distribute_over(workers, 3, "parallel_epochs")
    rows = [int(x) for x in ds]
    assert len(rows) == len(ds) == 60 and sorted(rows) == sorted(list(range(20)) * 3)
    assert len({tuple(rows[i::3]) for i in range(3)}) == 3


def test_a_plan_that_would_lose_what_it_keeps_is_refused(workers):
    with pytest.raises(ValueError, match="put cache after it"):
        D.range(4).cache().distribute_over(workers)
    with pytest.raises(ValueError, match="put it after"):
        D.range(4).distribute(0, 2).distribute_over(workers)
    with pytest.raises(TypeError, match="takes a cluster"):
        D.range(4).distribute_over(4)
    with pytest.raises(ValueError, match="mode"):
        D.range(4).distribute_over(workers, mode="epochs")


def test_epochs_differ_and_a_repeat_goes_on(workers):
    ds = D.range(12).shuffle(seed=2).distribute_over(workers, splits=3)
    first, second = [int(x) for x in ds], [int(x) for x in ds]
    assert sorted(first) == sorted(second) == list(range(12)) and first != second
    again = D.range(12).shuffle(seed=2).distribute_over(workers, splits=3).repeat(2)
    assert [int(x) for x in again][:12] == first


def test_explain_says_what_splits_are(workers):
    text = str(D.range(9).batch(2).distribute_over(workers, splits=3).explain())
    assert "splits are rows of range, in the order of one process" in text
    text = str(D.range(9).filter(lambda x: x > 1).distribute_over(workers, splits=3).explain())
    assert "splits are rows of range]" in text


def test_arrays_may_be_written_to(workers):
    rows = list(D.from_tensor_slices(np.arange(12)).batch(3).distribute_over(workers, splits=2))
    for row in rows:
        row[0] = 7
    assert [row.tolist() for row in rows] == [[7, 1, 2], [7, 4, 5], [7, 7, 8], [7, 10, 11]]


def test_an_infinite_plan_goes_on(workers):
    ds = D.range(5).repeat().batch(2).distribute_over(workers, splits=3)
    assert ds.cardinality() == hr.INFINITE_CARDINALITY
    with ds.iterator() as it:
        got = [next(it) for _ in range(9)]
    assert all(same(a, b) for a, b in zip(got, D.range(5).repeat().batch(2).take(9), strict=True))


def test_status_and_metrics_tell_who_is_at_what(workers):
    with D.range(1000).distribute_over(workers, splits=4).iterator() as it:
        rows = [next(it) for _ in range(8)]
        status = json.loads(json.dumps(workers.status()))
        (one,) = status["passes"]
        assert len(rows) == 8 and sum(split["rows"] for split in one["splits"]) >= 8
        assert {split["worker"] for split in one["splits"]} <= {worker["worker"] for worker in status["workers"]}
        assert [worker["rows_sent"] > 0 for worker in status["workers"]] == [True, True]
        text = prometheus_text(status)
    assert "# TYPE headrace_pass_rows_total counter" in text and "headrace_workers 2" in text
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) headrace_\w+ .+|headrace_\w+(\{\w+=\"[^\"]+\"\})? \d+", line), line


def test_an_answer_ends_with_a_split_so_that_another_is_begun(monkeypatch):
    monkeypatch.setattr(server, "RESPONSE_SECONDS", 600.0)  # on however busy a machine
    plan = D.range(5)._node
    packed, work = PackedFragment.of(Fragment(plan, find_cut(plan, 1), 1)), WorkerService()
    work.add_fragment(packed.digest, packed.data)
    setting = Setting(packed.digest, packed.key, "distributed_epoch", ROOT, 0, False, hr.Options(), prepare, None)
    want = SplitWant(0, 0, 1 << 20, SplitOpening({}, 0, {}))
    began = time.monotonic()
    labels = [read_label(parcel.label) for parcel in work.poll(Poll("one", [want], setting, wait=600.0))]
    work.close()
    assert labels[-1].what == "over" and sum(label.rows for label in labels) == 5
    assert time.monotonic() - began < 300, "it waited for more of a split that has ended"
