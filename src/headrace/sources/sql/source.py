"""The rows of a query as a source of batches."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from headrace.core.types import JsonValue
from headrace.errors import NONSENSE, StateError
from headrace.formats.tables.choice import Choice
from headrace.sources.batches import BatchSource, Mark
from headrace.sources.seen_rows import SeenRows, mark_of_key
from headrace.sources.sql.database import Database, Params, Rows, TableView
from headrace.sources.sql.keys import KeyedQuery, KeyedRows

if TYPE_CHECKING:
    import pyarrow as pa


class SqlSource(BatchSource):
    """A query. With a key a mark is the key of the row before, else the number of rows before."""

    def __init__(
        self,
        database: Database,
        query: str,
        params: Params,
        schema: pa.Schema,
        choice: Choice,
        key: str | None,
        parts: int,
    ) -> None:
        self.database: Database = database
        self.query: str = query
        self.params: Params = params
        self.schema: pa.Schema = schema
        self.choice: Choice = choice
        self.parts = parts
        self.turns: int | None = parts if parts > 1 else None
        self.keyed = None if key is None else KeyedQuery(database, query, params, key, schema)
        self.start = 0 if key is None else ""
        self._snapshot: TableView | None = None

    @property
    def timeout(self) -> float:
        """Seconds that the database may take for an answer."""
        return self.database.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.database = self.database.within(seconds)
        if self.keyed is not None:
            self.keyed = replace(self.keyed, database=self.database)

    def __str__(self) -> str:
        given = f", params #{_digest(self.params)}" if self.params else ""
        key = "" if self.keyed is None else f", key={self.keyed.key}"
        return f"{self.database} {' '.join(self.query.split())}{given}{key}"

    def lay_out(self, layout: str | None) -> BatchSource:
        if self.keyed is None or self.parts == 1:
            return super().lay_out(layout)
        made = copy.copy(self)
        view = made._snapshot = self.database.snapshot(self.parts)
        try:
            made.keyed = self.keyed.with_cuts(self.parts, view) if layout is None else self.keyed.cut_at(_cuts(layout))
        except BaseException:
            made.close()
            raise
        made.layout = made.keyed.layout
        return made

    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:
        if self.keyed is None:
            assert isinstance(mark, int)
            return PassedOver(self.database.read(self.query, self.params, self.schema), mark)
        if part > len(self.keyed.cuts):
            return iter(())
        return KeyedRows(self.keyed, part, self._key_of(mark), self._snapshot)

    def mark_after(self, mark: Mark, batch: pa.RecordBatch) -> Mark:
        if self.keyed is None:
            return super().mark_after(mark, batch)
        keys = self.keys_of(batch)
        assert keys is not None
        return mark_of_key(keys[-1].as_py())

    def keys_of(self, batch: pa.RecordBatch) -> pa.Array | None:
        return None if self.keyed is None else batch.column(batch.schema.names.index(self.keyed.key))

    def check_seen(self, part: int, mark: Mark, seen: SeenRows) -> None:
        last = self._key_of(seen.last)
        if self.keyed is None or last is None:
            raise StateError("the state is damaged: it speaks of keys, and there are none")
        if self.keyed.seen_again(part, self._key_of(mark), last) != seen:
            behind = "" if mark == self.start else f" behind {self._key_of(mark)!r}"
            raise StateError(
                f"{self}: rows{behind} up to {self.keyed.key} = {last!r}, which must be read again to go on, have come "
                "or gone since the state was taken: begin anew, or take states before what filters or shuffles"
            )

    def _key_of(self, mark: Mark) -> int | str | None:
        assert self.keyed is not None
        if mark == self.start:
            return None
        if isinstance(mark, int) != self.keyed.is_number:
            raise StateError(f"the state is damaged: {mark!r:.80} is no key")
        return mark if isinstance(mark, int) else mark.removeprefix("=")

    def is_passing(self, error: Exception) -> bool:
        return self.database.is_passing(error)

    def hide(self, text: str) -> str:
        return self.database.uri.hide(text)

    def remark(self) -> str | None:
        if self.keyed is not None:
            seen = (
                "see one snapshot" if self.database.shares_view else "each see what is there when a page is asked for"
            )
            parts = f"; {self.parts} partitions {seen}" if self.parts > 1 else ""
            return f"a resume continues after the last {self.keyed.key}{parts}"
        return "a resume runs the query again and passes rows over: key= names a column to go on from"

    def close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()


class PassedOver(Iterator["pa.RecordBatch"]):
    """The rows of a query after the first ones."""

    def __init__(self, rows: Rows, count: int) -> None:
        self._rows, self._left = rows, count
        self.cancel: Callable[[], None] = rows.cancel
        self.close: Callable[[], None] = rows.close

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        for batch in self._rows:
            if batch.num_rows > self._left:
                passed, self._left = self._left, 0
                return batch.slice(passed) if passed else batch
            self._left -= batch.num_rows
        if self._left:
            raise StateError("the query gives fewer rows than when the state was taken")
        raise StopIteration


def _cuts(layout: str) -> JsonValue:
    try:
        return json.loads(layout)
    except NONSENSE:
        raise StateError(f"the state is damaged: {layout!r:.80} are no parts") from None


def _digest(params: Params) -> str:
    """Return a digest of parameters that does not reveal them."""
    return hashlib.blake2b(repr(list(params)).encode(), digest_size=8).hexdigest()
