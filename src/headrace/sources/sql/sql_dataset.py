"""tf.data's SqlDataset: rows of a query as tuples of types that are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from headrace.core.override import override
from headrace.core.types import LibraryObject, Nested
from headrace.formats.tables.choice import EVERYTHING, Choice
from headrace.plan.structure import LEAF, tuple_of
from headrace.sources.batches import Mark
from headrace.sources.parts import parts_dataset
from headrace.sources.sql.database import Database
from headrace.sources.sql.from_sql import DATABASES, attempt, database_of
from headrace.sources.sql.source import PassedOver, SqlSource
from headrace.sources.sql.sqlite import Sqlite
from headrace.sources.sql.uri import Uri

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

TYPES = ("str", "bytes", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "float64")
"""What a column may be, as in tf.data."""


def SqlDataset(  # noqa: N802 - as tf.data's readers are named
    driver_name: str, data_source_name: str, query: str, output_types: Nested, name: str | None = None
) -> Dataset:
    """Read the rows of a query as tuples, each column of the type given for it, as in tf.data; see also `from_sql`.

    `driver_name` is "sqlite", with the name of a file; or "postgresql", "mysql" or "duckdb", with a URI. A column is
    converted as SQLite does it: what is no number is 0, and so is NULL; as text NULL is "". Of other databases, a value
    that does not fit its type is an error.

    Args:
        driver_name: Name of the database driver; "sqlite".
        data_source_name: Path of the database.
        query: SQL query.
        output_types: Data types of the columns.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> import sqlite3
    >>> with sqlite3.connect(folder / "people.db") as db:
    ...     _ = db.execute("CREATE TABLE person (name TEXT, age INTEGER)")
    ...     _ = db.executemany("INSERT INTO person VALUES (?, ?)", [("Ada", 36), ("Alan", None)])
    >>> list(hr.SqlDataset("sqlite", str(folder / "people.db"), "SELECT * FROM person", (str, np.int32)))
    [('Ada', np.int32(36)), ('Alan', np.int32(0))]
    """
    single = not isinstance(output_types, tuple | list)
    kinds = [_kind(each) for each in ([output_types] if single else output_types)]
    database = _database(driver_name, data_source_name)
    text = query.strip().rstrip(";")
    columns = [f"c{i:04}" for i in range(len(kinds))]
    source = (
        _sqlite(database, text, columns, kinds)
        if isinstance(database, Sqlite)
        else _other(database, text, columns, kinds)
    )
    source.structure = LEAF if single else tuple_of([LEAF] * len(kinds))
    return parts_dataset("SqlDataset", source, name)


def _kind(given: Any) -> str:
    """Return the name of a type: NumPy's, Python's or TensorFlow's."""
    given = getattr(given, "as_numpy_dtype", given)
    if given is object:  # TensorFlow's string
        return "str"
    dtype = np.dtype(given)
    kind = {"U": "str", "S": "bytes"}.get(dtype.kind, str(dtype.name))
    if kind not in TYPES:
        raise TypeError(f"SqlDataset: a column cannot be {dtype}; it can be {', '.join(TYPES)}")
    return kind


def _database(driver: str, source: str) -> Database:
    if driver not in DATABASES:
        raise ValueError(f"SqlDataset: there is no driver {driver!r}; there are {', '.join(map(repr, DATABASES))}")
    if driver == "sqlite":
        return Sqlite(Uri(f"sqlite:///{source}"))
    return database_of(source if "://" in source else f"{driver}://{source}", "SqlDataset")


def _sqlite(database: Sqlite, query: str, columns: list[str], kinds: list[str]) -> TypedSource:
    """SQLite converts by itself, as it does for tf.data."""
    import pyarrow as pa

    found = attempt(database, "SqlDataset", lambda: database.columns(query))
    check_count(found, kinds)
    stored = {"str": pa.string(), "bytes": pa.binary(), "float64": pa.float64()}
    read_as = pa.schema([pa.field(c, stored.get(kind) or pa.int64()) for c, kind in zip(columns, kinds, strict=True)])
    schema = pa.schema([pa.field(c, _arrow(kind)) for c, kind in zip(columns, kinds, strict=True)])
    return SqliteSource(database, query, schema, read_as, EVERYTHING, partial(_narrowed, schema=schema))


def check_count(columns: Sequence[str], kinds: list[str]) -> None:
    """Raise ValueError if a query does not have as many columns as there are types."""
    if len(columns) != len(kinds):
        raise ValueError(f"SqlDataset: the query has {len(columns)} columns, and output_types {len(kinds)}")


def _arrow(kind: str) -> pa.DataType:
    import pyarrow as pa

    return {"str": pa.string(), "bytes": pa.binary()}.get(kind) or pa.from_numpy_dtype(np.dtype(kind))


def _narrowed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return numbers as tf.data narrows them: to 32 bits, and from there to what is wanted."""
    import pyarrow as pa

    columns = []
    for column, kind in zip(batch.columns, schema.types, strict=True):
        if pa.types.is_integer(kind) and kind.bit_width < 64:
            column = pa.array(column.to_numpy().astype(np.int32).astype(kind.to_pandas_dtype()))  # noqa: PLW2901
        elif pa.types.is_boolean(kind):
            column = pa.array(column.to_numpy() != 0)  # noqa: PLW2901
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _other(database: Database, query: str, columns: list[str], kinds: list[str]) -> TypedSource:
    found = attempt(database, "SqlDataset", lambda: database.schema(query, ()))
    check_count(found.names, kinds)
    wanted = {"str": str, "bytes": bytes}
    cast = {c: wanted.get(kind) or np.dtype(kind) for c, kind in zip(columns, kinds, strict=True)}
    nulls = {
        c: {"str": "", "bytes": b"", "bool": False, "float64": 0.0}.get(k, 0)
        for c, k in zip(columns, kinds, strict=True)
    }
    settled = database.settle(found, dict.fromkeys(found.names))
    schema = renamed(settled, columns)
    choice = Choice.of(None, None, cast, nulls)
    return TypedSource(database, query, schema, settled, choice, partial(_rename, names=columns))


def renamed(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """Return the same columns under other names."""
    import pyarrow as pa

    return pa.schema([pa.field(name, field.type) for name, field in zip(names, schema, strict=True)])


def _rename(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    return batch.rename_columns(names)


class TypedSource(SqlSource):
    """A query whose columns are numbered; `read_as` are the types for the driver."""

    def __init__(
        self,
        database: Database,
        query: str,
        schema: pa.Schema,
        read_as: pa.Schema | None,
        choice: Choice,
        convert: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> None:
        super().__init__(database, query, (), schema, choice, None, 1)
        self._read_as, self._convert = read_as, convert

    @override
    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:  # there is but one
        assert isinstance(mark, int)
        return Converted(PassedOver(self.database.read(self.query, (), self._read_as), mark), self._convert)

    def remark(self) -> str | None:
        return "a resume runs the query again and passes rows over: hr.Dataset.from_sql has a key= to go on from"


class SqliteSource(TypedSource):
    """A query whose values SQLite converts."""

    @override
    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:  # there is but one
        assert isinstance(mark, int) and isinstance(self.database, Sqlite) and self._read_as is not None
        return Converted(PassedOver(self.database.convert(self.query, self._read_as), mark), self._convert)


class Converted(Iterator["pa.RecordBatch"]):
    """Batches, each made into another."""

    def __init__(self, rows: LibraryObject, convert: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._rows, self._convert = rows, convert
        self.close: Callable[[], None] = rows.close
        self.cancel: Callable[[], None] = rows.cancel

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self._convert(next(self._rows))
