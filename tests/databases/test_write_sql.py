"""Rows into tables: all of them or none."""

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
    monkeypatch.setattr("headrace.sinks.write_sql.BYTES", 1000)
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
