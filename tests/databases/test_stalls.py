"""A server that stands still: waited for as long as the user says, then an error that keeps the place."""

import time
from contextlib import suppress

import pytest

import headrace as hr
from headrace.sources.sql import keys
from headrace.testing import our_threads
from tests.databases.servers import halted

D = hr.Dataset
WAYS = {
    "rows": lambda uri, query: D.from_sql(uri, f"{query} ORDER BY id"),
    "key": lambda uri, query: D.from_sql(uri, query, key="id"),
    "parts": lambda uri, query: D.from_sql(uri, query, key="id", partitions=2),
    "index": lambda uri, query: D.from_sql(uri, query, key="id", index=True),
}


@pytest.fixture(params=["postgresql", "mysql"])
def stuck(request, monkeypatch):
    monkeypatch.setattr(keys, "FIRST_PAGE_ROWS", 2000)
    monkeypatch.setattr(keys, "page_rows", lambda rows, size: rows)
    database = request.getfixturevalue(request.param)
    database.numbers("numbers", 12_000)
    yield database
    deadline = time.monotonic() + 300
    while our_threads() and time.monotonic() < deadline:  # of calls that were given up
        time.sleep(0.05)
    assert our_threads() == []


QUERY = "SELECT id, repeat('x', 3000) AS pad FROM numbers"  # more than waits in sockets


def ids(rows):
    return [int(row["id"]) for row in rows]


@pytest.mark.parametrize("way", WAYS)
def test_a_stall_is_an_error_that_keeps_the_place(stuck, way):
    patient = WAYS[way](stuck.uri, QUERY)
    ds = patient.with_options(hr.Options(retries=0, timeout=1))
    want = ids(patient)
    assert len(want) == 12_000
    it, got = iter(ds), []
    while len(got) < 500:
        with suppress(hr.TransportError):  # a second may be little on a busy machine
            got.append(int(next(it)["id"]))
    with halted(stuck.server):
        with pytest.raises(hr.TransportError, match=r"no answer within 1 s|timed out"):
            while True:  # what was on its way still comes
                got.append(int(next(it)["id"]))
        state = it.state()
        with pytest.raises(hr.TransportError):
            next(it)
    given = len(got)
    assert ids(patient.iterator(state)) == want[given:]
    while len(got) < len(want):
        with suppress(hr.TransportError):
            got.append(int(next(it)["id"]))
    assert got == want
    assert next(it, None) is None


@pytest.mark.parametrize("way", WAYS)
def test_a_pass_is_closed_while_the_server_stands_still(stuck, way):
    ds = WAYS[way](stuck.uri, QUERY).prefetch(4000).with_options(hr.Options(timeout=300))
    it = iter(ds)
    next(it)
    with halted(stuck.server):
        it.close()


def test_a_dataset_is_not_made_of_a_server_that_stands_still(stuck, monkeypatch):
    monkeypatch.setattr("headrace.sources.sql.database.TIMEOUT", 0.5)
    with halted(stuck.server), pytest.raises(hr.TransportError, match=r"no answer within 0.5 s|timed out"):
        D.from_sql(stuck.uri, QUERY)
