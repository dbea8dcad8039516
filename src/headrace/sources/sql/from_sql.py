"""The rows of a query to a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import HeadraceError, TransportError, what_there_is
from headrace.ops.arguments import positive
from headrace.plan.node import user_site
from headrace.records.choice import Choice
from headrace.records.tables import table_spec
from headrace.sources.parts import parts_dataset
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
    uri: str,
    query: str,
    *,
    params: Sequence[Any] = (),
    key: str | None = None,
    partitions: int = 1,
    index: bool = False,
    cast: Mapping[str, Any] | None = None,
    nulls: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """The rows of a query as dicts: of SQLite, PostgreSQL, MySQL or MariaDB, or DuckDB, streamed as Arrow batches.

    `uri` is `sqlite:///file`, `postgresql://user:password@host/database`, `mysql://…` or `duckdb:///file`.
    `params` are bound to the placeholders of the query, written as the database has them: `?` for SQLite and DuckDB,
    `$1` for PostgreSQL, `%s` for MySQL. Columns become what `ParquetDataset` makes of them; `cast` and `nulls` are its.

    `key` names a column of the result, of whole numbers or text, that is different in every row and has an index: rows
    come in its order, and a resume goes on behind the last one. Without it the query runs again and rows are passed
    over. With a key, `partitions` ranges of it are read at the same time, some thousand rows of each in turn; of
    PostgreSQL they see one snapshot. With `index=True` rows are found by number, `ds[i]`, and counted: the key must
    have no gaps.

    >>> import sqlite3
    >>> with sqlite3.connect(folder / "shop.db") as db:
    ...     _ = db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    ...     _ = db.executemany("INSERT INTO item (name, price) VALUES (?, ?)", [("pen", 2.5), ("ink", 7.0)])
    >>> uri = f"sqlite:///{folder}/shop.db"
    >>> list(hr.Dataset.from_sql(uri, "SELECT * FROM item WHERE price > ?", params=[3], key="id"))
    [{'id': np.int64(2), 'name': 'ink', 'price': np.float64(7.0)}]
    """
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


def _indexed(source: SqlSource, name: str | None) -> Dataset:
    from headrace.dataset import Dataset

    query = source.keyed
    if query is None or source.parts > 1:
        raise ValueError("from_sql: index=True finds rows by a key, in one part: key= names it")
    source.choice.check(source.schema)
    rows, first = attempt(source.database, "from_sql", lambda: count_keys(query))
    spec = table_spec(source.schema, source.choice)
    return Dataset(DenseRows(source, "from_sql", spec, rows, first, site=user_site(), name=name))


def database_of(uri: str, reader: str) -> Database:
    """The database that a URI names."""
    where = Uri(uri)
    if "://" not in uri or where.scheme not in DATABASES:
        known = ", ".join(f"{scheme}://" for scheme in DATABASES)
        near = what_there_is(where.scheme, DATABASES) if "://" in uri else f"it begins with one of {known}"
        raise ValueError(f"{reader}: {where.hide(uri)!r} is no URI of a database that is known here: {near}")
    return DATABASES[where.scheme](where)


def _sequence(params: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(params, str | bytes | Mapping) or not hasattr(params, "__iter__"):
        raise TypeError(f"from_sql: params is a list of values, one for each placeholder, not {type(params).__name__}")
    return tuple(params)


def attempt(database: Database, reader: str, work: Callable[[], T]) -> T:
    """What is asked of a database before there is a pass; its errors in our words, without secrets."""
    try:
        return work()
    except (HeadraceError, ImportError, TypeError):
        raise
    except Exception as error:  # drivers raise what they like
        said = f"{reader}: {database}: {database.uri.hide(f'{type(error).__name__}: {error}')}"
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(said) from None
        raise (TransportError(said) if database.is_passing(error) else ValueError(said)) from None
