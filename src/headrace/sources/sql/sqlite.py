"""SQLite, by its ADBC driver."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.sources.sql.database import Database, Params, Rows, TableView, conform_batch, driver, hexed

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1 << 14
"""So many rows a batch. The first one tells of which types columns are, since SQLite has none but those of values."""


class Sqlite(Database):
    """A file; a file that is not there is an error, not a new database."""

    extra = "sqlite"

    def connect(self, *, autocommit: bool = False) -> Any:
        """A connection that reads, of this driver alone: two copies of SQLite in a process lose each other's locks."""
        path = self.uri.path
        if path and path != ":memory:" and not Path(path).exists():
            raise FileNotFoundError(f"there is no file {path!r}")
        return driver("adbc_driver_sqlite.dbapi", self.extra).connect(path or ":memory:", autocommit=autocommit)

    def schema(self, query: str, params: Params) -> pa.Schema:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                return self._begin(cursor, query, params).schema
        finally:
            connection.close()

    @staticmethod
    def _begin(cursor: Any, query: str, params: Params) -> Any:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH)})
        cursor.execute(query, params or None)
        return cursor.fetch_record_batch()

    def read(self, query: str, params: Params, schema: pa.Schema | None, snapshot: TableView | None = None) -> Rows:
        assert snapshot is None or isinstance(snapshot, Readers)
        connection = self.connect() if snapshot is None else snapshot.take()
        let_go = connection.close if snapshot is None else partial(snapshot.give_back, connection)
        try:
            cursor = connection.cursor()
            reader = self._begin(cursor, query, params)
        except BaseException:
            let_go()
            raise

        def close() -> None:
            reader.close()
            cursor.close()
            let_go()

        return Rows((b if schema is None else conform_batch(b, schema) for b in reader), close)

    def snapshot(self, parts: int) -> TableView | None:
        return Readers(self, parts)

    def text(self, value: str) -> str:
        return f"CAST(X'{hexed(value)}' AS TEXT)"

    def exact_text(self, expression: str) -> str:
        return f"{expression} COLLATE BINARY"

    def is_passing(self, error: Exception) -> bool:
        said = str(error).lower()
        return "locked" in said or "busy" in said


class Readers(TableView):
    """Connections whose transactions began in one moment, in which nobody could write."""

    def __init__(self, database: Sqlite, count: int) -> None:
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._closed = False
        try:
            with closing(database.connect(autocommit=True)) as writer, writer.cursor() as cursor:
                cursor.execute("PRAGMA journal_mode")
                if cursor.fetchall() == [("wal",)]:  # else nobody can write while one reads
                    cursor.executescript("BEGIN IMMEDIATE")
                for _ in range(count):
                    self._add(database)
        except BaseException:
            self.close()
            raise

    def _add(self, database: Sqlite) -> None:
        connection = database.connect()
        self._idle.append(connection)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM sqlite_schema")  # with which the transaction has its view
            cursor.fetchall()

    def take(self) -> Any:
        """One that nobody uses."""
        with self._lock:
            return self._idle.pop()

    def give_back(self, connection: Any) -> None:
        """What was taken."""
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
