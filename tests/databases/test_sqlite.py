"""SQLite's rows as columns: the types of values, its conversions, one library for all of the process."""

import ctypes
import ctypes.util
import datetime
import random
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import _native
from headrace.sources.sql import sqlite as reader
from headrace.sources.sql.sqlite import Sqlite
from headrace.sources.sql.uri import Uri

D = hr.Dataset
VALUES = [0, -1, 2**63 - 1, -(2**63), 2.5, -0.0, 1e300, "", "x\0y", "☃", "12", b"", b"\0\xff", None, None]


MISSING = {str: "", bytes: b"", float: 0.0}


def table_of(path, values):
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE IF EXISTS t")
        db.execute("CREATE TABLE t (v)")
        db.executemany("INSERT INTO t VALUES (?)", [(v,) for v in values])
    db.close()
    return Sqlite(Uri(f"sqlite:///{path}"))


def read(database, query="SELECT v FROM t ORDER BY rowid", params=()):
    rows = database.read(query, params, None)
    try:
        return pa.Table.from_batches(list(rows), database.schema(query, params))
    finally:
        rows.close()


@pytest.mark.parametrize("seed", range(40))
def test_types_and_values_are_those_of_the_arrow_driver(tmp_path, seed):
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi", reason="adbc-driver-sqlite is not installed")
    chance = random.Random(seed)
    pool = chance.sample(VALUES, chance.randint(1, 4))
    values = [chance.choice(pool) for _ in range(chance.randint(0, 40))]
    got = read(table_of(tmp_path / "data.db", values))
    with dbapi.connect(str(tmp_path / "data.db")) as db, db.cursor() as cursor:
        cursor.execute("SELECT v FROM t ORDER BY rowid")
        want = cursor.fetch_arrow_table()
    assert got.schema == want.schema
    is_text = got.schema.field(0).type in (pa.string(), pa.binary())
    if not (is_text and any(isinstance(v, float) for v in values)):  # which that one writes with few digits
        assert got == want


@pytest.mark.parametrize(
    ("first", "late", "fits"),
    [
        (1, 2.0, False), (1, "x", False), (1, b"x", False), (None, 2.5, False), (2.5, "x", False), (2.5, b"x", False),
        (2.5, 3, 3.0), ("x", 3, "3"), ("x", 2.5, "2.5"), (b"x", "y", b"y"), (b"x", 7, b"7"), (1, None, None),
    ],
)  # fmt: skip
def test_a_later_value_fits_or_is_an_error_in_its_place(tmp_path, monkeypatch, first, late, fits):
    monkeypatch.setattr(reader, "ROWS_PER_BATCH", 8)
    table_of(tmp_path / "data.db", [first] * 13 + [late] + [first])
    missing = MISSING.get(type(first), 0)
    ds = D.from_sql(f"sqlite:///{tmp_path}/data.db", "SELECT rowid AS id, v FROM t", key="id", nulls={"v": missing})
    if fits is False:
        given, it = [], iter(ds)
        for _ in range(40):  # what came before the error is not lost
            try:
                given.append(int(next(it)["id"]))
            except hr.SpecError as error:
                assert "column 'v' holds" in str(error) and "at first: CAST it in the query" in str(error)
        assert given == list(range(1, 14))
    else:
        got = [row["v"] for row in ds]
        assert len(got) == 15
        assert got[13] == (missing if fits is None else fits)


def test_parameters_of_every_kind(tmp_path):
    database = table_of(tmp_path / "data.db", [1])
    given = [None, True, -(2**63), np.int32(7), 2.5, np.float32(0.5), "a\0b", b"\0", bytearray(b"x")]
    given += [datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3)]
    marks = ", ".join(f"? AS c{i}" for i in range(len(given)))
    ((*row,),) = database.rows(f"SELECT {marks}", given)
    want = [None, 1, -(2**63), 7, 2.5, 0.5, "a\0b", b"\0", b"x", "2020-01-02", "2020-01-02T03:00:00.000000"]
    assert row == want
    with pytest.raises(sqlite3.OperationalError, match="1 placeholders, and there are 2"):
        database.rows("SELECT ?", [1, 2])
    with pytest.raises(TypeError, match="nothing like a dict"):
        D.from_sql(str(database.uri), "SELECT ? AS v", params=[{}])
    with pytest.raises((OverflowError, RuntimeError, ValueError)):
        database.rows("SELECT ?", [2**63])


def test_nothing_is_written(tmp_path):
    database = table_of(tmp_path / "data.db", [1, 2])
    with pytest.raises(ValueError, match="readonly"):
        D.from_sql(str(database.uri), "DELETE FROM t RETURNING v")
    assert len(read(database)) == 2


def test_large_values_make_small_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_BATCH_BYTES", 1000)
    database = table_of(tmp_path / "data.db", [bytes(400)] * 10)
    rows = database.read("SELECT v FROM t", (), None)
    assert [batch.num_rows for batch in rows] == [3, 3, 3, 1]
    rows.close()


def test_columns_that_change_under_a_query_are_an_error(tmp_path):
    database = table_of(tmp_path / "data.db", [1, 2])
    schema = database.schema("SELECT * FROM t", ())
    rows = database.read("SELECT * FROM t", (), schema)
    with sqlite3.connect(tmp_path / "data.db") as db:
        db.execute("ALTER TABLE t ADD COLUMN w")
    db.close()
    with pytest.raises(sqlite3.OperationalError, match="the table was changed"):
        next(rows)
    rows.close()


def test_a_file_that_is_no_database_is_an_error(tmp_path):
    (tmp_path / "data.db").write_bytes(b"no database" * 100)
    with pytest.raises(ValueError, match="not a database"):
        D.from_sql(f"sqlite:///{tmp_path}/data.db", "SELECT 1 AS x FROM t")


ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT sum(i) AS s FROM c"


def test_a_query_that_takes_long_is_ended_by_closing():
    database = Sqlite(Uri("sqlite://"))
    schema = pa.schema({"s": pa.int64()})
    rows = database.read(ENDLESS, (), schema)
    raised = []

    def run():
        try:
            next(rows)
        except sqlite3.OperationalError as error:
            raised.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():  # it may not have begun yet
        rows.cancel()
        thread.join(0.01)
    assert raised == ["interrupted"]
    rows.close()
    rows.cancel()
    with pytest.raises(sqlite3.OperationalError, match="closed"):
        next(iter(reader._batches(closed(database), schema, convert=False)))


def closed(database):
    connection = database.connect()
    connection.close()
    return connection


SLOW_BEHIND = """
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i AS v FROM c WHERE i <= 40 OR i < 0
"""


@pytest.mark.parametrize("taken", [1, 2, 3, 4])
def test_what_is_read_ahead_ends_with_the_pass(tmp_path, monkeypatch, taken):
    monkeypatch.setattr(reader, "ROWS_PER_BATCH", 10)
    database = table_of(tmp_path / "data.db", [1])
    rows = database.read(f"{SLOW_BEHIND} AND (SELECT count(*) FROM t)", (), pa.schema({"v": pa.int64()}))
    got = [next(rows).column(0).to_pylist() for _ in range(taken)]  # after the fourth it would search forever
    assert [v for batch in got for v in batch] == list(range(1, 10 * taken + 1))
    rows.close()
    with sqlite3.connect(tmp_path / "data.db", timeout=0) as db:
        db.execute("INSERT INTO t VALUES (2)")
    db.close()


def test_what_is_read_ahead_is_ended_from_another_thread(monkeypatch):
    monkeypatch.setattr(reader, "ROWS_PER_BATCH", 10)
    rows = Sqlite(Uri("sqlite://")).read(SLOW_BEHIND, (), pa.schema({"v": pa.int64()}))
    assert [next(rows).num_rows for _ in range(4)] == [10] * 4
    canceller = threading.Thread(target=rows.cancel)
    canceller.start()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        next(rows)
    canceller.join()
    rows.close()


def test_a_broken_page_is_an_error_behind_the_rows_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "ROWS_PER_BATCH", 50)
    path = tmp_path / "data.db"
    table_of(path, range(20_000))
    ds = D.from_sql(f"sqlite:///{path}", "SELECT v FROM t")
    content = bytearray(path.read_bytes())
    content[4096 * 20 : 4096 * 21] = b"\xff" * 4096
    path.write_bytes(content)
    it, given = iter(ds), []
    for _ in range(3):  # it stays one, and no row comes twice
        with pytest.raises(hr.TransportError, match="malformed"):
            while True:
                given.append(int(next(it)["v"]))
    assert 1000 < len(given) < 20_000
    assert given == list(range(len(given)))


@pytest.mark.parametrize("columns", [1, 2, 3, 9])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_several_columns_are_those_of_pythons_own_module(tmp_path, columns, seed, monkeypatch):
    monkeypatch.setattr(reader, "ROWS_PER_BATCH", 7)
    chance = random.Random(f"{columns} {seed}")
    kinds = [chance.choice(["INTEGER", "REAL", "TEXT"]) for _ in range(columns)]
    make = {
        "INTEGER": lambda: chance.choice([None, chance.randint(-9, 9)]),
        "REAL": lambda: chance.choice([None, chance.random(), 2.0]),
        "TEXT": lambda: chance.choice([None, "", "text" * chance.randint(0, 9)]),
    }
    names = [f"c{i}" for i in range(columns)]
    with sqlite3.connect(tmp_path / "data.db") as db:
        db.execute(f"CREATE TABLE t ({', '.join(f'{n} {k}' for n, k in zip(names, kinds, strict=True))})")
        rows = [[make[kind]() for kind in kinds] for _ in range(200)]
        db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * columns)})", rows)
    listed = ", ".join(names)
    query = f"SELECT {listed} FROM t UNION ALL SELECT {listed} FROM (SELECT * FROM t ORDER BY {listed} DESC)"
    want = db.execute(query).fetchall()
    db.close()
    kinds_read = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}
    schema = pa.schema([pa.field(n, kinds_read[k]) for n, k in zip(names, kinds, strict=True)])
    batches = Sqlite(Uri(f"sqlite:///{tmp_path}/data.db")).read(query, (), schema)
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == want
    batches.close()


FORKED = """
import os, sys, time, headrace as hr
it = iter(hr.Dataset.from_sql(sys.argv[1], "SELECT v FROM t"))
first = [int(next(it)["v"]) for _ in range(50_000)]
if not os.fork():
    it.close()
    del it
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert first + [int(row["v"]) for row in it] == list(range(200_000))
"""


def test_a_process_forked_off_leaves_a_pass_alone(tmp_path):
    table_of(tmp_path / "data.db", range(200_000))
    done = subprocess.run([sys.executable, "-c", FORKED, f"sqlite:///{tmp_path}/data.db"], check=False, timeout=600)
    assert done.returncode == 0


def test_pythons_own_module_heeds_the_locks_of_a_pass(tmp_path):
    table_of(tmp_path / "data.db", range(50_000))
    it = iter(D.from_sql(f"sqlite:///{tmp_path}/data.db", "SELECT v FROM t"))
    next(it)
    with sqlite3.connect(tmp_path / "data.db", timeout=0.1) as here:
        here.execute("SELECT count(*) FROM t").fetchall()
    here.close()  # which, of another copy of SQLite, would let go of the lock of the pass
    write = "import sqlite3, sys; sqlite3.connect(sys.argv[1], 0.1, isolation_level=None).execute('DELETE FROM t')"
    done = subprocess.run(
        [sys.executable, "-c", write, str(tmp_path / "data.db")], capture_output=True, text=True, check=False
    )
    assert "locked" in done.stderr
    assert len(list(it)) == 49_999


def test_what_is_read_is_written_to_the_same_file_in_peace(tmp_path):
    table_of(tmp_path / "data.db", range(1000))
    uri = f"sqlite:///{tmp_path}/data.db"
    assert D.from_sql(uri, "SELECT v FROM t").map(lambda row: {"w": row["v"] + 1}).write_sql(uri, "u") == 1000
    assert sum(int(row["w"]) for row in D.from_sql(uri, "SELECT w FROM u")) == sum(range(1, 1001))


def test_values_are_written_as_pythons_own_module_has_them(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.sinks.write_sql.BATCH_BYTES", 1000)
    chance = random.Random(1)
    texts = ["", "x\0y", "☃" * 9, "12", "long " * 50]
    n = 500
    columns = {
        "i": np.array(chance.choices([0, -1, 2**63 - 1, -(2**63)], k=n)),
        "small": np.arange(n, dtype=np.int8),
        "wide": np.arange(n, dtype=np.uint32) + 2**31,
        "f": np.array(chance.choices([0.1, -0.0, np.inf, 5e-324, np.nan], k=n)),
        "half": np.arange(n, dtype=np.float16) / 3,
        "b": np.arange(n) % 3 == 0,
        "s": np.array(chance.choices(texts, k=n), object),
        "raw": np.array([chance.randbytes(chance.randrange(30)) for _ in range(n)], object),
    }
    ds = D.from_tensor_slices(columns).skip(3)
    assert ds.write_sql(f"sqlite:///{tmp_path}/new.db", "odd 'name\"") == n - 3
    rows = list(zip(*(column[3:].tolist() for column in columns.values()), strict=True))
    with sqlite3.connect(tmp_path / "new.db") as db:
        db.execute(
            "CREATE TABLE u (i INTEGER, small INTEGER, wide INTEGER, f REAL, half REAL, b INTEGER, s TEXT, raw BLOB)"
        )
        db.executemany(f"INSERT INTO u VALUES ({', '.join('?' * len(columns))})", rows)
        got, want = (
            db.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid").fetchall()
            for table in ('"odd \'name"""', "u")
        )
    db.close()
    assert repr(got) == repr(want)


def test_a_row_that_a_table_refuses_leaves_it_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.sinks.write_sql.BATCH_BYTES", 1000)
    with sqlite3.connect(tmp_path / "data.db") as db:
        db.execute("CREATE TABLE t (v INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES (900)")
        db.commit()
        ds = D.range(1000).map(lambda v: {"v": v})
        with pytest.raises(ValueError, match="IntegrityError: UNIQUE"):
            ds.write_sql(f"sqlite:///{tmp_path}/data.db", "t", if_exists="append")
        assert db.execute("SELECT v FROM t").fetchall() == [(900,)]
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(hr.TransportError, match="locked"):
            ds.write_sql(f"sqlite:///{tmp_path}/data.db", "t", if_exists="replace")
        db.rollback()
        assert db.execute("SELECT v FROM t").fetchall() == [(900,)]
    db.close()


def test_buffers_that_are_too_small_are_refused():
    connection = _native.Sqlite(b":memory:", create=True)
    connection.prepare("CREATE TABLE t (v)", [])
    connection.values()
    insert = "INSERT INTO t VALUES (?)"
    numbers, offsets = np.arange(4), np.array([0, 1, 2], np.int32)
    backwards, beyond = np.array([0, 2, 1, 3, 3], np.int32), np.array([0, 2, 3, 4, 5], np.int32)
    wrong = [
        (0, None, None, numbers, 1), (1, None, None, None, 0), (2, None, offsets, b"ab", 0),
        (3, b"", offsets, b"ab", 0), (4, None, None, numbers, 0), (0, None, None, numbers, -1),
        (2, None, backwards, b"abc", 0), (3, None, beyond, b"abc", 0), (2, None, None, b"abc", 0),
    ]  # fmt: skip
    for column in wrong:
        with pytest.raises(ValueError):
            connection.insert(insert, [column], 4)
    with pytest.raises(sqlite3.OperationalError, match="parameters"):
        connection.insert(insert, [(0, None, None, numbers, 0)] * 2, 4)
    connection.insert(insert, [(0, None, None, numbers, 1)], 3)
    connection.prepare("SELECT v FROM t", [])
    assert connection.values() == [(1,), (2,), (3,)]
    connection.close()


def test_days_and_times_are_written_as_text(tmp_path):
    uri = f"sqlite:///{tmp_path}/times.db"
    at = np.array(["2020-01-02T03:04:05.123456", "NaT"], "datetime64[us]")
    D.from_tensor_slices({"t": at, "b": [True, False]}).write_sql(uri, "times")
    with sqlite3.connect(tmp_path / "times.db") as db:
        assert db.execute("SELECT t, b FROM times").fetchall() == [("2020-01-02T03:04:05.123456", 1), (None, 0)]
    db.close()
    with pytest.raises(hr.SpecError, match="map it to text"):
        D.from_tensor_slices({"l": np.arange(4).reshape(2, 2)}).write_sql(uri, "lists")


EXTENSION = """
import ctypes, sys
from headrace import _native
lib = ctypes.CDLL(sys.argv[1])
db = ctypes.c_void_p()
assert lib.sqlite3_open(b":memory:", ctypes.byref(db)) == 0
assert lib.sqlite3_enable_load_extension(db, 1) == 0
said = ctypes.c_char_p()
code = lib.sqlite3_load_extension(db, _native.__file__.encode(), b"headrace_sqlite_init", ctypes.byref(said))
assert code == 0, said.value
lib.sqlite3_close(db)
query = _native.Sqlite(b":memory:")
query.prepare("SELECT ?, ?, ?, ?, ?", [7, 2.5, "text", b"blob", None])
assert query.values() == [(7, 2.5, "text", b"blob", None)]
assert query.names() == ["?"] * 5
assert query.guess(1) == [0, 1, 2, 3, 0]
query.prepare("SELEC", []) if len(sys.argv) > 2 else query.close()
"""


def test_functions_are_found_where_python_hides_them():
    library = ctypes.util.find_library("sqlite3")
    if library is None or not hasattr(ctypes.CDLL(library), "sqlite3_load_extension"):
        pytest.skip("there is no SQLite here that loads extensions")
    subprocess.run([sys.executable, "-c", EXTENSION, library], check=True)
    command = [sys.executable, "-c", EXTENSION, library, "wrong"]
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 'near "SELEC": syntax error' in wrong.stderr


def test_a_python_whose_sqlite_is_out_of_reach_says_so(monkeypatch, tmp_path):
    table_of(tmp_path / "data.db", [1])
    monkeypatch.setattr(_native, "find_sqlite", lambda library: False)
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "nothing.so"))
    reader.find_library.cache_clear()
    try:
        with pytest.raises(ImportError, match="out of reach"):
            D.from_sql(f"sqlite:///{tmp_path}/data.db", "SELECT v FROM t")
    finally:
        monkeypatch.undo()
        reader.find_library.cache_clear()
        reader.find_library()
