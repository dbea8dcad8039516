"""The rows of a query to a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.core.types import LibraryObject
from headrace.errors import HeadraceError, TransportError, what_there_is
from headrace.formats.tables.choice import Choice
from headrace.formats.tables.tables import table_spec
from headrace.ops.shared.arguments import positive
from headrace.plan.datasets import dataset_of
from headrace.plan.node import user_site
from headrace.sources.parts import parts_dataset
from headrace.sources.sql.connection import ConnectionSource, uri_of
from headrace.sources.sql.database import Database
from headrace.sources.sql.dense import DenseRows, count_keys
from headrace.sources.sql.duckdb import DuckDB
from headrace.sources.sql.keys import check_key
from headrace.sources.sql.mysql import MySQL
from headrace.sources.sql.postgres import Postgres
from headrace.sources.sql.source import SqlSource
from headrace.sources.sql.sqlite import Sqlite
from headrace.sources.sql.uri import Uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.dataset import Dataset

T = TypeVar("T")

DATABASES: dict[str, type[Database]] = {
    "sqlite": Sqlite,
    "postgresql": Postgres,
    "postgres": Postgres,
    "mysql": MySQL,
    "mariadb": MySQL,
    "duckdb": DuckDB,
}


def from_sql(
    uri: LibraryObject = None,
    query: str = "",
    *,
    connection: object = None,
    params: Sequence[object] = (),
    key: str | None = None,
    partitions: int = 1,
    index: bool = False,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the rows of a query as dicts, streamed as Arrow batches, from SQLite, PostgreSQL, MySQL, MariaDB or DuckDB.

    `uri` is `sqlite:///file`, `postgresql://user:password@host/database`, `mysql://…` or `duckdb:///file`.
    `params` are bound to the placeholders of the query, written as the database has them: `?` for SQLite and DuckDB,
    `$1` for PostgreSQL, `%s` for MySQL. Columns become what `ParquetDataset` makes of them; `cast` and `nulls` are its.

    `key` names a column of the result, of whole numbers or text, that is different in every row and has an index: rows
    come in its order, and a resume continues after the last one. Without it the query runs again and rows are skipped.
    With a key, `partitions` ranges of it are read at the same time, some thousand rows of each in turn; on PostgreSQL
    they see one snapshot. With `index=True` rows are counted and can be read by number, `ds[i]`: the key must have no
    gaps.

    Instead of a URI, `connection` may be open already: a DBAPI or ADBC connection, or an Engine, Connection or Session
    of SQLAlchemy. If the database can be opened again from what it says of itself (a file of SQLite, a URL of
    SQLAlchemy), that is done, and all of the above holds. Otherwise the query runs on the connection itself, one batch
    at a time, and each pass runs it again; `key`, `partitions` and `index` are refused, and it stays in this process.

    Args:
        uri: URI of the database, such as `sqlite:///file`.
        query: SQL query.
        connection: Open connection, in place of `uri`: of DBAPI, ADBC or SQLAlchemy.
        params: Values for the placeholders of the query.
        key: Column with a unique index; rows come in its order, and a resume continues behind the last one.
        partitions: Number of ranges of the key that are read at the same time.
        index: Whether rows can be found by number; the key must have no gaps.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> import sqlite3
    >>> with sqlite3.connect(folder / "shop.db") as db:
    ...     _ = db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    ...     _ = db.executemany("INSERT INTO item (name, price) VALUES (?, ?)", [("pen", 2.5), ("ink", 7.0)])
    >>> uri = f"sqlite:///{folder}/shop.db"
    >>> list(hr.Dataset.from_sql(uri, "SELECT * FROM item WHERE price > ?", params=[3], key="id"))
    [{'id': np.int64(2), 'name': 'ink', 'price': np.float64(7.0)}]
    """
    if uri is not None and not isinstance(uri, str):
        uri, connection = None, uri
    if (uri is None) == (connection is None) or not query.strip():
        raise TypeError("from_sql takes a URI and a query, or connection= and query=")
    if connection is not None:
        uri = uri_of(connection)
        if uri is None:
            return _on_connection(
                connection,
                query,
                _sequence(params),
                Choice.of(None, None, cast, nulls),
                name,
                refused={"key": key, "partitions": partitions > 1, "index": index},
            )
    database = database_of(uri, "from_sql")
    parts = positive("partitions", partitions)
    if parts > 1 and key is None:
        raise ValueError("from_sql: partitions are ranges of a key: key= names it")
    text = query.strip().rstrip(";")
    given = _sequence(params)
    schema = database.settle(attempt(database, "from_sql", lambda: database.schema(text, given)), cast or {})
    if key is not None and check_key(schema, key):
        attempt(database, "from_sql", lambda: database.check_text_key(text, given, key))
    source = SqlSource(database, text, given, schema, Choice.of(None, None, cast, nulls), key, parts)
    return _indexed(source, name) if index else parts_dataset("from_sql", source, name)


def _on_connection(
    connection: object,
    query: str,
    params: tuple[object, ...],
    choice: Choice,
    name: str | None,
    refused: Mapping[str, object],
) -> Dataset:
    wanted = [argument for argument, value in refused.items() if value]
    if wanted:
        raise ValueError(
            f"from_sql: {wanted[0]}= needs connections of its own, and the database of this one cannot be opened again "
            "from here: give a URI"
        )
    source = ConnectionSource(connection, query.strip().rstrip(";"), params, choice)
    return parts_dataset("from_sql", source, name)


def _indexed(source: SqlSource, name: str | None) -> Dataset:
    query = source.keyed
    if query is None or source.parts > 1:
        raise ValueError("from_sql: index=True finds rows by a key, in one part: key= names it")
    source.choice.check(source.schema)
    rows, first = attempt(source.database, "from_sql", lambda: count_keys(query))
    spec = table_spec(source.schema, source.choice)
    return dataset_of(DenseRows(source, "from_sql", spec, rows, first, site=user_site(), name=name))


def database_of(uri: str, reader: str) -> Database:
    """Return the database that a URI names."""
    where = Uri(uri)
    if "://" not in uri or where.scheme not in DATABASES:
        known = ", ".join(f"{scheme}://" for scheme in DATABASES)
        near = what_there_is(where.scheme, DATABASES) if "://" in uri else f"it begins with one of {known}"
        raise ValueError(f"{reader}: {str(where)!r} is no URI of a database that is known here: {near}")
    return DATABASES[where.scheme](where)


def _sequence(params: Sequence[object]) -> tuple[Any, ...]:
    if isinstance(params, str | bytes | Mapping) or not hasattr(params, "__iter__"):
        raise TypeError(f"from_sql: params is a list of values, one for each placeholder, not {type(params).__name__}")
    return tuple(params)


def attempt(database: Database, reader: str, work: Callable[[], T]) -> T:
    """Return what is asked of a database before there is a pass; its errors in our words, without secrets."""
    try:
        return work()
    except (HeadraceError, ImportError, TypeError):
        raise
    except Exception as error:  # drivers raise what they like
        said = f"{reader}: {database}: {database.uri.hide(f'{type(error).__name__}: {error}')}"
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(said) from None
        raise (TransportError(said) if database.is_passing(error) else ValueError(said)) from None
