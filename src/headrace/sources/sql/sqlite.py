"""SQLite, by the library that Python itself has."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.core.override import override
from headrace.core.types import Component, JsonValue
from headrace.errors import SpecError
from headrace.sources.sql.database import Database, Params, Rows, SqlRow, TableView, hexed

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH, MAX_BATCH_BYTES = 1 << 14, 16 << 20
"""Rows per batch, or about this many bytes.

As many rows determine the types of columns, because only values have types.
"""
KINDS = ("INTEGER", "REAL", "TEXT", "BLOB")
"""SQLite's names of value types; a column has the last of these that occurs in the first rows."""


class Sqlite(Database):
    """A file; a file that is not there is an error, not a new database."""

    extra = "sqlite"

    def connect(self, *, lock: bool = False) -> _native.Sqlite:
        """Open a read-only connection; it may still roll back a broken transaction, or keep others from writing."""
        path = self.uri.path or ":memory:"
        if path != ":memory:" and not Path(path).exists():
            raise FileNotFoundError(f"there is no file {path!r}")
        find_library()
        connection = _native.Sqlite(os.fsencode(path))
        if not lock:
            ask_sqlite(connection, "PRAGMA query_only = on")
        return connection

    def schema(self, query: str, params: Params) -> pa.Schema:
        import pyarrow as pa

        with closing(self.connect()) as connection:
            connection.prepare(query, plain_params(params))
            kinds = connection.guess(ROWS_PER_BATCH)
            return pa.schema([pa.field(n, arrow_types()[k]) for n, k in zip(connection.names(), kinds, strict=True)])

    def columns(self, query: str) -> list[str]:
        """Return the names of a query's columns."""
        with closing(self.connect()) as connection:
            connection.prepare(query, [])
            return connection.names()

    def read(self, query: str, params: Params, schema: pa.Schema | None, snapshot: TableView | None = None) -> Rows:
        return self._begin(query, params, self.schema(query, params) if schema is None else schema, snapshot)

    def convert(self, query: str, schema: pa.Schema) -> Rows:
        """Return the rows of a query, each value converted as SQLite does it; what is missing is 0, or nothing."""
        return self._begin(query, (), schema, convert=True)

    def _begin(
        self,
        query: str,
        params: Params,
        schema: pa.Schema,
        snapshot: TableView | None = None,
        *,
        convert: bool = False,
    ) -> Rows:
        assert snapshot is None or isinstance(snapshot, Readers)
        connection = self.connect() if snapshot is None else snapshot.take()
        let_go = connection.close if snapshot is None else partial(snapshot.give_back, connection)
        try:
            connection.prepare(query, plain_params(params))
        except BaseException:
            let_go()
            raise
        return Rows(_batches(connection, schema, convert=convert), let_go, connection.interrupt)

    @override
    def rows(self, query: str, params: Params, view: TableView | None = None) -> list[SqlRow]:
        with closing(self.connect()) as connection:
            return ask_sqlite(connection, query, params)

    def snapshot(self, parts: int) -> TableView | None:
        return Readers(self, parts)

    def text(self, value: str) -> str:
        return f"CAST(X'{hexed(value)}' AS TEXT)"

    def exact_text(self, expression: str) -> str:
        return f"{expression} COLLATE BINARY"

    def is_passing(self, error: Exception) -> bool:
        said = str(error).lower()
        return "locked" in said or "busy" in said


@cache
def find_library() -> None:
    """Let the kernels use Python's own SQLite: a second one in the process would lose the locks of the first."""
    if sqlite3.threadsafety == 0:
        raise ImportError("the SQLite of this Python is made for one thread")
    import _sqlite3

    if _native.find_sqlite(getattr(_sqlite3, "__file__", None) or ""):
        return
    try:  # its names are hidden in Python; to what it loads it shows its functions
        with closing(sqlite3.connect(":memory:")) as db:
            db.enable_load_extension(True)
            db.execute("SELECT load_extension(?, 'headrace_sqlite_init')", (_native.__file__,))
    except (AttributeError, sqlite3.Error):
        raise ImportError(
            "the SQLite of this Python is out of reach: have a Python that is linked with libsqlite3, or one whose "
            "sqlite3 can load extensions"
        ) from None


def arrow_types() -> tuple[pa.DataType, ...]:
    """Return what values of each kind are read as."""
    import pyarrow as pa

    return pa.int64(), pa.float64(), pa.string(), pa.binary()


def ask_sqlite(connection: _native.Sqlite, query: str, params: Params = ()) -> list[SqlRow]:
    """Return the rows of a small query."""
    connection.prepare(query, plain_params(params))
    return connection.values()


def plain_params(params: Params) -> list[Component]:
    """Parameters as values that SQLite has."""
    return [_plain(value) for value in params]


def _plain(value: object) -> JsonValue:
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if value is not None and not isinstance(value, int | float | str | bytes):
        raise TypeError(f"from_sql: SQLite has nothing like a {type(value).__name__}: give a number, text or bytes")
    return value


def _batches(connection: _native.Sqlite, schema: pa.Schema, *, convert: bool) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    kinds = [arrow_types().index(kind) for kind in schema.types]
    done = False
    while not done:
        columns, rows, done, misfit = connection.fetch(kinds, ROWS_PER_BATCH, MAX_BATCH_BYTES, convert)
        if rows:
            arrays = [_array(kind, rows, buffers) for kind, buffers in zip(schema.types, columns, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if misfit is not None:
            column, found = misfit
            raise SpecError(
                f"column {schema.names[column]!r} holds {KINDS[found]} but held {KINDS[kinds[column]]} at first: "
                "CAST it in the query"
            )


def _array(kind: pa.DataType, rows: int, buffers: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    valid, offsets, values = (None if each is None else pa.py_buffer(each) for each in buffers)
    return pa.Array.from_buffers(kind, rows, [valid, values] if offsets is None else [valid, offsets, values])


class Readers(TableView):
    """Connections whose transactions began at one moment, during which no other connection could write."""

    def __init__(self, database: Sqlite, count: int) -> None:
        self._lock = threading.Lock()
        self._idle: list[_native.Sqlite] = []
        self._closed = False
        try:
            with closing(database.connect(lock=True)) as writer:
                # Else no other connection can write during a read.
                if ask_sqlite(writer, "PRAGMA journal_mode") == [("wal",)]:
                    ask_sqlite(writer, "BEGIN IMMEDIATE")
                for _ in range(count):
                    self._add(database)
        except BaseException:
            self.close()
            raise

    def _add(self, database: Sqlite) -> None:
        connection = database.connect()
        self._idle.append(connection)
        ask_sqlite(connection, "BEGIN")
        ask_sqlite(connection, "SELECT count(*) FROM sqlite_schema")  # with which the transaction has its view

    def take(self) -> _native.Sqlite:
        """Return an unused one."""
        with self._lock:
            return self._idle.pop()

    def give_back(self, connection: _native.Sqlite) -> None:
        """Give back what was taken."""
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed, idle = True, self._idle
            self._idle = []
        for connection in idle:
            connection.close()
