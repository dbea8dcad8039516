"""The rows of a query through a connection that the user has opened: DBAPI, ADBC, SQLAlchemy."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.override import override
from headrace.core.types import LibraryObject, Reduced
from headrace.errors import SpecError
from headrace.formats.tables.choice import Choice
from headrace.sources.batches import BatchSource, Mark
from headrace.sources.sql.database import conform_batch

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_ROWS = 4096
SCHEMES = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mariadb", "sqlite": "sqlite", "duckdb": "duckdb"}


def uri_of(connection: LibraryObject) -> str | None:
    """The URI under which the same database can be opened again; None if only this connection reaches it.

    With a URI every pass has connections of its own: then rows are read ahead, and keys, partitions and indexes work.
    """
    engine = getattr(connection, "engine", connection)
    url = getattr(engine, "url", None)
    if url is not None and hasattr(url, "render_as_string"):  # SQLAlchemy's Engine, Connection or Session
        scheme = SCHEMES.get(str(url.drivername).partition("+")[0])
        if scheme is None or (scheme == "sqlite" and url.database in (None, "", ":memory:")):
            return None
        _, _, rest = url.render_as_string(hide_password=False).partition("://")
        return f"{scheme}://{rest}"
    if type(connection).__module__ == "sqlite3":
        files = [row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main"]
        return f"sqlite:///{files[0]}" if files and files[0] else None
    return None


def dbapi_of(connection: object) -> LibraryObject:
    """Return the object with `cursor()`. Raise TypeError if there is none."""
    engine = getattr(connection, "engine", None)
    if engine is not None and hasattr(engine, "raw_connection"):
        found = getattr(connection, "connection", None)
        return getattr(found, "driver_connection", None) or found or engine.raw_connection().driver_connection
    if hasattr(connection, "raw_connection"):
        return connection.raw_connection().driver_connection
    if callable(getattr(connection, "cursor", None)):
        return connection
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise TypeError(
        f"from_sql: connection= takes an open DBAPI or ADBC connection, or one of SQLAlchemy, not {kind}; "
        "an asynchronous one has no cursor that can be read here: give a URI"
    )


class ConnectionSource(BatchSource):
    """One part: the query runs on the user's connection, in each pass anew. A mark is the number of rows before it."""

    name = "from_sql"

    def __init__(self, connection: object, query: str, params: Sequence[object], choice: Choice) -> None:
        self._connection = dbapi_of(connection)
        self._query = query
        self._params = tuple(params)
        self._lock = threading.Lock()  # most drivers let one thread at a time use a connection
        self.choice = choice
        self.layout: str = f"{type(self._connection).__module__}: {query}"
        self.schema: pa.Schema = self._find_schema()

    def __copy__(self) -> ConnectionSource:
        made = object.__new__(ConnectionSource)
        vars(made).update(vars(self))
        return made

    def __reduce__(self) -> Reduced:
        raise TypeError(
            "from_sql(connection=): an open connection cannot be sent to another process: give from_sql a URI instead"
        )

    def _execute(self) -> LibraryObject:
        cursor = self._connection.cursor()
        if type(self._connection).__module__.lstrip("_").startswith("duckdb"):
            return DuckResult(cursor, self._query, self._params)
        cursor.execute(self._query, self._params) if self._params else cursor.execute(self._query)
        return cursor

    def _find_schema(self) -> pa.Schema:
        with self._lock:
            try:
                cursor = self._execute()
            except Exception as error:  # drivers raise what they like
                raise ValueError(f"from_sql(connection=): {type(error).__name__}: {error}") from error
            try:
                reader = _arrow_reader(cursor)
                if reader is not None:
                    return reader.schema
                return _batch(_names(cursor), cursor.fetchmany(FETCH_ROWS)).schema
            finally:
                cursor.close()

    @override
    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:  # there is but one part
        """The rows from a mark on; those before are passed over."""
        assert isinstance(mark, int)
        with self._lock:
            cursor = self._execute()
        try:
            passed = 0
            for batch in self._batches(cursor):
                rows = batch.num_rows
                if passed + rows > mark:
                    yield conform_batch(batch.slice(max(0, mark - passed)), self.schema)
                passed += rows
        finally:
            with self._lock:
                cursor.close()

    def _batches(self, cursor: LibraryObject) -> Iterator[pa.RecordBatch]:
        reader = _arrow_reader(cursor)
        names = None if reader is not None else _names(cursor)
        while True:
            with self._lock:
                if reader is not None:
                    batch = next(iter(reader), None)
                    if batch is None:
                        return
                else:
                    rows = cursor.fetchmany(FETCH_ROWS)
                    if not rows:
                        return
                    batch = _batch(names or [], rows, self.schema)
            yield batch

    def __str__(self) -> str:
        return f"{type(self._connection).__module__.partition('.')[0]} connection: {self._query}"


class DuckResult:
    """A result of DuckDB's, which gives Arrow batches if it is requested as a relation."""

    def __init__(self, cursor: LibraryObject, query: str, params: tuple[object, ...]) -> None:
        self._cursor = cursor
        self._relation = cursor.sql(query, params=list(params)) if params else cursor.sql(query)
        if self._relation is None:
            cursor.close()
            raise ValueError("the statement gives no rows: from_sql reads the result of a SELECT")

    def fetch_record_batch(self) -> LibraryObject:
        """Yield the batches in order."""
        named = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")  # by version
        read = next(getattr(self._relation, name) for name in named if hasattr(type(self._relation), name))
        return read(FETCH_ROWS)

    def close(self) -> None:
        """End the query."""
        self._cursor.close()


def _arrow_reader(cursor: LibraryObject) -> LibraryObject:
    """Yield the driver's own Arrow batches, if it supports Arrow."""
    return cursor.fetch_record_batch() if callable(getattr(cursor, "fetch_record_batch", None)) else None


def _names(cursor: LibraryObject) -> list[str]:
    if cursor.description is None:
        raise ValueError("from_sql(connection=): the statement gives no rows: from_sql reads the result of a SELECT")
    return [str(column[0]) for column in cursor.description]


def _batch(names: list[str], rows: Sequence[Sequence[object]], schema: pa.Schema | None = None) -> pa.RecordBatch:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    arrays = []
    for i, (name, values) in enumerate(zip(names, columns, strict=True)):
        kind = None if schema is None else schema.field(i).type
        try:
            arrays.append(pa.array(list(values), kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            was = "" if kind is None else f" where it held {kind} in the first {FETCH_ROWS} rows"
            raise SpecError(
                f"column {name!r} holds values of different types{was} ({error}): CAST it in the query"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, names=names)
