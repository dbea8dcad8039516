"""Rows of queries: the same of every database, resumed anywhere, never lost in silence."""

import datetime
import json
import logging
import pickle
import subprocess
import sys
import time
from functools import partial
from itertools import islice

import numpy as np
import pytest

import headrace as hr
from headrace.sources.sql import keys
from headrace.sources.sql.from_sql import database_of
from headrace.testing import check_transformation

D = hr.Dataset
ROWS = 12_000


@pytest.fixture
def numbers(database):
    database.numbers("numbers", ROWS)
    return database


def ids(ds):
    return [int(row["id"]) for row in ds]


@pytest.mark.parametrize(
    "how", [{}, {"key": "id"}, {"key": "s"}, {"key": "id", "partitions": 3}, {"key": "s", "partitions": 2}]
)
def test_all_rows_come_once(numbers, how):
    ds = D.from_sql(numbers.uri, "SELECT * FROM numbers", **how)
    got = ids(ds)
    assert sorted(got) == list(range(1, ROWS + 1))
    if how == {"key": "id"}:
        assert got == sorted(got)
    first = next(iter(ds))
    assert first == {"id": first["id"], "x": first["id"] / 2, "s": f"n{first['id']}"}
    assert {k: type(v) for k, v in first.items()} == {"id": np.int64, "x": np.float64, "s": str}


@pytest.mark.parametrize("how", [{}, {"key": "s", "partitions": 3}])
def test_every_promise_is_kept(database, how):
    database.numbers("few", 12)
    query = "SELECT * FROM few ORDER BY id" if not how else "SELECT * FROM few"
    check_transformation(D.from_sql(database.uri, query, **how).batch(4), cuts=2, epochs=1)


QUERY = "SELECT * FROM numbers WHERE x > 2 ORDER BY id"
GO_ON = """
import sys, json, headrace as hr
uri, query, how, state = map(json.loads, sys.argv[1:])
it = hr.Dataset.from_sql(uri, query, **how).iterator(state)
print([int(next(it)["id"]) for _ in range(100)])
"""


def state_after(ds, count):
    with ds.iterator() as it:
        for _ in range(count):
            next(it)
        return json.dumps(it.state())


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_another_process_goes_on(request, kind):
    numbers = request.getfixturevalue(kind)
    numbers.numbers("numbers", ROWS)
    how = {"key": "id", "partitions": 3}
    ds = D.from_sql(numbers.uri, QUERY, **how)
    state = state_after(ds, 9000)
    given = [json.dumps(numbers.uri), json.dumps(QUERY), json.dumps(how), state]
    done = subprocess.run([sys.executable, "-c", GO_ON, *given], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ids(ds)[9000:9100]


@pytest.mark.parametrize("how", [{"key": "id"}, {}])
def test_a_pass_is_resumed_at_any_row(numbers, how):
    ds = D.from_sql(numbers.uri, QUERY, **how)
    want = ids(ds)
    for cut in (1, 8200):
        state = state_after(ds, cut)
        assert "sesame" not in state
        assert ids(ds.iterator(json.loads(state))) == want[cut:]


def test_a_resume_reads_what_comes_after_alone(sqlite):
    sqlite.numbers("numbers", ROWS)
    ds = D.from_sql(sqlite.uri, "SELECT * FROM numbers", key="id")
    with ds.iterator() as it:
        for _ in range(11_000):
            next(it)
        state = it.state()
    sqlite.run("DELETE FROM numbers WHERE id < 8000")
    assert ids(ds.iterator(state)) == list(range(11_001, ROWS + 1))


def test_parameters_are_bound(numbers):
    text = "n7' OR '1'='1"
    for how in ({}, {"key": "id"}):
        query = f"SELECT * FROM numbers WHERE s = {numbers.mark(1)} OR id > {numbers.mark(2)}"
        ds = D.from_sql(numbers.uri, query, params=[text, ROWS - 3], **how)
        assert sorted(ids(ds)) == [ROWS - 2, ROWS - 1, ROWS]
        assert text not in repr(ds) + str(ds.explain())
    one = D.from_sql(numbers.uri, f"SELECT * FROM numbers WHERE s = {numbers.mark(1)}", params=["n7"])
    assert ids(one) == [7]
    with one.iterator() as it:
        next(it)
        state = it.state()
    other = D.from_sql(numbers.uri, f"SELECT * FROM numbers WHERE s = {numbers.mark(1)}", params=["n8"])
    with pytest.raises(hr.StateError):
        other.iterator(state)


def test_a_key_of_any_text_is_no_sql(database):
    database.numbers("odd", 3)
    names = ["", "'; DROP TABLE odd;--", 'q"`\\', "snow ☃", "%s ? $1"]
    database.run("DELETE FROM odd")
    for i, name in enumerate(names):
        marks = ", ".join(database.mark(n) for n in (1, 2, 3))
        database.run(f"INSERT INTO odd VALUES ({marks})", (i, 0.5, name))
    ds = D.from_sql(database.uri, "SELECT * FROM odd", key="s")
    want = [row["s"] for row in ds]
    assert sorted(want) == sorted(names)
    for cut in range(1, 5):
        with ds.iterator() as it:
            for _ in range(cut):
                next(it)
            state = it.state()
        assert [row["s"] for row in ds.iterator(state)] == want[cut:]


def test_a_key_that_is_not_unique_is_refused_and_no_row_lost(database, monkeypatch):
    monkeypatch.setattr(keys, "FIRST_PAGE_ROWS", 10)
    monkeypatch.setattr(keys, "page_rows", lambda rows, size: rows)
    database.numbers("twice", 40)
    ds = D.from_sql(
        database.uri,
        "SELECT id, id / 2 - id % 2 * 0.5 AS h, CAST((id + 1) / 2 AS CHAR(9)) AS c FROM twice",
        key="id",
        cast={"h": float},
    )
    assert len(ids(ds)) == 40
    half = {"mysql": "id DIV 2", "duckdb": "id // 2"}.get(database.kind, "id / 2")
    again = D.from_sql(database.uri, f"SELECT id, {half} AS h FROM twice", key="h")
    with pytest.raises(hr.SpecError, match="more than one row"):
        list(again)


def test_null_keys_are_refused(database):
    database.numbers("holes", 10)
    query = "SELECT x, NULLIF(id, 4) AS k FROM holes"
    for partitions in (1, 3):
        with pytest.raises(hr.SpecError, match="NULL in some rows"):
            list(D.from_sql(database.uri, query, key="k", partitions=partitions))


def test_nulls_are_as_in_tables(database):
    database.numbers("gaps", 5)
    database.run("UPDATE gaps SET x = NULL WHERE id = 2")
    database.run("UPDATE gaps SET s = NULL WHERE id = 3")
    got = list(D.from_sql(database.uri, "SELECT * FROM gaps", key="id", nulls={"s": "none"}))
    assert np.isnan(got[1]["x"])
    assert got[2]["s"] == "none"
    bad = D.from_sql(database.uri, "SELECT * FROM gaps", key="id")
    assert ids(bad.ignore_errors()) == [1, 2, 4, 5]
    with pytest.raises(hr.ElementError, match=r"nulls=\{'s'"):
        list(bad)


@pytest.mark.parametrize(
    ("query", "said"),
    [("SELEC 1", "SELEC"), ("SELECT nothing FROM numbers", "nothing"), ("SELECT * FROM nowhere", "nowhere")],
)
def test_a_wrong_query_is_an_error_at_once(numbers, query, said):
    with pytest.raises(ValueError, match="from_sql") as caught:
        D.from_sql(numbers.uri, query)
    assert said in str(caught.value) or "syntax" in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_wrong_arguments(sqlite):
    sqlite.numbers("numbers", 3)
    with pytest.raises(hr.SpecError, match="did you mean 'id'"):
        D.from_sql(sqlite.uri, "SELECT * FROM numbers", key="idd")
    with pytest.raises(hr.SpecError, match="CAST it in the query"):
        D.from_sql(sqlite.uri, "SELECT * FROM numbers", key="x")
    with pytest.raises(ValueError, match="key= names it"):
        D.from_sql(sqlite.uri, "SELECT * FROM numbers", partitions=2)
    with pytest.raises(ValueError, match="no URI"):
        D.from_sql("oracle://me:sesame@host/x", "SELECT 1")
    with pytest.raises(TypeError, match="list of values"):
        D.from_sql(sqlite.uri, "SELECT * FROM numbers", params="abc")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        D.from_sql("sqlite:////nowhere/x.db", "SELECT 1")


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"pip install 'headrace\[duckdb\]'"):
        D.from_sql("duckdb://", "SELECT 1 AS x")


def test_explain_says_how_a_resume_works(sqlite):
    sqlite.numbers("numbers", 3)
    assert "runs the query again" in str(D.from_sql(sqlite.uri, "SELECT * FROM numbers").explain())
    assert "after the last id" in str(D.from_sql(sqlite.uri, "SELECT * FROM numbers", key="id").explain())


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
@pytest.mark.parametrize("how", [{"key": "id"}, {"key": "id", "partitions": 2}, {}])
def test_a_server_killed_in_the_middle_is_an_error_that_keeps_the_place(request, kind, how, caplog, monkeypatch):
    monkeypatch.setattr(keys, "FIRST_PAGE_ROWS", 2000)
    monkeypatch.setattr(keys, "page_rows", lambda rows, size: rows)
    database = request.getfixturevalue(kind)
    database.numbers("numbers", 12_000)
    query = "SELECT id, repeat('x', 3000) AS pad FROM numbers ORDER BY id"  # more than waits in sockets
    ds = D.from_sql(database.uri, query, **how).with_options(hr.Options(retries=0))
    want = ids(ds)
    assert len(want) == 12_000
    it = iter(ds)
    got = [int(next(it)["id"]) for _ in range(1000)]
    database.server.kill()
    try:
        with caplog.at_level(logging.DEBUG), pytest.raises(hr.TransportError) as caught:
            while True:  # what was on its way still comes
                got.append(int(next(it)["id"]))
        state = it.state()
        with pytest.raises(hr.TransportError):
            next(it)
    finally:
        database.server.start()
    assert "sesame" not in str(caught.value) + caplog.text + json.dumps(state)
    given = len(got)
    got += ids(it)
    assert got == want
    assert ids(ds.iterator(state)) == want[given:]


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_password_is_shown_nowhere(request, kind):
    database = request.getfixturevalue(kind)
    database.numbers("numbers", 5)
    ds = D.from_sql(database.uri, "SELECT * FROM numbers", key="id")
    it = iter(ds)
    next(it)
    shown = [repr(ds), str(ds.explain()), ds._repr_html_(), json.dumps(it.state()), repr(ds._node)]
    assert not [text for text in shown if "sesame" in text]
    wrong = database.uri.replace("sesame", "open-sesame")
    with pytest.raises((ValueError, hr.TransportError)) as caught:
        D.from_sql(wrong, "SELECT * FROM numbers")
    assert "sesame" not in str(caught.value)
    assert caught.value.__cause__ is None


def write_elsewhere(sqlite, statement, seconds=300):
    """Write from another process, because two copies of SQLite in one lose each other's locks."""
    path = sqlite.uri.removeprefix("sqlite:///")
    write = f"import sqlite3; db = sqlite3.connect({path!r}, {seconds}); db.execute({statement!r}); db.commit()"
    subprocess.run([sys.executable, "-c", write], check=True, capture_output=True)


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_partitions_see_one_snapshot(request, kind):
    database = request.getfixturevalue(kind)
    database.numbers("numbers", ROWS)
    if kind == "sqlite":
        write_elsewhere(database, "PRAGMA journal_mode = wal")
        database.run = partial(write_elsewhere, database)
    ds = D.from_sql(database.uri, "SELECT * FROM numbers", key="id", partitions=3)
    assert "3 partitions see one snapshot" in str(ds.explain())
    it = iter(ds)
    got = [next(it)]
    database.run("UPDATE numbers SET x = -1")
    database.run(f"INSERT INTO numbers SELECT id + {ROWS}, x, s FROM numbers")
    got += it
    assert len(got) == ROWS
    assert min(row["x"] for row in got) > 0


def connections_of(postgresql):
    """How many there are to the server, besides that which asks."""
    ((count,),) = database_of(postgresql.uri, "test").rows(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()", ()
    )
    return count


def test_no_connection_is_left_of_a_pass_in_partitions(postgresql):
    postgresql.numbers("numbers", ROWS)
    ds = D.from_sql(postgresql.uri, "SELECT * FROM numbers", key="id", partitions=5)
    for taken in (0, 1, ROWS - 1, ROWS):
        with ds.iterator() as it:
            got = ids(islice(it, taken))
            state = it.state()
        assert len(got) == taken
        with ds.iterator(state) as it:  # of the last ones most parts have no rows left
            assert len(ids(islice(it, 1))) == min(1, ROWS - taken)
        deadline = time.monotonic() + 300
        while connections_of(postgresql) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert connections_of(postgresql) == 0


def test_connections_that_a_server_took_with_it_are_missed_once(postgresql):
    database = database_of(postgresql.uri, "test")
    view = database.snapshot(8)
    for connecting in view._connecting:
        connecting.wait(300)
    postgresql.server.kill()
    postgresql.server.start()
    with pytest.raises(Exception, match=r"server|connection|terminat") as caught:
        view.connect()
    assert database.is_passing(caught.value)
    view.connect().close()
    view.close()


FORKED = """
import os, sys, headrace as hr
it = iter(hr.Dataset.from_sql(sys.argv[1], "SELECT i FROM range(200000) AS t(i)"))
first = [int(next(it)["i"]) for _ in range(50_000)]
if not os.fork():
    it.close()
    del it
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert first + [int(row["i"]) for row in it] == list(range(200_000))
"""


def test_a_process_forked_off_leaves_a_pass_over_duckdb_alone(duckdb):
    assert subprocess.run([sys.executable, "-c", FORKED, "duckdb://"], check=False, timeout=600).returncode == 0


def test_a_value_that_duckdb_cannot_convert_is_an_error_behind_the_rows_before_it(duckdb):
    value = "CASE WHEN i = 100000 THEN ('x' || i)::BIGINT ELSE i END AS i"
    query = f"SELECT {value}, repeat('x', 500) AS pad FROM range(200000) AS t(i)"  # more than it holds ahead
    it, got = iter(D.from_sql("duckdb://", query)), []
    with pytest.raises(hr.TransportError, match="OSError: Conversion Error: Could not convert string 'x100000'"):
        while True:
            got.append(int(next(it)["i"]))
    assert got == list(range(len(got))) and len(got) > 10_000


def test_no_connection_writes_while_partitions_of_a_plain_file_are_read(sqlite, duckdb):
    sqlite.numbers("numbers", ROWS)
    duckdb.numbers("numbers", ROWS)
    it = iter(D.from_sql(sqlite.uri, "SELECT * FROM numbers", key="id", partitions=3))
    next(it)
    with pytest.raises(subprocess.CalledProcessError):
        write_elsewhere(sqlite, "UPDATE numbers SET x = -1", seconds=0)
    it.close()
    write_elsewhere(sqlite, "UPDATE numbers SET x = -1")
    it = iter(D.from_sql(duckdb.uri, "SELECT * FROM numbers", key="id", partitions=3))
    next(it)
    write = f"import duckdb; duckdb.connect({duckdb.uri.removeprefix('duckdb:///')!r})"
    assert b"lock" in subprocess.run([sys.executable, "-c", write], capture_output=True, check=False).stderr
    it.close()
    assert subprocess.run([sys.executable, "-c", write], check=False).returncode == 0


def test_the_certificates_of_the_system_are_not_read_for_each_connection(mysql, monkeypatch):
    mysql.numbers("few", 12)
    ds = D.from_sql(mysql.uri, "SELECT * FROM few", key="id")

    def read(*_, **__):
        raise AssertionError("they were read once more")

    monkeypatch.setattr("ssl.create_default_context", read)
    assert ids(ds) == ids(ds) == list(range(1, 13))


def test_partitions_of_mariadb_say_that_they_share_no_snapshot(mysql):
    mysql.numbers("few", 12)
    told = str(D.from_sql(mysql.uri, "SELECT * FROM few", key="id", partitions=2).explain())
    assert "2 partitions each see what is there when a page is asked for" in told


def test_the_types_of_postgresql(postgresql):
    query = """SELECT 12.50::numeric(10,2) AS d, '{"a": 1}'::jsonb AS j,
        '00000000-0000-0000-0000-000000000001'::uuid AS u, ARRAY[1,2] AS a, ARRAY['x','y'] AS t,
        TIMESTAMPTZ '2020-01-02 03:04:05+02' AS z, TIMESTAMP '2020-01-02 03:04:05' AS n,
        DATE '2020-01-02' AS day, TIME '01:02:03' AS clock, true AS b, 'x'::bytea AS bytes, 7::smallint AS small"""
    (row,) = D.from_sql(postgresql.uri, query)
    assert row["d"] == 12.5
    assert json.loads(row["j"]) == {"a": 1}
    assert row["u"] == b"\0" * 15 + b"\1"
    assert row["a"].tolist() == [1, 2]
    assert row["t"].tolist() == ["x", "y"]
    assert row["z"] == np.datetime64("2020-01-02T01:04:05")
    assert row["n"] == np.datetime64("2020-01-02T03:04:05")
    assert row["day"] == np.datetime64("2020-01-02")
    assert row["clock"] == np.timedelta64(3723, "s")
    assert (row["b"], row["bytes"], row["small"].dtype) == (True, b"x", np.int16)
    with pytest.raises(hr.SpecError, match="takes the nearest"):
        D.from_sql(postgresql.uri, "SELECT 1.5::numeric AS d")
    assert list(D.from_sql(postgresql.uri, "SELECT 1.5::numeric AS d", cast={"d": float})) == [{"d": 1.5}]


def test_the_types_of_mariadb_are_the_same_either_way(mysql):
    mysql.run("DROP TABLE IF EXISTS kinds")
    mysql.run(
        "CREATE TABLE kinds (i TINYINT PRIMARY KEY, ui INT UNSIGNED, f FLOAT, d DECIMAL(10,2), s VARCHAR(10), "
        "tx TEXT, bl BLOB, dt DATETIME(6), da DATE, ti TIME, j JSON, y YEAR, e ENUM('a','b'), "
        "bi BIGINT UNSIGNED, b BINARY(2))"
    )
    mysql.run(
        "INSERT INTO kinds VALUES (1,2,1.5,2.25,'s','tx',x'00ff','2020-01-02 03:04:05.123456','2020-01-02','03:04:05',"
        "'{\"a\":1}',2020,'a',18446744073709551615,x'0001')"
    )
    (paged,) = D.from_sql(mysql.uri, "SELECT * FROM kinds", key="i")
    (streamed,) = D.from_sql(mysql.uri, "SELECT * FROM kinds")
    assert paged == streamed
    assert {k: type(v) for k, v in paged.items()} == {k: type(v) for k, v in streamed.items()}
    assert paged["dt"] == np.datetime64(datetime.datetime(2020, 1, 2, 3, 4, 5, 123456))
    assert paged["bi"] == 2**64 - 1


def test_the_types_of_duckdb(duckdb):
    (row,) = D.from_sql(
        "duckdb://", "SELECT {'a': 1, 'b': [1.5]} AS s, 'x'::ENUM('x', 'y') AS e, 1::DECIMAL(8, 2) AS d"
    )
    assert row["s"]["b"].tolist() == [1.5]
    assert (row["e"], row["d"]) == ("x", 1.0)


def test_a_query_is_closed_in_the_middle(database):
    database.numbers("numbers", ROWS)
    it = iter(D.from_sql(database.uri, "SELECT * FROM numbers", key="id", partitions=2))
    assert int(next(it)["id"]) == 1
    it.close()
    database.run("DROP TABLE numbers")  # would wait for a query that still runs


def test_a_dataset_of_a_query_goes_to_another_process(sqlite):
    sqlite.numbers("numbers", 100)
    ds = D.from_sql(sqlite.uri, "SELECT * FROM numbers", key="id")
    assert ids(pickle.loads(pickle.dumps(ds))) == ids(ds)


def test_rows_are_found_by_number_where_the_key_has_no_gaps(database):
    database.numbers("numbers", 3000)
    ds = D.from_sql(database.uri, "SELECT * FROM numbers", key="id", index=True)
    assert len(ds) == 3000
    assert ds[0]["id"] == 1
    assert ds[-1] == {"id": 3000, "x": 1500.0, "s": "n3000"}
    assert ids(ds[10:13]) == [11, 12, 13]
    assert ids(ds) == list(range(1, 3001))
    shuffled = ids(ds.shuffle(seed=1))
    assert sorted(shuffled) == list(range(1, 3001))
    assert shuffled != sorted(shuffled)
    assert ids(ds.skip(2990)) == list(range(2991, 3001))
    database.run("DELETE FROM numbers WHERE id = 5")
    with pytest.raises(hr.SpecError, match="without gaps"):
        D.from_sql(database.uri, "SELECT * FROM numbers", key="id", index=True)
    with pytest.raises(hr.StateError, match="make the dataset anew"):
        list(ds)


def test_rows_by_number_keep_every_promise(sqlite):
    sqlite.numbers("few", 15)
    sqlite.run("UPDATE few SET s = NULL WHERE id = 4")
    check_transformation(D.from_sql(sqlite.uri, "SELECT * FROM few", key="id", index=True).batch(2), cuts=4, epochs=1)
