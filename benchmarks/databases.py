"""Databases, against their bare drivers; SQLite against tf.data's SqlDataset too.

A million rows of ten columns, nine of numbers and one of text. Servers run on loopback, in folders of their own; what
is not installed is skipped. A bare driver gives Arrow batches, which are counted; headrace gives batches of 1024 rows.
"""

from __future__ import annotations

import atexit
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from harness import Bound, Case, UnsupportedError, batches, fresh, main
from peers import tensorflow

import headrace as hr

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.databases import servers

ROWS = 1_000_000
QUERY = "SELECT * FROM bench"
_folder = TemporaryDirectory(prefix="headrace-benchmark-")
_open = ExitStack()
atexit.register(_open.close)


@cache
def rows() -> pa.Table:
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {"id": np.arange(ROWS)}
    columns |= {f"f{i}": random.random(ROWS) for i in range(5)}
    columns |= {f"i{i}": random.integers(0, 1 << 30, ROWS) for i in range(3)}
    columns["s"] = [f"name {i % 1000}" for i in range(ROWS)]
    return pa.table(columns)


@cache
def sqlite() -> str:
    path = Path(_folder.name, "bench.db")
    with sqlite3.connect(path) as db:
        kinds = "id INTEGER PRIMARY KEY, " + ", ".join(
            [*(f"f{i} REAL" for i in range(5)), *(f"i{i} INTEGER" for i in range(3))]
        )
        db.execute(f"CREATE TABLE bench ({kinds}, s TEXT)")
        values = zip(*(column.to_pylist() for column in rows().columns), strict=True)
        db.executemany(f"INSERT INTO bench VALUES ({', '.join('?' * 10)})", values)
    return f"sqlite:///{path}"


@cache
def duckdb() -> str:
    import duckdb as module

    path = Path(_folder.name, "bench.duckdb")
    with module.connect(str(path)) as db:
        db.register("given", rows())
        db.execute("CREATE TABLE bench AS SELECT * FROM given")
    return f"duckdb:///{path}"


def server(kind: Callable[[], Any], program: str) -> str:
    if servers.program(program) is None:
        raise UnsupportedError(f"{program} is not installed")
    uri: str = _open.enter_context(kind()).uri
    hr.Dataset.from_arrow(rows()).write_sql(uri, "bench")
    return uri


@cache
def postgres() -> str:
    uri = server(servers.postgres, "initdb")
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(uri, autocommit=True) as db, db.cursor() as cursor:
        cursor.execute("ALTER TABLE bench ADD PRIMARY KEY (id)")
        cursor.execute("ANALYZE bench")
    return uri


@cache
def mariadb() -> str:
    uri = server(servers.mariadb, "mariadbd")
    import pymysql

    port = int(uri.rpartition(":")[2].partition("/")[0])
    how = {
        "host": "127.0.0.1",
        "port": port,
        "user": "hr",
        "password": "sesame",
        "database": "test",
        "autocommit": True,
    }
    with pymysql.connect(**how) as db:
        db.cursor().execute("ALTER TABLE bench ADD PRIMARY KEY (id)")
    return uri


def count(read: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in read)


def bare_adbc(driver: str, source: Callable[[], str], query: str) -> Callable[[], int]:
    def job() -> int:
        from importlib import import_module

        module = import_module(f"adbc_driver_{driver}.dbapi")
        uri = source().removeprefix("sqlite:///")
        with module.connect(uri) as db, db.cursor() as cursor:
            if driver == "sqlite":
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": "16384"})
            cursor.execute(query)
            return count(cursor.fetch_record_batch())

    return job


def bare_duckdb(query: str) -> Callable[[], int]:
    def job() -> int:
        import duckdb as module

        with module.connect(duckdb().removeprefix("duckdb:///"), read_only=True) as db:
            found = db.sql(query)
            return count((getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader)(16384))

    return job


def bare_connectorx() -> int:
    import connectorx

    rows: int = connectorx.read_sql(mariadb(), QUERY, return_type="arrow").num_rows
    return rows


def ours(source: Callable[[], str], **how: Any) -> Callable[[], int]:
    """A pass; the dataset is made once, which is a line of its own."""
    made = cache(lambda: hr.Dataset.from_sql(source(), QUERY, **how).batch(1024))
    return batches(made)


def making(source: Callable[[], str]) -> Callable[[int], list[float]]:
    """Milliseconds until there is a dataset, whose columns are known: most of it is the driver's, to connect."""

    def measure(rounds: int) -> list[float]:
        where, took = source(), []
        for _ in range(rounds):
            started = perf_counter()
            hr.Dataset.from_sql(where, QUERY, key="id")
            took.append((perf_counter() - started) * 1e3)
        return took

    return measure


def theirs() -> Any:
    tf = tensorflow()
    kinds = (tf.int64, *[tf.double] * 5, *[tf.int64] * 3, tf.string)
    return tf.data.experimental.SqlDataset("sqlite", sqlite().removeprefix("sqlite:///"), QUERY, kinds).batch(1024)


@cache
def same_as_theirs() -> Any:
    kinds = (np.int64, *[np.float64] * 5, *[np.int64] * 3, str)
    return hr.SqlDataset("sqlite", sqlite().removeprefix("sqlite:///"), QUERY, kinds).batch(1024)


def written(write: Callable[[str], int]) -> Callable[[], int]:
    """All rows into a table of a new file."""

    def job() -> int:
        with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
            return write(f"{folder}/written.db")

    return job


def write_ours(path: str) -> int:
    return hr.Dataset.from_arrow(rows()).write_sql(f"sqlite:///{path}", "bench")


def write_adbc(path: str) -> int:
    from adbc_driver_sqlite import dbapi

    with dbapi.connect(path) as db, db.cursor() as cursor:
        cursor.adbc_ingest("bench", rows(), mode="create")
        db.commit()
    return ROWS


def write_python(path: str) -> int:
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE TABLE bench ({', '.join(rows().column_names)})")
        values = zip(*(column.to_pylist() for column in rows().columns), strict=True)
        db.executemany(f"INSERT INTO bench VALUES ({', '.join('?' * 10)})", values)
    db.close()
    return ROWS


def resume(source: Callable[[], str]) -> Callable[[int], list[float]]:
    """Milliseconds to the first row after a state at row 900,000."""

    def measure(rounds: int) -> list[float]:
        ds = hr.Dataset.from_sql(source(), QUERY, key="id")
        with ds.iterator() as it:
            for _ in range(900_000):
                next(it)
            state = it.state()
        took = []
        for _ in range(rounds):
            started = perf_counter()
            with ds.iterator(state) as again:
                assert next(again)["id"] == 900_000
            took.append((perf_counter() - started) * 1e3)
        return took

    return measure


MEMORY = """
import sys, psutil, headrace as hr
ds = hr.Dataset.from_sql(sys.argv[1], "SELECT * FROM bench", key="id").batch(1024)
me, low, most = psutil.Process(), 0, 0
for i, batch in enumerate(ds):
    if i == 100:
        low = me.memory_info().rss
    if i % 50 == 0:
        most = max(most, me.memory_info().rss)
print((most - low) / 2**20)
"""


def memory(source: Callable[[], str]) -> Callable[[int], list[float]]:
    """Megabytes that a fresh interpreter grows by between a tenth of the rows and all of them."""
    return lambda rounds: [float(fresh("-c", MEMORY, source())) for _ in range(min(rounds, 1))]


@cache
def bigquery() -> Any:
    from tests.databases.bigquery import running

    return _open.enter_context(running(rows(), rows=50_000))


def read_bigquery() -> Any:
    return hr.BigQueryDataset("mine.shop.item", max_streams=2, client=bigquery().client).batch(1024)


def bare_bigquery() -> int:
    from google.cloud.bigquery_storage_v1 import types

    client = bigquery().client()
    asked = types.ReadSession(table="projects/mine/datasets/shop/tables/item", data_format=types.DataFormat.ARROW)
    session = client.create_read_session(parent="projects/mine", read_session=asked, max_stream_count=2)
    schema = pa.ipc.read_schema(pa.py_buffer(session.arrow_schema.serialized_schema))
    total = 0
    for stream in session.streams:
        for message in client.read_rows(stream.name):
            data = message.arrow_record_batch.serialized_record_batch
            total += pa.ipc.read_record_batch(pa.py_buffer(data), schema).num_rows
    return total


ORDERED = f"{QUERY} ORDER BY id"
CASES: list[Case | Bound] = [
    Case("SQLite", {"ADBC": 0.85}, {"headrace": ours(sqlite), "ADBC": bare_adbc("sqlite", sqlite, QUERY)}, ROWS),
    Case(
        "SQLite, key",
        {"ADBC": 0.85},
        {"headrace": ours(sqlite, key="id"), "ADBC": bare_adbc("sqlite", sqlite, ORDERED)},
        ROWS,
    ),
    Case("SQLite, from_sql", {"tf.data": 10}, {"headrace": ours(sqlite), "tf.data": batches(theirs)}, ROWS),
    Case(
        "SQLite, SqlDataset", {"tf.data": 10}, {"headrace": batches(same_as_theirs), "tf.data": batches(theirs)}, ROWS
    ),
    Case(
        "SQLite, write_sql",
        {"ADBC": 0.8},
        {"headrace": written(write_ours), "ADBC": written(write_adbc), "sqlite3": written(write_python)},
        ROWS,
    ),
    Case("DuckDB", {"duckdb": 0.85}, {"headrace": ours(duckdb), "duckdb": bare_duckdb(QUERY)}, ROWS),
    Case("DuckDB, key", {"duckdb": 0.85}, {"headrace": ours(duckdb, key="id"), "duckdb": bare_duckdb(ORDERED)}, ROWS),
    Case(
        "PostgreSQL",
        {"ADBC": 0.85},
        {"headrace": ours(postgres), "ADBC": bare_adbc("postgresql", postgres, QUERY)},
        ROWS,
    ),
    Case(
        "PostgreSQL, key",
        {"ADBC": 0.85},
        {"headrace": ours(postgres, key="id"), "ADBC": bare_adbc("postgresql", postgres, ORDERED)},
        ROWS,
    ),
    Case(
        "PostgreSQL, 2 partitions",
        {"ADBC": 0.85},
        {"headrace": ours(postgres, key="id", partitions=2), "ADBC": bare_adbc("postgresql", postgres, ORDERED)},
        ROWS,
    ),
    Case(
        "MariaDB, key", {"connectorx": 0.85}, {"headrace": ours(mariadb, key="id"), "connectorx": bare_connectorx}, ROWS
    ),
    Case(
        "BigQuery, 2 streams",
        {},
        {"headrace": batches(read_bigquery), "the client": bare_bigquery},
        ROWS,
    ),
    Bound("SQLite, made", None, "ms", making(sqlite)),
    Bound("DuckDB, made", None, "ms", making(duckdb)),
    Bound("PostgreSQL, made", None, "ms", making(postgres)),
    Bound("MariaDB, made", None, "ms", making(mariadb)),
    Bound("SQLite, resume at row 900,000", 50, "ms", resume(sqlite)),
    Bound("PostgreSQL, resume at row 900,000", 50, "ms", resume(postgres)),
    Bound("SQLite, growth", 50, "MB", memory(sqlite), max),
    Bound("PostgreSQL, growth", 50, "MB", memory(postgres), max),
    Bound("MariaDB, growth", 100, "MB", memory(mariadb), max),
]

if __name__ == "__main__":
    sys.exit(main("headrace: databases", CASES, description=__doc__))
