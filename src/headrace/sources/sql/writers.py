"""Write rows to tables, in one transaction."""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from headrace import _native
from headrace.errors import SpecError
from headrace.formats.tables.damage import check_text
from headrace.sources.sql.database import Database, driver
from headrace.sources.sql.duckdb import DuckDB
from headrace.sources.sql.mysql import MySQL
from headrace.sources.sql.sqlite import Sqlite, arrow_types, ask_sqlite, find_library

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_INSERT = 1000
"""How many rows one INSERT has."""


class Writer(ABC):
    """A table that is being filled; `first` until rows have come."""

    def __init__(self, database: Database, table: str, if_exists: str) -> None:
        self.database: Database = database
        self.table: str = table
        self.if_exists: str = if_exists
        self.first = True

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Write some more rows."""

    @abstractmethod
    def commit(self) -> None:
        """Commit all that was written."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection; what was not committed has never been."""


@contextmanager
def writer_of(database: Database, table: str, if_exists: str) -> Iterator[Writer]:
    """Yield a writer, committed in the end unless something was raised."""
    kinds: dict[type, type[Writer]] = {MySQL: MySQLWriter, DuckDB: DuckDBWriter, Sqlite: SqliteWriter}
    writer = kinds.get(type(database), PostgresWriter)(database, table, if_exists)
    try:
        yield writer
        writer.commit()
    finally:
        writer.close()


class PostgresWriter(Writer):
    """PostgreSQL, whose driver takes Arrow tables."""

    def __init__(self, database: Database, table: str, if_exists: str) -> None:
        super().__init__(database, table, if_exists)
        self._connection = driver("adbc_driver_postgresql.dbapi", database.extra).connect(database.uri.text)
        self._cursor = self._connection.cursor()

    def write(self, rows: pa.Table) -> None:
        later = "append" if self.if_exists == "append" else None
        mode = "append" if not self.first else later or {"fail": "create", "replace": "replace"}[self.if_exists]
        if mode == "append" and self.first:
            mode = "create_append"
        self._cursor.adbc_ingest(self.table, small(rows), mode=mode)
        self.first = False

    def commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        with suppress(Exception):
            self._connection.rollback()
        with suppress(Exception):
            self._cursor.close()
        self._connection.close()


class SqliteWriter(Writer):
    """SQLite, by Python's library: readers in this process respect its locks."""

    def __init__(self, database: Database, table: str, if_exists: str) -> None:
        super().__init__(database, table, if_exists)
        find_library()
        self._connection = _native.Sqlite(os.fsencode(database.uri.path or ":memory:"), create=True)
        ask_sqlite(self._connection, "BEGIN")

    def write(self, rows: pa.Table) -> None:
        into = self.database.name(self.table)
        fields = [(self.database.name(field.name), sqlite_type(field)) for field in rows.schema]
        if self.first:
            if self.if_exists == "replace":
                ask_sqlite(self._connection, f"DROP TABLE IF EXISTS {into}")
            how = "CREATE TABLE IF NOT EXISTS" if self.if_exists == "append" else "CREATE TABLE"
            ask_sqlite(self._connection, f"{how} {into} ({', '.join(map(' '.join, fields))})")
        self.first = False
        names, marks = ", ".join(name for name, _ in fields), ", ".join("?" * len(fields))
        columns = [sqlite_column(column) for column in small(rows).combine_chunks().columns]
        self._connection.insert(f"INSERT INTO {into} ({names}) VALUES ({marks})", columns, rows.num_rows)

    def commit(self) -> None:
        ask_sqlite(self._connection, "COMMIT")

    def close(self) -> None:
        self._connection.close()


class DuckDBWriter(Writer):
    """DuckDB, which reads Arrow tables without a copy."""

    def __init__(self, database: Database, table: str, if_exists: str) -> None:
        super().__init__(database, table, if_exists)
        self._connection = driver("duckdb", database.extra).connect(database.uri.path)
        self._connection.execute("BEGIN")

    def write(self, rows: pa.Table) -> None:
        name = self.database.name(self.table)
        self._connection.register("headrace_rows", rows)
        if self.first:
            how = {"fail": "CREATE TABLE", "replace": "CREATE OR REPLACE TABLE", "append": "CREATE TABLE IF NOT EXISTS"}
            self._connection.execute(f"{how[self.if_exists]} {name} AS SELECT * FROM headrace_rows LIMIT 0")
        self._connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM headrace_rows")
        self._connection.unregister("headrace_rows")
        self.first = False

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class MySQLWriter(Writer):
    """MySQL and MariaDB, in which CREATE TABLE ends a transaction: fill a new table, then rename it at once."""

    def __init__(self, database: Database, table: str, if_exists: str) -> None:
        super().__init__(database, table, if_exists)
        assert isinstance(database, MySQL)
        self._connection = database.connect()
        self._cursor = self._connection.cursor()
        there = self._exists()
        if there and if_exists == "fail":
            raise ValueError(f"there is a table {table!r} already")
        self._drop_leftovers()
        token = secrets.token_hex(6)
        self._fills = table if there and if_exists == "append" else f"{self._prefix}{token}"
        self._hold(token)

    @property
    def _prefix(self) -> str:
        return f"{self.table[:40]}_"

    @property
    def _note(self) -> str:
        return f"rows that headrace writes to {self.table}"

    def _hold(self, token: str) -> bool:
        """Take the lock of this name for the lifetime of this connection. Return whether it was free."""
        with suppress(self._connection.Error):  # without such locks it is unknown
            self._cursor.execute("SELECT GET_LOCK(%s, 0)", (f"headrace.{token}",))
            return bool(self._cursor.fetchone() == (1,))
        return False

    def _drop_leftovers(self) -> None:
        """Drop the tables of writers that were killed: by their names and notes theirs, by their locks in no use."""
        asked = "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = DATABASE()"
        self._cursor.execute(f"{asked} AND LEFT(table_name, %s) = %s", (len(self._prefix), self._prefix))
        for name, note in self._cursor.fetchall():
            left = re.fullmatch(re.escape(self._prefix) + "([0-9a-f]{12})(_old)?", name)
            if left and (note == self._note or left[2]) and self._hold(left[1]):
                self._cursor.execute(f"DROP TABLE IF EXISTS {self.database.name(name)}")
                self._cursor.execute("SELECT RELEASE_LOCK(%s)", (f"headrace.{left[1]}",))

    def _exists(self) -> bool:
        asked = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s"
        return bool(self._cursor.execute(asked, (self.table,)))

    def write(self, rows: pa.Table) -> None:
        rows = small(rows)
        into, *names = (self.database.name(n).replace("%", "%%") for n in (self._fills, *rows.schema.names))
        if self.first and self._fills != self.table:
            kinds = [mysql_type(field) for field in rows.schema]
            columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
            self._cursor.execute(f"CREATE TABLE {into} ({columns}) CHARACTER SET utf8mb4 COMMENT %s", (self._note,))
        self.first = False
        asked = f"INSERT INTO {into} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
        for batch in rows.to_batches(max_chunksize=ROWS_PER_INSERT):
            self._cursor.executemany(asked, list(zip(*(c.to_pylist() for c in batch.columns), strict=True)))

    def commit(self) -> None:
        self._connection.commit()
        if self.first or self._fills == self.table:
            return
        new, name, old = (self.database.name(n) for n in (self._fills, self.table, f"{self._fills}_old"))
        replaced = f"{name} TO {old}, " if self.if_exists == "replace" and self._exists() else ""
        self._cursor.execute(f"ALTER TABLE {new} COMMENT ''")
        self._cursor.execute(f"RENAME TABLE {replaced}{new} TO {name}")
        self._fills = self.table
        if replaced:
            self._cursor.execute(f"DROP TABLE {old}")

    def close(self) -> None:
        with suppress(Exception):  # of a connection that is broken nothing more is to be heard
            self._connection.rollback()
            if self._fills != self.table:
                self._cursor.execute(f"DROP TABLE IF EXISTS {self.database.name(self._fills)}")
        with suppress(Exception):
            self._connection.close()


def small(rows: pa.Table) -> pa.Table:
    """Return a table of types that databases have: signed numbers, text and lists of 32-bit offsets."""
    import pyarrow as pa

    schema = pa.schema([pa.field(field.name, _small(field.type)) for field in rows.schema])
    try:
        return rows if schema == rows.schema else rows.cast(schema)
    except pa.ArrowInvalid as error:
        raise SpecError(f"write_sql: {error}: map it to numbers of 64 bits") from None


def _small(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    from pyarrow import types as t

    plain = {
        pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.uint8(): pa.int16(), pa.int8(): pa.int16(),
        pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64(), pa.float16(): pa.float32(),
    }  # fmt: skip
    if t.is_large_list(kind) or t.is_fixed_size_list(kind) or t.is_list(kind):
        return pa.list_(_small(kind.value_type))
    return plain.get(kind, kind)


def sqlite_type(field: pa.Field) -> str:
    """Return what SQLite calls a column of this type."""
    from pyarrow import types as t

    for is_it, name in (
        (t.is_boolean, "INTEGER"), (t.is_integer, "INTEGER"), (t.is_floating, "REAL"), (t.is_string, "TEXT"),
        (t.is_large_string, "TEXT"), (t.is_binary, "BLOB"), (t.is_large_binary, "BLOB"), (t.is_timestamp, "TEXT"),
        (t.is_date, "TEXT"),
    ):  # fmt: skip
        if is_it(field.type):
            return name
    raise SpecError(f"write_sql: column {field.name!r} is {field.type}, which SQLite has nothing like: map it to text")


def sqlite_column(column: pa.ChunkedArray) -> tuple[int, Any, Any, Any, int]:
    """Return a column as the kernel takes it, of values that SQLite has: days and times are text, as its functions read
    it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.replace_substring(column.cast(pa.timestamp(kind.unit)).cast(pa.string()), " ", "T")
    elif pa.types.is_date(kind):
        column = column.cast(pa.string())
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    array = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
    check_text(array)
    valid, *offsets, values = array.buffers()
    return arrow_types().index(array.type), valid, offsets[0] if offsets else None, values, array.offset


def mysql_type(field: pa.Field) -> str:
    """Return what MySQL calls a column of this type."""
    from pyarrow import types as t

    kind = field.type
    if t.is_integer(kind):
        return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[kind.bit_width]
    for is_it, name in (
        (t.is_boolean, "BOOLEAN"), (t.is_float32, "FLOAT"), (t.is_float64, "DOUBLE"), (t.is_string, "LONGTEXT"),
        (t.is_binary, "LONGBLOB"), (t.is_timestamp, "DATETIME(6)"), (t.is_date, "DATE"), (t.is_time, "TIME(6)"),
    ):  # fmt: skip
        if is_it(kind):
            return name
    raise SpecError(f"write_sql: column {field.name!r} is {kind}, which MySQL has nothing like: map it to text")
