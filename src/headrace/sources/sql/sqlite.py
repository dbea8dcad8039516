"""SQLite, by its ADBC driver."""

from __future__ import annotations

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

    def connect(self) -> Any:
        """A connection that reads."""
        path = self.uri.path
        if path and path != ":memory:" and not Path(path).exists():
            raise FileNotFoundError(f"there is no file {path!r}")
        return driver("adbc_driver_sqlite.dbapi", self.extra).connect(path or ":memory:")

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

    def read(self, query: str, params: Params, schema: pa.Schema | None, snapshot: TableView | None = None) -> Rows:  # noqa: ARG002
        connection = self.connect()
        try:
            cursor = connection.cursor()
            reader = self._begin(cursor, query, params)
        except BaseException:
            connection.close()
            raise

        def close() -> None:
            reader.close()
            cursor.close()
            connection.close()

        return Rows((b if schema is None else conform_batch(b, schema) for b in reader), close)

    def text(self, value: str) -> str:
        return f"CAST(X'{hexed(value)}' AS TEXT)"

    def is_passing(self, error: Exception) -> bool:
        said = str(error).lower()
        return "locked" in said or "busy" in said
