"""The code of docs/databases.md runs, on servers of its own."""

import re
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr

PAGE = Path(__file__).parents[2] / "docs/databases.md"
QUERY, BIGQUERY, SOURCE = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_query_runs(postgresql):
    postgresql.run("CREATE TABLE item (id bigint PRIMARY KEY, price double precision, name text)")
    try:
        postgresql.run("INSERT INTO item SELECT i, i * 0.5, nullif('n' || i, 'n9') FROM generate_series(1, 20) AS g(i)")
        names = {"hr": hr}
        exec(QUERY.replace("postgresql://user:password@host/shop", postgresql.uri), names)
        rows = list(names["ds"])
    finally:
        postgresql.run("DROP TABLE item")
    assert sorted(int(row["id"]) for row in rows) == list(range(8, 21))
    assert {row["name"] for row in rows if row["id"] in (9, 10)} == {"", "n10"}


def test_bigquery_runs(monkeypatch):
    pytest.importorskip("google.cloud.bigquery_storage_v1", reason="google-cloud-bigquery-storage is not installed")
    from tests.databases.bigquery import running

    table_line, _ = BIGQUERY.splitlines()  # tests/databases/test_bigquery.py runs a query
    with running(pa.table({"id": np.arange(50), "price": np.arange(50) / 2}), streams=8) as fake:
        monkeypatch.setattr("headrace.sources.bigquery._read_client", fake.client)
        names = {"hr": hr}
        exec(table_line, names)
        assert sorted(int(row["id"]) for row in names["ds"]) == list(range(50))
        asked = fake.sessions[-1]
    assert asked.max_stream_count == 8
    assert asked.read_session.read_options.row_restriction == "price > 3"


def test_the_next_database_runs():
    def read(part, offset):
        ids = np.arange(part * 10, part * 10 + 10)[offset:]
        return [pa.record_batch({"id": each}) for each in np.array_split(ids, 2)]

    names = {"hr": hr, "pa": pa, "my_client": types.SimpleNamespace(read=read)}
    exec(SOURCE, names)
    ds = names["ds"]
    want = list(map(int, (row["id"] for row in ds)))
    assert sorted(want) == list(range(40))
    it = iter(ds)
    for _ in range(17):
        next(it)
    assert [int(row["id"]) for row in ds.iterator(state=it.state())] == want[17:]
