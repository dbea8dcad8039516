"""from_sql(connection=): open connections of DBAPI, DuckDB and SQLAlchemy."""

import sqlite3

import duckdb
import pytest

import headrace as hr

D = hr.Dataset
QUERY = "SELECT id, name FROM item ORDER BY id"


def filled(connection, rows=10):
    connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany("INSERT INTO item VALUES (?, ?)", [(i, f"n{i}") for i in range(rows)])
    connection.commit()
    return connection


def values(ds):
    return [(int(row["id"]), row["name"]) for row in ds]


WHOLE = [(i, f"n{i}") for i in range(10)]


def test_a_file_of_sqlite_is_opened_again(tmp_path):
    connection = filled(sqlite3.connect(tmp_path / "a.db"))
    ds = D.from_sql(connection=connection, query=QUERY, key="id", index=True)
    assert values(ds) == WHOLE
    assert ds[3]["name"] == "n3"
    connection.close()  # passes have connections of their own
    assert values(D.from_sql(f"sqlite:///{tmp_path}/a.db", QUERY)) == WHOLE


def test_a_database_in_memory_is_read_through_the_connection():
    connection = filled(sqlite3.connect(":memory:", check_same_thread=False))
    ds = D.from_sql(connection, QUERY)
    assert values(ds) == WHOLE == values(ds)
    for cut in (0, 4, 10):
        it = iter(ds)
        for _ in range(cut):
            next(it)
        assert values(ds.iterator(state=it.state())) == WHOLE[cut:]
    some = D.from_sql(connection=connection, query="SELECT id, name FROM item WHERE id > ?", params=[7])
    assert sorted(values(some)) == WHOLE[8:]


def test_what_a_connection_alone_cannot_do_is_refused():
    connection = filled(sqlite3.connect(":memory:", check_same_thread=False))
    with pytest.raises(ValueError, match="key= needs connections of its own"):
        D.from_sql(connection=connection, query=QUERY, key="id")
    with pytest.raises(TypeError, match="takes a URI and a query, or connection= and query="):
        D.from_sql(query=QUERY)
    with pytest.raises(TypeError, match=r"DBAPI or ADBC connection, or one of SQLAlchemy, not builtins.object"):
        D.from_sql(connection=object(), query=QUERY)
    with pytest.raises(ValueError, match="no such table"):
        D.from_sql(connection=connection, query="SELECT * FROM absent")
    with pytest.raises(ValueError, match="gives no rows"):
        D.from_sql(connection=connection, query="CREATE TABLE more (x)")
    with pytest.raises(TypeError, match="cannot be sent to another process"):
        list(D.from_sql(connection=connection, query=QUERY).prefetch(2, mode="process"))


def test_a_column_of_different_types_is_an_error():
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("CREATE TABLE t (x)")
    connection.executemany("INSERT INTO t VALUES (?)", [(1,), ("a",)])
    with pytest.raises(hr.SpecError, match=r"'x' holds values of different types.*CAST"):
        D.from_sql(connection=connection, query="SELECT x FROM t")


def test_duckdb_speaks_arrow():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE item AS SELECT range::INT AS id, 'n' || range AS name FROM range(10)")
    ds = D.from_sql(connection=connection, query=QUERY)
    assert values(ds) == WHOLE
    it = iter(ds)
    next(it)
    assert values(ds.iterator(state=it.state())) == WHOLE[1:]


def test_sqlalchemy(tmp_path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    filled(sqlite3.connect(tmp_path / "a.db")).close()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/a.db")
    assert values(D.from_sql(connection=engine, query=QUERY, key="id")) == WHOLE
    with engine.connect() as connection:
        assert values(D.from_sql(connection=connection, query=QUERY)) == WHOLE
    pool = sqlalchemy.pool.StaticPool
    memory = sqlalchemy.create_engine("sqlite://", poolclass=pool, connect_args={"check_same_thread": False})
    with memory.connect() as connection:
        filled(connection.connection.driver_connection)
        assert values(D.from_sql(connection=connection, query=QUERY)) == WHOLE
