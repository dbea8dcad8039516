"""BigQuery by its own client library, against a server of ours that fails as the real one does."""

import datetime
import json
import runpy
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("google.cloud.bigquery_storage_v1", reason="google-cloud-bigquery-storage is not installed")
from tests.databases.bigquery import running  # noqa: E402

ROWS = 20_000
TABLE = pa.table({"id": np.arange(ROWS), "x": np.arange(ROWS) / 2, "s": [f"n{i}" for i in range(ROWS)]})
CODES = grpc.StatusCode
NAME = "mine.shop.item"


@pytest.fixture
def fake():
    with running(TABLE) as made:
        yield made


def dataset(fake, **how):
    return hr.BigQueryDataset(NAME, **{"max_streams": 2, "client": fake.client, **how})


def ids(ds):
    return [int(row["id"]) for row in ds]


@pytest.mark.parametrize("streams", [1, 2, 3, 5])
def test_all_rows_come_once(fake, streams):
    ds = dataset(fake, max_streams=streams)
    assert sorted(ids(ds)) == list(range(ROWS))
    assert next(iter(ds)) == {"id": 0, "x": 0.0, "s": "n0"}


@pytest.mark.parametrize(
    "code", [CODES.UNAVAILABLE, CODES.INTERNAL, CODES.ABORTED, CODES.RESOURCE_EXHAUSTED, CODES.DEADLINE_EXCEEDED]
)
def test_five_faults_of_each_kind_are_not_seen(fake, code):
    want = ids(dataset(fake))
    fake.faults = {0: [None, code, code, None, code], 1: [code, None, None, code]}
    assert ids(dataset(fake).with_options(hr.Options(retries=5))) == want
    assert fake.faults == {0: [], 1: []}


def test_a_fault_that_stays_is_raised_and_keeps_the_place(fake):
    ds = dataset(fake).ignore_errors().with_options(hr.Options(retries=0))
    want = ids(ds)
    fake.faults = {0: [None, None, CODES.INTERNAL], 1: [None, CODES.ABORTED, None, CODES.INTERNAL]}
    it, got, faults = iter(ds), [], 0
    while True:
        try:
            got.append(int(next(it)["id"]))
        except StopIteration:
            break
        except hr.TransportError:
            faults += 1
            state, given = json.loads(json.dumps(it.state())), len(got)
    assert got == want
    assert faults == 3
    assert ids(dataset(fake).ignore_errors().with_options(hr.Options(retries=0)).iterator(state)) == want[given:]


def test_a_stream_that_stalls_is_asked_again(fake):
    want = ids(dataset(fake))
    fake.faults = {0: [None, "stall", None, "stall", "stall"], 1: [None, None, "stall"]}
    quick = hr.Options(timeout=0.3, retries=50)  # a busy machine may take that long without a fault, too
    assert ids(dataset(fake).with_options(quick)) == want
    assert fake.faults == {0: [], 1: []}


def test_a_stream_that_goes_on_stalling_is_given_up(fake):
    want = ids(dataset(fake))
    fake.faults = {0: [None, *["stall"] * 1000], 1: []}
    it = iter(dataset(fake).with_options(hr.Options(timeout=0.3, retries=1)).ignore_errors())
    got = []
    with pytest.raises(hr.TransportError, match="asked 2 times"):
        while True:
            got.append(int(next(it)["id"]))
    fake.faults = {}
    state = it.state()
    it.close()
    assert got + ids(dataset(fake).ignore_errors().iterator(state)) == want


def test_a_slow_reader_loses_nothing_to_the_deadline_of_a_call(fake):
    """Which a call that gave messages has met while its consumer took its time."""
    fake.faults = {0: [None, None, CODES.DEADLINE_EXCEEDED, None, CODES.DEADLINE_EXCEEDED]}
    assert ids(dataset(fake, max_streams=1).with_options(hr.Options(retries=0))) == list(range(ROWS))
    assert fake.faults == {0: []}


def test_a_state_goes_on_in_its_session(fake):
    ds = dataset(fake)
    want = ids(ds)
    for cut in (1, 4096, 9000, 19_999):
        with ds.iterator() as it:
            for _ in range(cut):
                next(it)
            state = it.state()
        fake.streams = 1  # another session would be split otherwise
        sessions = len(fake.sessions)
        again = dataset(fake)
        assert ids(again.iterator(state)) == want[cut:]
        assert len(fake.sessions) == sessions + 1  # for the columns alone
        fake.streams = 2


def test_a_session_that_has_expired_is_refused_with_the_remedy(fake):
    for lives, forgets in ((-1, False), (1000, True)):
        fake.lives, fake.forgets = lives, False
        ds = dataset(fake)
        with ds.iterator() as it:
            next(it)
            state = it.state()
        fake.forgets = forgets
        with pytest.raises(hr.StateError, match=r"ds.cache\(path\) or ds.save\(path\)"):
            list(ds.iterator(state))


def test_what_is_asked_for_is_told_to_the_service(fake):
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    ds = dataset(fake, columns=["id"], row_restriction="x > 1", snapshot_time=when, project="payer")
    assert next(iter(ds)) == {"id": 0}
    asked = fake.sessions[-1]
    assert asked.parent == "projects/payer"
    assert asked.read_session.table == "projects/mine/datasets/shop/tables/item"
    assert asked.read_session.read_options.row_restriction == "x > 1"
    assert asked.read_session.table_modifiers.snapshot_time == when
    assert "WHERE x > 1" in ds._node.label(for_state=True)


def test_a_lasting_error_is_not_tried_again(fake):
    fake.faults = {0: [CODES.PERMISSION_DENIED], 1: []}
    with pytest.raises(hr.TransportError, match="PermissionDenied"):
        list(dataset(fake, max_streams=1))


def test_closing_in_the_middle(fake):
    with dataset(fake).iterator() as it:
        assert int(next(it)["id"]) == ids(dataset(fake))[0]


def test_wrong_arguments():
    with pytest.raises(TypeError, match="one of them"):
        hr.BigQueryDataset()
    with pytest.raises(ValueError, match=r"project\.dataset\.table"):
        hr.BigQueryDataset("item")


class Jobs(BaseHTTPRequestHandler):
    """As much of the REST interface as a query needs."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        where = {"projectId": "mine", "datasetId": "_results", "tableId": "anon1"}
        job = {
            "kind": "bigquery#job",
            "jobReference": {"projectId": "mine", "jobId": "j", "location": "EU"},
            "configuration": {"query": {"query": "SELECT 1", "destinationTable": where}, "jobType": "QUERY"},
            "status": {"state": "DONE"},
            "statistics": {"query": {"statementType": "SELECT"}},
            "jobComplete": True,
            "totalRows": "1",
            "schema": {"fields": [{"name": "id", "type": "INTEGER"}]},
        }
        body = json.dumps(job).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_a_query_runs_once_and_its_table_is_read(fake):
    bigquery = pytest.importorskip("google.cloud.bigquery", reason="google-cloud-bigquery is not installed")
    from google.auth.credentials import AnonymousCredentials

    server = HTTPServer(("127.0.0.1", 0), Jobs)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def client():
        options = {"api_endpoint": f"http://127.0.0.1:{server.server_port}"}
        return bigquery.Client("mine", AnonymousCredentials(), client_options=options)

    try:
        ds = hr.BigQueryDataset(query="SELECT * FROM shop.item", client=fake.client, query_client=client, max_streams=2)
        assert sorted(ids(ds)) == list(range(ROWS))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert fake.sessions[-1].read_session.table == "projects/mine/datasets/_results/tables/anon1"
    assert "SELECT * FROM shop.item" in ds._node.label(for_state=True)


def test_the_example_reads_breaks_off_and_goes_on(fake, monkeypatch, capsys):
    monkeypatch.setattr("headrace.sources.bigquery._read_client", fake.client)
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "bigquery.py"))
    example["main"](NAME, 10_000)
    assert "resumed exactly: True" in capsys.readouterr().out
