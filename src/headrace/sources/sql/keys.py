"""Rows in the order of a key, from a key on: what a resume continues from, and how lost rows are detected."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np

from headrace.core.types import LibraryObject
from headrace.errors import SpecError, StateError
from headrace.sources.seen_rows import SeenRows, mark_of_key, seen_rows
from headrace.sources.sql.database import Database, Key, PageReader, Params, TableView

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_PAGE_ROWS, MIN_PAGE_ROWS, PAGE_BYTES, MAX_PAGE_GROWTH = 1 << 15, 16, 24 << 20, 8
"""Rows of the first page, of the smallest one, bytes of later pages, and how much larger a page may be than
the last.
"""


@dataclass(frozen=True)
class KeyedQuery:
    """A query whose rows have a unique key; `cuts` are the keys at which its parts begin, except the first."""

    database: Database
    query: str
    params: Params
    key: str
    schema: pa.Schema
    cuts: tuple[Key, ...] = ()

    def sql(self, part: int, after: Key | None, limit: int | None = None) -> str:
        """Return the SQL for the rows of a part in order, from the row with the key `after` on, which is checked."""
        literal, order = self.database.literal, self._order
        conditions = []
        low = after if after is not None else self.cuts[part - 1] if part else None
        if low is not None:
            conditions.append(f"{order} >= {literal(low)}")
        if part < len(self.cuts):
            below = f"{order} < {literal(self.cuts[part])}"
            conditions.append(below if low is not None else f"({below} OR {order} IS NULL)")  # which is then an error
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        most = "" if limit is None else f" LIMIT {limit}"
        return f"SELECT * FROM ({self.query}) AS q{where} ORDER BY {order}{most}"

    @property
    def _order(self) -> str:
        """What rows are in the order of."""
        name = self.database.name(self.key)
        return name if self.is_number else self.database.exact_text(name)

    def seen_again(self, part: int, after: Key | None, last: Key) -> SeenRows | None:
        """Return the summary of the rows now between two keys; in no order, which their hashes do not need."""
        low = after if after is not None else self.cuts[part - 1] if part else None
        order, literal = self._order, self.database.literal
        conditions = [f"{order} <= {literal(last)}"]
        if low is not None:
            conditions.append(f"{order} {'>' if after is not None else '>='} {literal(low)}")
        name = self.database.name(self.key)
        sql = f"SELECT {name} FROM ({self.query}) AS q WHERE {' AND '.join(conditions)}"
        schema = self.schema.empty_table().select([self.key]).schema
        rows = self.database.read(sql, self.params, schema)
        found: SeenRows | None = None
        try:
            for batch in rows:
                seen = seen_rows(batch.column(0))
                found = seen if found is None else found.and_then(seen)
        finally:
            rows.close()
        return None if found is None else replace(found, last=mark_of_key(last))

    def with_cuts(self, parts: int, view: TableView | None) -> KeyedQuery:
        """Return the same in parts: of numbers, of equal ranges; of texts, of equal numbers of rows."""
        name, inner = self.database.name(self.key), f"FROM ({self.query}) AS q"
        rows = partial(self.database.rows, params=self.params, view=view)
        if self.is_number:
            ((low, high),) = rows(f"SELECT min({name}) AS a, max({name}) AS b {inner}")
            if low is None:
                return self
            cuts = [low + (high - low + 1) * i // parts for i in range(1, parts)]
        else:
            order = self._order
            tiles = f"SELECT {order} AS k, ntile({parts}) OVER (ORDER BY {order}) AS t {inner} WHERE {name} IS NOT NULL"
            found = rows(f"SELECT min(k) AS k FROM ({tiles}) AS u GROUP BY t ORDER BY t")
            cuts = [key for (key,) in found[1:]]
        return self.cut_at([cut for i, cut in enumerate(cuts) if not i or cut != cuts[i - 1]])

    def cut_at(self, cuts: object) -> KeyedQuery:
        """Return the query with parts that begin at these keys. Raise StateError if they are invalid."""
        kind = int if self.is_number else str
        if not isinstance(cuts, list) or not all(type(cut) is kind for cut in cuts):
            raise StateError(f"the state is damaged: {cuts!r:.80} are no keys of parts")
        made = copy.copy(self)
        object.__setattr__(made, "cuts", tuple(cuts))
        return made

    @property
    def layout(self) -> str:
        """The cuts, as a state holds them."""
        return json.dumps(self.cuts)

    @property
    def is_number(self) -> bool:
        """Whether keys are whole numbers."""
        import pyarrow as pa

        return bool(pa.types.is_integer(self.schema.field(self.key).type))


class KeyedRows(Iterator["pa.RecordBatch"]):
    """The rows of a part after a key. Each key is checked: none may come twice or be missing."""

    def __init__(self, query: KeyedQuery, part: int, after: Key | None, snapshot: LibraryObject) -> None:
        self._query, self._part, self._after = query, part, after
        self._resumed = after is not None
        self._pages = query.database.pages(query.params, query.schema)
        if self._pages is None:
            self._opened: LibraryObject = query.database.read(
                query.sql(part, after), query.params, query.schema, snapshot
            )
        else:
            self._opened = self._paged(self._pages)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        for batch in self._opened:
            rows = self._checked(batch)
            if rows.num_rows:
                return rows
        raise StopIteration

    def _paged(self, pages: PageReader) -> Iterator[pa.RecordBatch]:
        """Page after page, the next one in progress while one is used."""
        asked = FIRST_PAGE_ROWS
        pages.begin(self._query.sql(self._part, self._after, asked))
        more = True
        while more:
            batches = pages.take(self._query.schema)
            more = sum(batch.num_rows for batch in batches) == asked
            if more:
                last = self._keys(batches[-1])[-1].as_py()
                asked = page_rows(asked, sum(batch.nbytes for batch in batches))
                more = last is not None  # which is an error, once it is looked at
            if more:
                pages.begin(self._query.sql(self._part, last, asked))
            yield from batches
            self._resumed = True

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(batch.schema.names.index(self._query.key))

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without the row that was seen before, its keys all new."""
        keys = self._keys(batch)
        if keys.null_count:
            raise SpecError(f"key {self._query.key!r} is NULL in some rows: leave them out, or choose another key")
        if self._resumed and batch.num_rows:
            self._resumed = False
            if keys[0].as_py() == self._after:  # else that row is gone, and those after it are unchanged
                batch, keys = batch.slice(1), keys.slice(1)
        if batch.num_rows:
            again = self._again(keys)
            if again is not None:
                raise SpecError(
                    f"key {self._query.key!r} is {again!r} in more than one row, so that rows could be lost: choose a "
                    "column of values that are all different"
                )
            self._after = keys[-1].as_py()
        return batch

    def _again(self, keys: pa.Array) -> LibraryObject:
        """Return a key that comes a second time, None if there is none; the rows are in order."""
        if self._after is not None and keys[0].as_py() == self._after:
            return self._after
        values = keys.to_numpy(zero_copy_only=False)
        same = np.flatnonzero(values[1:] == values[:-1])
        return keys[int(same[0])].as_py() if len(same) else None

    def cancel(self) -> None:
        """End what is waited for."""
        (self._opened if self._pages is None else self._pages).cancel()

    def close(self) -> None:
        """End the query."""
        (self._opened if self._pages is None else self._pages).close()


def page_rows(rows: int, size: int) -> int:
    """Return how many rows to request after `rows` rows of this size: the first page says little about the others."""
    return max(MIN_PAGE_ROWS, min(MAX_PAGE_GROWTH * rows, PAGE_BYTES * rows // max(size, 1)))


def check_key(schema: pa.Schema, key: str) -> bool:
    """Return whether a key is text. Raise if it is no column, or not usable as a key."""
    import pyarrow as pa

    from headrace.errors import what_there_is

    if key not in schema.names:
        raise SpecError(f"from_sql: there is no column {key!r} to be the key: {what_there_is(key, schema.names)}")
    kind = schema.field(key).type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise SpecError(f"from_sql: a key is of whole numbers or text, and {key!r} is {kind}: CAST it in the query")
    return not pa.types.is_integer(kind)
