"""MySQL and MariaDB: pages by connectorx if there is a key, else row by row by PyMySQL."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.core.override import override
from headrace.core.types import LibraryObject
from headrace.errors import SpecError
from headrace.sources.sql.database import (
    CLOSE_SECONDS,
    MAX_DECIMAL_DIGITS,
    Database,
    PageReader,
    Params,
    Rows,
    TableView,
    conform_batch,
    driver,
    hexed,
)
from headrace.sources.sql.driver_calls import DriverCall

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH = 1 << 13
"""How many rows make a batch if they come one by one."""
PASSING = {1040, 1053, 1158, 1159, 1160, 1161, 1205, 1213, 1927, 2002, 2003, 2006, 2013, 2014, 2055}
"""Numbers of transient errors: too many connections, shutdowns, broken connections, locks."""
WORDS = ("io error", "ioerror", "connect", "timed out", "gone away", "closed", "reset", "shutdown", "broken pipe")
"""The corresponding messages of connectorx."""
PRIMARY, UNIQUE, UNSIGNED, LISTED, BINARY = 2, 4, 32, 256 | 2048, 63
"""Flags of columns (the fourth of ENUM and SET), and the character set of one that is no text."""
BYTEWISE = ("nopad_bin", "0900_bin", "binary")
"""Suffixes of collations that treat no two texts as equal."""
FOUND_BY_KEY = re.compile(r"'const'|'system'|'eq_ref'|const table")
"""EXPLAIN's output for a table in which a key finds at most one row."""
MAX_CONNECT_SECONDS = 31536000
"""The largest timeout that PyMySQL accepts."""
SCALE = 10
"""The most decimal places of connectorx."""


class MySQL(Database):
    """A server. connectorx has no backpressure, so it reads pages; it cannot bind parameters, so it gets none."""

    extra = "mysql"
    quote = "`"
    shares_view = False

    @property
    def plain_uri(self) -> str:
        """The URI as connectorx knows it."""
        return self.uri.text.replace("mariadb", "mysql", 1) if self.uri.scheme == "mariadb" else self.uri.text

    def connect(self) -> LibraryObject:
        """Return a connection of PyMySQL's."""
        parts = self.uri.parts
        return connection_class()(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 3306,
            user=self.uri.user,
            password=self.uri.password or "",
            database=parts.path.lstrip("/") or None,
            charset="utf8mb4",
            connect_timeout=max(1, min(round(self.timeout), MAX_CONNECT_SECONDS)),
            read_timeout=self.timeout,
            write_timeout=self.timeout,
        )

    def schema(self, query: str, params: Params) -> pa.Schema:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({query}) AS q LIMIT 0", tuple(params) or None)
                return _schema(cursor)
        finally:
            connection.close()

    def pages(self, params: Params, schema: pa.Schema) -> Pages | None:
        import pyarrow as pa

        if params or any(pa.types.is_decimal(kind) and kind.scale > SCALE for kind in schema.types):
            return None
        return Pages(self)

    @override
    def read(self, query: str, params: Params, schema: pa.Schema | None, snapshot: TableView | None = None) -> Rows:
        connection = self.connect()
        try:
            cursor = connection.cursor(driver("pymysql.cursors", self.extra).SSCursor)
            cursor.execute(query, tuple(params) or None)
            known = schema or _schema(cursor)
        except BaseException:
            connection.close()
            raise

        def close() -> None:
            result, cursor._result, connection._result = cursor._result, None, None
            if result is not None:
                result.unbuffered_active = False  # else it would read all the rest
            connection._force_close()

        return Rows(_batches(cursor, known), close, lambda: cut_line(connection))

    def text(self, value: str) -> str:
        return f"_utf8mb4 X'{hexed(value)}'" if value else "''"

    def check_text_key(self, query: str, params: Params, key: str) -> None:
        name = self.name(key)
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {name} FROM ({query}) AS q LIMIT 0", tuple(params) or None)
                flags = cursor._result.fields[0].flags
                one_row = f"SELECT COLLATION({name}) FROM (SELECT 1) AS d LEFT JOIN ({query}) AS q ON FALSE"
                cursor.execute(one_row, tuple(params) or None)
                collation = cursor.fetchone()[0]
                if flags & LISTED:
                    raise SpecError(
                        f"from_sql: key {key!r} is an ENUM or SET, not in the order of text: CAST it to CHAR"
                    )
                if collation.endswith(BYTEWISE) or flags & UNIQUE:
                    return
                if flags & PRIMARY:  # of one column, or of several
                    cursor.execute(f"EXPLAIN SELECT * FROM ({query}) AS q WHERE {name} = ''", tuple(params) or None)
                    if any(FOUND_BY_KEY.search(str(row)) for row in cursor.fetchall()):
                        return
        finally:
            connection.close()
        raise SpecError(
            f"from_sql: key {key!r} has the collation {collation}, to which different texts are the same, so that rows "
            f"could be lost: give it a unique index, or let the query have it as {key} COLLATE utf8mb4_nopad_bin (in "
            f"MySQL, utf8mb4_0900_bin) AS {key}"
        )

    def is_passing(self, error: Exception) -> bool:
        if type(error).__module__.startswith("pymysql"):
            return bool(error.args) and error.args[0] in PASSING
        return isinstance(error, OSError) or any(word in str(error).lower() for word in WORDS)


@cache
def connection_class() -> LibraryObject:
    """PyMySQL's connection; it would read the certificates of the system for each, which takes longer than the rest."""
    base = driver("pymysql.connections", MySQL.extra).Connection

    class Connection(base):  # type: ignore[misc,valid-type]
        tls = None
        """The default without TLS options: no certificate is checked."""

        def _create_ssl_ctx(self, given: object) -> LibraryObject:
            if given:
                return super()._create_ssl_ctx(given)
            if Connection.tls is None:
                Connection.tls = super()._create_ssl_ctx(given)
            return Connection.tls

    return Connection


class Pages(PageReader):
    """Read pages by connectorx, and use a PyMySQL connection to check that the server is alive.

    connectorx reports a server that does not answer only after half a minute. A connection is kept, because making one
    takes as long as some thousand rows.
    """

    def __init__(self, database: MySQL) -> None:
        self._read = driver("connectorx", database.extra).read_sql
        self._uri = database.plain_uri
        self._timeout = database.timeout
        self._knocking = database.connect()
        self._call: DriverCall[pa.Table] | None = None
        self._cancelled = False

    def begin(self, query: str) -> None:
        self._call = DriverCall(lambda: self._fetch(query))
        if self._cancelled:  # before there was a call to give up
            self._call.give_up()

    def _fetch(self, query: str) -> pa.Table:
        self._knocking.ping(reconnect=False)
        return self._read(self._uri, query, return_type="arrow")

    def take(self, schema: pa.Schema) -> list[pa.RecordBatch]:
        assert self._call is not None
        table = self._call.wait(self._timeout)
        return [conform_batch(batch, schema) for batch in table.to_batches()]

    def cancel(self) -> None:
        self._cancelled = True
        cut_line(self._knocking)
        if self._call is not None:
            self._call.give_up()

    def close(self) -> None:
        cut_line(self._knocking)
        if self._call is not None:
            self._call.join(CLOSE_SECONDS)
        self._knocking._force_close()


def cut_line(connection: LibraryObject) -> None:
    """End what waits for the server, in another thread."""
    sock = connection._sock
    if sock is not None:
        with suppress(OSError):  # it may have ended already
            sock.shutdown(socket.SHUT_RDWR)


def _schema(cursor: LibraryObject) -> pa.Schema:
    """Return the columns of a result from the server's description."""
    import pyarrow as pa

    return pa.schema([pa.field(f.name, _kind(f)) for f in cursor._result.fields])


def _kind(field: pa.Field) -> pa.DataType:
    """Return what connectorx makes of a column of this type."""
    import pyarrow as pa

    types = driver("pymysql.constants.FIELD_TYPE", "mysql")
    number, unsigned = field.type_code, bool(field.flags & UNSIGNED)
    whole = {types.TINY: 8, types.SHORT: 16, types.INT24: 32, types.LONG: 32, types.LONGLONG: 64}
    if number == types.YEAR:
        return pa.int16()
    if number in whole:
        return getattr(pa, f"{'u' if unsigned else ''}int{whole[number]}")()
    if number in (types.FLOAT, types.DOUBLE):
        return pa.float32() if number == types.FLOAT else pa.float64()
    if number in (types.DECIMAL, types.NEWDECIMAL):
        digits = field.length - (not unsigned) - (field.scale > 0)
        return (
            pa.decimal128(min(digits, MAX_DECIMAL_DIGITS), field.scale) if digits <= MAX_DECIMAL_DIGITS else pa.string()
        )
    if number in (types.TIMESTAMP, types.DATETIME):
        return pa.timestamp("us")
    if number in (types.DATE, types.NEWDATE):
        return pa.date32()
    if number == types.TIME:
        return pa.time64("us")
    binary = field.charsetnr == BINARY or number in (types.BIT, types.GEOMETRY)
    return pa.large_binary() if binary and number != types.JSON else pa.string()


def _batches(cursor: LibraryObject, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    while rows := cursor.fetchmany(ROWS_PER_BATCH):
        columns = [_array(values, kind) for values, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_time64(kind):  # which PyMySQL has as a timedelta
        return pa.array(values, pa.duration("us")).cast(pa.int64()).cast(kind)
    if pa.types.is_string(kind):
        values = tuple(str(v) if v is not None and not isinstance(v, str | bytes) else v for v in values)
    return pa.array(values, kind)
