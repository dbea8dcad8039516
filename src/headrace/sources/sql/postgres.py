"""PostgreSQL, by its ADBC driver: COPY if there are no parameters, else a cursor."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.core.override import override
from headrace.core.types import Component, LibraryObject
from headrace.errors import SpecError
from headrace.sources.sql.database import MAX_DECIMAL_DIGITS, Database, Params, Rows, SqlRow, TableView, driver
from headrace.sources.sql.driver_calls import DriverCall, call_in_time

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
BATCH_BYTES = 2 << 20
"""The size of a batch: the consumer waits for the first one."""
ROWS_PER_FETCH = 1 << 16
"""How many rows are fetched from a cursor at a time."""
PASSING = re.compile("08|53|57|58|40001|40P01|25006|55P03")
"""Prefixes of transient SQLSTATE codes: connections, resources, shutdowns, conflicts, locks."""
LASTING = ("authentication failed", "does not exist", "no pg_hba.conf", "role", "not permitted")
"""Server messages about denied access, which a retry does not help."""
TEXTS = ("text", "character varying", "name")
"""Types that sort like their text."""
CANCEL_SECONDS = 2.0
"""How long a server may take to accept the cancellation of a query."""
NUMERIC_HEADER = 4


class Postgres(Database):
    """A server."""

    extra = "postgres"

    def connect(self) -> LibraryObject:
        """Return a connection in a transaction that reads."""
        return self.set_up(self.begin_connecting(), None)

    def begin_connecting(self) -> DriverCall[Any]:
        """Start a connection."""
        connect = driver("adbc_driver_postgresql.dbapi", self.extra).connect
        return DriverCall(lambda: connect(self.uri.text), close_late)

    def set_up(self, connecting: DriverCall[Any], snapshot: str | None) -> LibraryObject:
        """Return a connection that is in progress, in a transaction that reads, and sees what others do if they have a
        view.
        """
        connection = connecting.wait(self.timeout)
        call_in_time(lambda: _begin_reading(connection, snapshot), connection.close, self.timeout)
        return connection

    @override
    def schema(self, query: str, params: Params) -> pa.Schema:  # which are not needed to know it
        return self.ask(lambda connection: plain_schema(_schema_of(connection, query)))

    def ask(self, work: Callable[[Any], T]) -> T:
        """Return what is done with a connection, if it is in time."""
        connection = self.connect()
        found = call_in_time(lambda: work(connection), connection.close, self.timeout)
        connection.close()
        return found

    def read(self, query: str, params: Params, schema: pa.Schema | None, snapshot: TableView | None = None) -> Rows:
        assert snapshot is None or isinstance(snapshot, Exported)
        connection = self.connect() if snapshot is None else snapshot.connect()
        cursor = connection.cursor()

        def close() -> None:
            cursor.close()
            connection.close()

        def begin() -> Iterator[pa.RecordBatch]:
            if params:
                ask_server(connection, f"DECLARE headrace_rows NO SCROLL CURSOR FOR {query}", params)
                return self._fetched(cursor)
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})
            cursor.execute(query)
            return iter(cursor.fetch_record_batch())

        def cancel() -> None:
            DriverCall(cursor.adbc_cancel).wait(CANCEL_SECONDS)  # which uses a separate connection

        batches = call_in_time(begin, close, self.timeout)
        return Rows((plain_batch(b, schema) for b in batches), close, cancel, ahead=True, timeout=self.timeout)

    @staticmethod
    def _fetched(cursor: LibraryObject) -> Iterator[pa.RecordBatch]:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        while True:
            cursor.execute(f"FETCH {ROWS_PER_FETCH} FROM headrace_rows")
            rows = 0
            for batch in cursor.fetch_record_batch():
                rows += batch.num_rows
                yield batch
            if rows < ROWS_PER_FETCH:
                return

    def rows(self, query: str, params: Params, view: TableView | None = None) -> list[SqlRow]:
        return view.rows(query, params) if isinstance(view, Exported) else super().rows(query, params)

    def settle(self, schema: pa.Schema, cast: Mapping[str, object]) -> pa.Schema:
        import pyarrow as pa

        for i, field in enumerate(schema):
            if isinstance(field.type, pa.OpaqueType):
                if field.name not in cast:
                    raise SpecError(
                        f"column {field.name!r} is numeric, of any number of digits: "
                        f"cast={{{field.name!r}: np.float64}} takes the nearest, {{{field.name!r}: str}} all of them"
                    )
                schema = schema.set(i, pa.field(field.name, pa.string()))
        return schema

    def text(self, value: str) -> str:
        return "U&'" + "".join(f"\\+{ord(letter):06x}" for letter in value) + "'"  # of no collation, as functions are

    def check_text_key(self, query: str, params: Params, key: str) -> None:
        name = self.name(key)
        collation = f"SELECT collisdeterministic FROM pg_collation WHERE oid = pg_collation_for({name})::regcollation"
        one_row = f"(SELECT 1) AS d LEFT JOIN ({query}) AS q ON false"
        asked = f"SELECT pg_typeof({name})::text, ({collation})::text FROM {one_row}"
        ((kind, exact),) = self.ask(lambda connection: ask_server(connection, asked, params))
        if kind not in TEXTS or exact == "false":
            what = f"{kind}, with a collation that takes different texts for the same" if kind in TEXTS else kind
            raise SpecError(
                f"from_sql: key {key!r} is {what}, so that rows could be lost: let the query have it as "
                f'CAST({key} AS text) COLLATE "C" AS {key}'
            )

    def snapshot(self, parts: int) -> TableView | None:
        return Exported(self, parts)

    def is_passing(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None)
        if state:
            return PASSING.match(state) is not None
        said = str(error)
        return isinstance(error, OSError) or ("connect" in said and not any(word in said for word in LASTING))


def _begin_reading(connection: object, snapshot: str | None) -> None:
    if snapshot is not None:
        ask_server(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ask_server(connection, f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    ask_server(connection, "SET LOCAL synchronize_seqscans = off")  # so that a query gives its rows in one order


def close_late(connection: LibraryObject) -> None:
    """Close a connection that was opened after its caller stopped waiting."""
    if connection is not None:
        connection.close()


def _schema_of(connection: LibraryObject, query: str) -> LibraryObject:
    with connection.cursor() as cursor:
        return cursor.adbc_execute_schema(query)


def ask_server(connection: LibraryObject, query: str, params: Params = ()) -> list[Component]:
    """Return the rows of a small statement."""
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(query, params or None)
        return cursor.fetchall() if cursor.description else []


def export_snapshot(connection: LibraryObject) -> str:
    """Return the name of a view that others can have."""
    connection.rollback()
    ask_server(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    ((name,),) = ask_server(connection, "SELECT pg_export_snapshot()")
    return str(name)


class Exported(TableView):
    """A view that lives as long as the connection that exported it; after a break there is another one.

    The connections of all parts are started at the beginning: making one takes as long as reading 50,000 rows.
    """

    def __init__(self, database: Postgres, parts: int) -> None:
        self._database = database
        self._connecting = [database.begin_connecting() for _ in range(parts)]
        self._connection: LibraryObject = None
        self._name = ""
        self._lock = threading.Lock()

    def connect(self) -> LibraryObject:
        """Return a connection that has this view."""
        name = self._exported_name()
        try:
            connecting = self._connecting.pop()
        except IndexError:  # a part is opened once more
            connecting = self._database.begin_connecting()
        try:
            return self._database.set_up(connecting, name)
        except BaseException:  # the others may be as old, and as broken
            self._drop_connections()
            raise

    def _exported_name(self) -> str:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and not self._is_there(connection):
                connection = None
            self._connection = connection or self._export()
            return self._name

    def rows(self, query: str, params: Params) -> list[SqlRow]:
        """Return the rows of a small query in this view."""
        with self._lock:
            connection, self._connection = self._connection or self._export(), None
            ask = partial(ask_server, connection, query, params)
            found = call_in_time(ask, connection.close, self._database.timeout)
            self._connection = connection
            return found

    def _export(self) -> LibraryObject:
        connection = self._database.connect()
        export = partial(export_snapshot, connection)
        self._name = call_in_time(export, connection.close, self._database.timeout)
        return connection

    def _is_there(self, connection: LibraryObject) -> bool:
        """Return whether the server still answers; what does not is closed."""
        try:
            call_in_time(lambda: ask_server(connection, "SELECT 1"), connection.close, self._database.timeout)
        except TimeoutError:
            raise
        except Exception:  # the connection is no more
            return False
        return True

    def _drop_connections(self) -> None:
        dropped, self._connecting = self._connecting, []
        for connecting in dropped:
            connecting.drop()

    def close(self) -> None:
        self._drop_connections()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the types that rows are read as: a numeric is a decimal of the digits that it was declared with."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _plain(field)) for field in schema])


def _plain(field: pa.Field) -> pa.DataType:
    import pyarrow as pa

    kind = field.type
    if not isinstance(kind, pa.OpaqueType):
        return kind
    if kind.type_name != "numeric":
        return kind.storage_type
    declared = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1"))
    if declared < NUMERIC_HEADER:  # of any number of digits, so read as text
        return kind
    digits, places = (declared - NUMERIC_HEADER) >> 16 & 0xFFFF, (declared - NUMERIC_HEADER) & 0x7FF
    return pa.decimal128(digits, places) if digits <= MAX_DECIMAL_DIGITS and places <= digits else kind


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema | None) -> pa.RecordBatch:
    """Return a batch of these types."""
    import pyarrow as pa

    if not any(isinstance(kind, pa.OpaqueType) for kind in batch.schema.types):
        return batch
    wanted = batch.schema if schema is None else schema
    columns = []
    for column, field in zip(batch.columns, wanted, strict=True):
        stored = column.storage if isinstance(column.type, pa.OpaqueType) else column
        columns.append(stored if isinstance(field.type, pa.OpaqueType) else stored.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, names=wanted.names)
