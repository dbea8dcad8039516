"""DuckDB, which runs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.override import override
from headrace.core.types import LibraryObject
from headrace.sources.sql.arrow_ahead import ArrowAhead
from headrace.sources.sql.database import Database, Params, Rows, TableView, driver, hexed

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH = 1 << 14


class DuckDB(Database):
    """A file, read by any number of processes; or no file at all, for queries on other files."""

    extra = "duckdb"

    def connect(self) -> LibraryObject:
        """Return a read-only connection, or one like the existing one if this process writes to the same file."""
        module = driver("duckdb", self.extra)
        path = self.uri.path
        if path in ("", ":memory:"):
            return module.connect(":memory:")
        try:
            return module.connect(path, read_only=True)
        except module.ConnectionException:  # it is open here with another configuration
            return module.connect(path)

    def schema(self, query: str, params: Params) -> pa.Schema:
        rows = self._reader(self.connect(), f"SELECT * FROM ({query}) AS q LIMIT 0", params)
        return rows.schema

    @staticmethod
    def _reader(connection: LibraryObject, query: str, params: Params) -> LibraryObject:
        found = connection.sql(query, params=list(params)) if params else connection.sql(query)
        read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        return read(ROWS_PER_BATCH)

    @override
    def read(self, query: str, params: Params, schema: pa.Schema | None, snapshot: TableView | None = None) -> Rows:
        connection = self.connect()
        try:
            reader = self._reader(connection, query, params)
        except BaseException:
            connection.close()
            raise

        batches = ArrowAhead(reader)

        def close() -> None:
            connection.interrupt()
            batches.close()
            connection.close()

        return Rows(iter(batches), close, connection.interrupt)

    @override
    def snapshot(self, parts: int) -> TableView | None:
        return HeldFile(self.connect())

    def text(self, value: str) -> str:
        return f"decode(from_hex('{hexed(value)}'))"

    def exact_text(self, expression: str) -> str:
        return f"{expression} COLLATE C"

    def is_passing(self, error: Exception) -> bool:
        return "Could not set lock" in str(error)


class HeldFile(TableView):
    """A connection that keeps other processes from writing to a file while parts of it are read."""

    def __init__(self, connection: LibraryObject) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.close()
