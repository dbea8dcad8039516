"""Rows into tables: all of them or none."""

import subprocess
import sys
import time

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def rows(n, offset=0):
    return D.range(n).map(lambda i: {"id": i + offset, "x": i * 0.5, "s": str(int(i))})


def read(database, table):
    return [int(row["id"]) for row in D.from_sql(database.uri, f"SELECT * FROM {table}", key="id")]


def test_what_is_written_is_read(database):
    database.run("DROP TABLE IF EXISTS written")
    assert rows(2500).write_sql(database.uri, "written") == 2500
    got = list(D.from_sql(database.uri, "SELECT * FROM written", key="id"))
    assert got == list(rows(2500))
    with pytest.raises(ValueError, match="write_sql"):
        rows(3).write_sql(database.uri, "written")
    assert rows(10, 2500).write_sql(database.uri, "written", if_exists="append") == 10
    assert read(database, "written") == list(range(2510))
    assert rows(5).write_sql(database.uri, "written", if_exists="replace") == 5
    assert read(database, "written") == list(range(5))


@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_an_element_that_fails_leaves_the_table_as_it_was(database, if_exists, monkeypatch):
    monkeypatch.setattr("headrace.sinks.write_sql.BATCH_BYTES", 1000)
    database.run("DROP TABLE IF EXISTS kept")
    rows(5).write_sql(database.uri, "kept")
    bad = rows(1000, 5).map(lambda row: {**row, "x": 1 / (row["id"] - 900)})
    bad = bad.map(lambda row: row if row["id"] != 900 else 1 / 0, mode="eager")
    with pytest.raises(hr.ElementError):
        bad.write_sql(database.uri, "kept", if_exists=if_exists)
    assert read(database, "kept") == list(range(5))


def test_a_table_that_failed_is_not_there(database):
    database.run("DROP TABLE IF EXISTS never")
    with pytest.raises(hr.ElementError):
        rows(10).map(lambda row: 1 / 0, mode="eager").write_sql(database.uri, "never")
    with pytest.raises(ValueError, match="never"):
        D.from_sql(database.uri, "SELECT * FROM never")


def test_other_types(postgresql, duckdb):
    ds = D.from_tensor_slices({"b": [True, False], "l": np.arange(4).reshape(2, 2), "u": np.array([1, 2], np.uint8)})
    for database in (postgresql, duckdb):
        database.run("DROP TABLE IF EXISTS kinds")
        ds.write_sql(database.uri, "kinds")
        got = list(D.from_sql(database.uri, "SELECT * FROM kinds"))
        assert [row["l"].tolist() for row in got] == [[0, 1], [2, 3]]
        assert [bool(row["b"]) for row in got] == [True, False]
        assert [int(row["u"]) for row in got] == [1, 2]


def test_wrong_arguments(sqlite):
    with pytest.raises(ValueError, match="if_exists"):
        rows(3).write_sql(sqlite.uri, "t", if_exists="maybe")
    with pytest.raises(ValueError, match="infinite"):
        rows(3).repeat().write_sql(sqlite.uri, "t")
    with pytest.raises(TypeError, match="names"):
        D.range(3).write_sql(sqlite.uri, "t")
    with pytest.raises(ValueError, match="no elements"):
        rows(0).write_sql(sqlite.uri, "t")


def tables(mysql):
    query = "SELECT table_name AS t, table_comment AS c FROM information_schema.tables WHERE table_schema = 'test'"
    return {row["t"]: row["c"] for row in D.from_sql(mysql.uri, query) if row["t"].startswith("left%_t")}


KILLED = """
import os, sys, headrace as hr
def until(i):
    if i == 3000:
        print("there", flush=True)
        sys.stdin.read()
    return {"id": i}
hr.Dataset.range(10_000).map(until, mode="eager").write_sql(sys.argv[1], "left%_t", if_exists="replace")
"""


def test_what_killed_writers_left_behind_is_dropped_by_the_next(mysql):
    for name in list(tables(mysql)):
        mysql.run(f"DROP TABLE `{name}`")
    script = "import headrace.sinks.write_sql as w; w.BATCH_BYTES = 1000" + KILLED
    begin = [sys.executable, "-c", script, mysql.uri]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(begin, **pipes) as alive, subprocess.Popen(begin, **pipes) as killed:
        assert alive.stdout.readline() == killed.stdout.readline() == b"there\n"
        assert len(tables(mysql)) == 2
        killed.kill()
        killed.wait()
        mysql.run("CREATE TABLE `left%_t_0123456789ab` (mine int)")  # named like one, by another program
        mysql.run("CREATE TABLE `left%_t_0123456789ac_old` (id int)")  # which a writer was killed before it dropped
        deadline = time.monotonic() + 300
        while len(tables(mysql)) > 3 and time.monotonic() < deadline:  # until the server sees that it is gone
            rows(5).write_sql(mysql.uri, "left%_t", if_exists="replace")
        left = tables(mysql)
        assert left.keys() >= {"left%_t", "left%_t_0123456789ab"} and len(left) == 3
        assert left["left%_t"] == ""
        assert len(read(mysql, "`left%_t`")) == 5
        alive.stdin.close()
        assert alive.wait() == 0
    assert set(tables(mysql)) == {"left%_t", "left%_t_0123456789ab"}
    assert len(read(mysql, "`left%_t`")) == 10_000
