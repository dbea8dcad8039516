"""Rows of a query by number, if its key counts them: row i has the key `first + i`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item
from headrace.core.override import override
from headrace.core.types import LibraryObject
from headrace.errors import HeadraceError, SpecError, StateError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.formats.tables.pieces import ColumnPiece, Piece, batch_pieces
from headrace.formats.tables.tables import table_spec
from headrace.indexed.numbered import Numbered
from headrace.ops.shared.gather import gathered_items
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.remote.transport import Transport
from headrace.sources.part_stream import PartStream, bad_row
from headrace.sources.seen_rows import PartMark
from headrace.sources.sql.keys import KeyedQuery
from headrace.sources.sql.source import SqlSource

if TYPE_CHECKING:
    import pyarrow as pa

KEYS_PER_QUERY = 1000
"""How many keys one query requests."""


@dataclass(frozen=True, eq=False)
class DenseRows(Numbered):
    """Rows whose keys are integers without gaps."""

    source: SqlSource
    reader: str = field(repr=False)
    elements: Spec = field(repr=False)
    rows: int
    first: int

    coarse = True
    part = 0

    @property
    def operation(self) -> str:
        return self.reader

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.rows)

    @property
    def structures(self) -> tuple[Structure, Structure]:
        """How components make an element, and how columns are named."""
        columns = table_spec(self.source.schema, self.source.choice).structure
        assert columns is not None
        return columns, columns

    def remark(self) -> str | None:
        return self.source.remark()

    def within(self, timeout: float) -> DenseRows:
        """Return the node for a pass with this time limit for answers."""
        source = copy.copy(self.source)
        source.timeout = timeout
        return replace(self, source=source)

    def changed(self) -> HeadraceError:
        """Return the error for keys that have gaps by now."""
        return StateError(f"{self.source}: keys have come or gone since the rows were counted; make the dataset anew")


def count_keys(query: KeyedQuery) -> tuple[int, int]:
    """Return how many rows there are, and the first key. Raise SpecError if the keys have gaps."""
    if not query.is_number:
        raise SpecError(f"from_sql: index=True needs a key of whole numbers, and {query.key!r} is text")
    name = query.database.name(query.key)
    asked = f"SELECT count(*) AS n, count(DISTINCT {name}) AS d, min({name}) AS a, max({name}) AS b"
    ((rows, different, low, high),) = query.database.rows(f"{asked} FROM ({query.query}) AS q", query.params)
    if rows and (rows != different or high - low + 1 != rows):
        raise SpecError(
            f"from_sql: index=True needs keys without gaps; {rows} rows have {different} keys from {low} to {high}: "
            f"number them in the query, as by row_number() OVER (ORDER BY {query.key})"
        )
    return int(rows), int(low or 0)


@opens(DenseRows, own=PartMark)
class DenseStream(PartStream):
    """The rows in order; to skip some of them costs nothing."""

    def __init__(self, node: DenseRows, ctx: Context, at: At) -> None:
        node = node.within(Transport.of(ctx.run).timeout)
        super().__init__(node, ctx, at)
        self._dense = node

    @override
    def skip(self, count: int, *, replay: bool = False) -> int:
        passed = min(count, self._dense.rows - self._number)
        if self._rest is not None and passed < self._rest.num_rows:
            self._rest = self._rest.slice(passed)
        elif passed:
            self._rest = None
            self._drop()
        if passed:
            self._number += passed
            self._mark = self._dense.first + self._number - 1
        return passed

    def _items(self, batch: pa.RecordBatch) -> list[Item]:
        assert self._dense.source.keyed is not None
        keys = batch.column(batch.schema.names.index(self._dense.source.keyed.key))
        first = self._dense.first + self._number
        if keys[0].as_py() != first or keys[-1].as_py() != first + batch.num_rows - 1:
            raise self._dense.changed()
        return super()._items(batch)


@fetches(DenseRows, items=True)
def fetch_dense(node: DenseRows, ctx: Context, indices: Indices) -> list[Item]:
    """Fetch rows by number with failures in their places; many by one query."""
    node = node.within(Transport.of(ctx.run).timeout)
    numbers = np.unique(indices)
    structure, columns = node.structures
    pieces = [p for batch in _batches(node, ctx, numbers) for p in batch_pieces(batch, columns, node.source.choice)]
    starts = np.cumsum([0, *(piece.rows for piece in pieces)])
    if starts[-1] != len(numbers):
        raise node.changed()

    def read(number: int, within: Indices) -> list[Item]:
        return _taken(node, structure, pieces[number], numbers[starts[number] :], within)

    items = gathered_items(starts[:-1], np.searchsorted(numbers, indices), read)
    done = 0
    for item in items:
        if isinstance(item, Block):
            item.ids = ctx.ids(indices[done : done + item.rows])
        done += item.rows
    return items


def _taken(node: DenseRows, structure: Structure, piece: Piece, numbers: Indices, within: Indices) -> list[Item]:
    if isinstance(piece, ColumnPiece):
        return [Block(structure, piece.columns, piece.rows).take(within)]
    return [Failure(bad_row(node, piece.reason, int(numbers[i]))) for i in within.tolist()]


def _batches(node: DenseRows, ctx: Context, numbers: Indices) -> Iterator[pa.RecordBatch]:
    """Yield the rows with these numbers, which are in order."""
    query, via = node.source.keyed, Transport.of(ctx.run)
    assert query is not None
    name = query.database.name(query.key)
    for start in range(0, len(numbers), KEYS_PER_QUERY):
        keys = (node.first + numbers[start : start + KEYS_PER_QUERY]).tolist()
        near = keys[-1] - keys[0] == len(keys) - 1
        which = f"BETWEEN {keys[0]} AND {keys[-1]}" if near else f"IN ({', '.join(map(str, keys))})"
        sql = f"SELECT * FROM ({query.query}) AS q WHERE {name} {which} ORDER BY {name}"
        yield from via.attempt(str(node.source), lambda sql=sql: _read(node.source, query, sql))  # type: ignore[misc]


def _read(source: SqlSource, query: KeyedQuery, sql: str) -> LibraryObject:
    """Read all batches of a small query. Raise transient errors as ConnectionError."""
    rows = None
    try:
        rows = query.database.read(sql, query.params, query.schema)
        return list(rows)
    except (HeadraceError, ImportError):
        raise
    except Exception as error:  # drivers raise what they like
        said = source.hide(f"{type(error).__name__}: {error}")
        raise (ConnectionError(said) if source.is_passing(error) else ValueError(said)) from None
    finally:
        if rows is not None:
            rows.close()
