"""Rows of an Arrow table, read in place, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import Column, Indices, join, read_only, take
from headrace.columns.block import Block, Ids, gathered
from headrace.core.ragged import Ragged
from headrace.core.types import Component, Nested
from headrace.errors import ElementError, SpecError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.formats.tables.arrow import (
    arrow_column,
    arrow_spec,
    has_views,
    in_takeable_layout,
    is_dense,
    missing_row,
)
from headrace.formats.tables.damage import check_text
from headrace.formats.tables.fields import arrow_fields, field_arrays
from headrace.indexed.numbered import Held, NumberedStream
from headrace.plan.marks import At
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import flatten

if TYPE_CHECKING:
    import pyarrow as pa

MIN_CHUNK_ROWS = 64
"""A table whose chunks have fewer rows than this is combined first: looking up chunks would take longer."""

ROWS_PER_DIGEST = 1 << 16
"""How many rows each digest covers when a table is identified."""

REMEDIES = {
    "from_arrow": "fill them with nulls={column: value} or fill_null, or leave the rows out with table.drop_null()",
    "from_pandas": "fill them with nulls={column: value} or fillna, or leave the rows out with frame.dropna()",
    "from_polars": "fill them with nulls={column: value} or fill_null, or leave the rows out with frame.drop_nulls()",
}


@dataclass(frozen=True, eq=False)
class Table(Held):
    """Rows kept as columns, in chunks.

    Numbers and times of one shape are kept as arrays, most of them views; anything else stays in Arrow's layout
    until it is read, so that a table of text, categories or lists takes no additional memory. `order`, if given, maps
    row i to a row of the chunks.
    """

    origin: str = field(repr=False)
    chunks: list[list[Column]] = field(repr=False)
    starts: Indices = field(repr=False)
    order: Indices | None = field(repr=False, default=None)

    @property
    def operation(self) -> str:
        return self.origin

    def contents(self) -> tuple[object, ...]:
        return *(
            column for start in range(0, self.starts[-1], ROWS_PER_DIGEST) for column in self._run(start)
        ), self.order

    def _run(self, start: int) -> list[Column]:
        """Return the columns of some rows, the same however the table is cut into chunks; mostly views."""
        parts, stop = [], min(start + ROWS_PER_DIGEST, int(self.starts[-1]))
        for chunk, first, end in zip(self.chunks, self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            if first < stop and end > start:
                parts.append([column[max(0, start - first) : stop - first] for column in chunk])
        return parts[0] if len(parts) == 1 else [join(columns) for columns in zip(*parts, strict=True)]

    def unreadable(self, path: str, reason: Exception, row: int) -> ElementError:
        """Return the error for a row whose component cannot be read."""
        return self.error(f"component{path} {reason}", row)


@opens(Table)
def open_table(node: Table, ctx: Context, _at: At) -> Stream:
    """Return the rows as views, chunk by chunk."""

    def read(start: int, stop: int) -> Block:
        if node.order is not None:
            return fetch_table(node, ctx, np.arange(start, stop))
        number = int(np.searchsorted(node.starts, start, side="right")) - 1
        first, end = node.starts[number : number + 2].tolist()
        stop = min(stop, end)
        columns = [c[start - first : stop - first] for c in node.chunks[number]]
        return _block(node, columns, start, stop - start, ctx.ids_between(start, stop))

    return NumberedStream(node, read)


@fetches(Table)
def fetch_table(node: Table, ctx: Context, indices: Indices) -> Block:
    """Fetch rows from the chunks that contain them."""

    def taken(chunk: int, rows: Indices) -> Block:
        return _block(node, [take(c, rows) for c in node.chunks[chunk]], int(indices[0]), len(rows))

    block = gathered(node.starts[:-1], indices if node.order is None else node.order[indices], taken)
    block.ids = ctx.ids(indices)
    return block


def _block(node: Table, columns: list[Column], first: int, rows: int, ids: Ids | None = None) -> Block:
    """Return rows of these columns. Raise the error of row `first` if one of them holds invalid text."""
    structure = node.elements.structure
    assert structure is not None
    made: list[Column] = []
    for path, column in zip(structure.paths, columns, strict=True):
        if isinstance(column, np.ndarray | Ragged | list):
            made.append(column)
            continue
        try:
            check_text(column)
        except ValueError as error:
            raise node.unreadable(path, error, first) from None
        made.append(arrow_column(column))
    return Block(structure, made, rows, None, ids)


def table_node(
    origin: str,
    table: pa.Table,
    keys: list[Component] | None,
    order: Indices | None = None,
    *,
    site: str,
    name: str | None = None,
) -> Table:
    """Return the node of a table whose columns are named `keys`; None for a single column, whose values are the
    elements.
    """
    found: list[Leaf] = []
    if keys is None:
        tree: Nested = _tree("the column", table.schema.field(0).type, (0,), found, origin)
    else:
        if not keys:
            raise ValueError(f"{origin}: a table without columns has no elements")
        kinds = table.schema.types
        parts = [_tree(f"column {key!r}", kinds[i], (i,), found, origin) for i, key in enumerate(keys)]
        tree = _name_parts(keys, parts, origin)
    structure, numbers = flatten(tree)
    leaves = [found[n] for n in numbers]
    batches = [b for b in table.to_batches() if b.num_rows]
    if len(batches) > 1 and table.num_rows < MIN_CHUNK_ROWS * len(batches):
        batches = [b for b in table.combine_chunks().to_batches() if b.num_rows]
    starts = np.cumsum([0, *(b.num_rows for b in batches)])
    chunks = [
        [_column_of_batch(leaf, batch, start, origin) for leaf in leaves]
        for batch, start in zip(batches, starts.tolist(), strict=False)
    ]
    rows = table.num_rows if order is None else len(order)
    spec = Spec(structure, tuple(leaf.spec for leaf in leaves))
    return Table(spec, rows, origin, chunks, starts, order, site=site, name=name)


class Leaf:
    """A component: how messages call it, what it looks like, and the way to it through the table's fields."""

    def __init__(self, called: str, kind: pa.DataType, way: tuple[int, ...]) -> None:
        self.called = called
        self.spec: TensorSpec = arrow_spec(kind)
        self.dense: bool = is_dense(kind)
        self.way = way

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the component's part of a batch."""
        array = batch.column(self.way[0])
        for step in self.way[1:]:
            array = field_arrays(array)[step]
        return array


def _tree(called: str, kind: pa.DataType, way: tuple[int, ...], found: list[Leaf], origin: str) -> Nested:
    """Return what has fields as a dict, anything else as the number of its leaf in `found`."""
    fields = arrow_fields(kind)
    if fields is not None:
        parts = [_tree(f"{called}[{key!r}]", each, (*way, i), found, origin) for i, (key, each) in enumerate(fields)]
        return _name_parts([key for key, _ in fields], parts, origin)
    try:
        found.append(Leaf(called, kind, way))
    except SpecError as error:
        raise SpecError(f"{origin}: {called} {error}: cast it to another type, or leave it out") from None
    return len(found) - 1


def _name_parts(keys: list[Component], parts: list[Component], origin: str) -> dict[Any, Any]:
    tree = dict(zip(keys, parts, strict=True))
    if len(tree) < len(keys):
        twice = sorted({str(k) for k in keys if keys.count(k) > 1})
        raise ValueError(f"{origin}: more than one column is called {', '.join(twice)}; rename them")
    return tree


def _column_of_batch(leaf: Leaf, batch: pa.RecordBatch, start: int, origin: str) -> Column:
    array = in_takeable_layout(leaf.array(batch))
    row = missing_row(array)
    if row is not None:
        raise SpecError(
            f"{origin}: {leaf.called} has a null in row {start + row}, and NumPy's {leaf.spec} has no such value: "
            f"{REMEDIES.get(origin, 'fill them')}"
        )
    return read_only(arrow_column(array)) if leaf.dense or has_views(array.type) else array
