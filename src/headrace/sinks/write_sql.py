"""Write the elements to a table of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from headrace.iterator import Iterator
from headrace.plan.capabilities import require_end
from headrace.sinks.deal import cut_runs
from headrace.sinks.write_parquet import ParquetEncoding
from headrace.sources.sql.database import Database
from headrace.sources.sql.from_sql import attempt, database_of
from headrace.sources.sql.writers import writer_of

if TYPE_CHECKING:
    from headrace.dataset import Dataset

BATCH_BYTES = 4 << 20
"""How much is sent at a time."""


def write_sql(self: Dataset, uri: str, table: str, if_exists: Literal["fail", "append", "replace"] = "fail") -> int:
    """Write all elements, which are dicts, as rows of a table; returns how many. All of them are there, or none.

    One transaction makes the table, of columns that fit the elements, and fills it. `if_exists` says what to do if it
    exists: "fail", "append" rows to it, or "replace" it. A failed element ends it, and the table stays as it was. MySQL
    cannot roll back CREATE TABLE: there rows go to a new table, which is renamed at the end.

    Args:
        uri: URI of the database, such as `sqlite:///file`.
        table: Name of the table to write.
        if_exists: "fail", "append" or "replace".

    >>> uri = f"sqlite:///{folder}/squares.db"
    >>> hr.Dataset.range(4).map(lambda x: {"x": x, "square": x * x}).write_sql(uri, "squares")
    4
    >>> list(hr.Dataset.from_sql(uri, "SELECT max(square) AS largest FROM squares"))
    [{'largest': np.int64(9)}]
    """
    if if_exists not in ("fail", "append", "replace"):
        raise ValueError(f'write_sql: if_exists is "fail", "append" or "replace", not {if_exists!r}')
    require_end(self._node, "write_sql")
    database = database_of(uri, "write_sql")
    return attempt(database, "write_sql", lambda: _write(self, database, table, if_exists))


def _write(ds: Dataset, database: Database, table: str, if_exists: str) -> int:
    encoding = ParquetEncoding(ds._node.spec, "none")
    written = 0
    with Iterator(ds._node, ds._epochs) as it, writer_of(database, table, if_exists) as writer:
        for blocks in cut_runs(it.blocks(), BATCH_BYTES):
            encoded = encoding.encode(blocks)
            writer.write(encoded)
            written += encoded.num_rows
        if not written and if_exists != "append":
            raise ValueError("there are no elements, so the columns of the table are unknown")
    return written
