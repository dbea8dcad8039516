"""How `pack` makes rows: the documents of blocks, which part of which goes where, and the rows made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace import _native
from headrace.columns import Column, Indices, column_of, values
from headrace.columns.block import FOLD, Block, Ids
from headrace.core.ragged import Ragged
from headrace.core.types import Array
from headrace.execute.context import Context

if TYPE_CHECKING:
    from headrace.ops.pack import Pack
    from headrace.ops.shared.pack_fields import PackedField, PackedGroup

NO_NUMBERS = np.empty(0, np.int64)
NO_PLACES = np.empty(0, np.int32)


class Documents(NamedTuple):
    """Documents: where each starts among the values of each field, and which row of the input it was.

    `starts` has a row for each field, `lengths` one for each group of fields; `items` are those of each document.
    """

    values: tuple[Array, ...]
    starts: Indices
    lengths: Indices
    numbers: Indices
    items: tuple[Array, ...]
    ids: Ids | None

    def those(self, which: Array | slice) -> Documents:
        """Some of them: a slice, or which they are."""
        ids = None if self.ids is None else self.ids[which]
        items = tuple(each[which] for each in self.items)
        return Documents(self.values, self.starts[:, which], self.lengths[:, which], self.numbers[which], items, ids)


def documents_of(node: Pack, block: Block, number: int) -> Documents | None:
    """The rows of a block, the first of them the `number`-th; None if one of them is no document."""
    if block.structure != node.structure:
        return None
    parts: list[Array] = []
    starts: list[Indices] = []
    lengths: list[Indices] = []
    for group in node.groups:
        first: Indices | None = None
        for field in group.fields:
            found = _sequences(block.columns[field.leaf], field)
            if found is None or (first is not None and not np.array_equal(first, found[2])):
                return None
            first = found[2]
            parts.append(found[0])
            starts.append(found[1])
        assert first is not None
        lengths.append(first)
    sizes = np.stack(lengths)
    if len(node.groups) > 1 and (sizes + node.behind > node.lengths[:, None]).any():
        return None
    items = []
    for each in node.items:
        boxed = np.empty(block.rows, object)
        for i, value in enumerate(values(block.columns[each.leaf])):
            if not each.fits(value):
                return None
            boxed[i] = value
        items.append(boxed)
    numbers = np.arange(number, number + block.rows)
    return Documents(tuple(parts), np.stack(starts), sizes, numbers, tuple(items), block.ids)


def _sequences(column: Column, field: PackedField) -> tuple[Array, Indices, Indices] | None:
    """The values of a column, where those of each row start, and how many they are."""
    if isinstance(column, Ragged) and field.fits(column.values):
        return column.values, np.asarray(column.offsets[:-1], np.int64), column.row_lengths()
    if isinstance(column, np.ndarray) and column.dtype == field.dtype and column.shape[2:] == field.width:
        if column.ndim != 2 + len(field.width):
            return None
        rows, size = column.shape[:2]
        starts = np.arange(rows, dtype=np.int64) * size
        return column.reshape(rows * size, *field.width), starts, np.full(rows, size, np.int64)
    found = list(values(column))
    if not all(field.fits(row) for row in found):
        return None
    lengths = np.array([len(row) for row in found], np.int64)
    return np.concatenate(found), np.cumsum(lengths) - lengths, lengths


def no_documents(node: Pack) -> Documents:
    """Return no documents."""
    fields = [field for group in node.groups for field in group.fields]
    empty = tuple(np.empty((0, *field.width), field.dtype) for field in fields)
    starts, lengths = np.empty((len(fields), 0), np.int64), np.empty((len(node.groups), 0), np.int64)
    return Documents(empty, starts, lengths, NO_NUMBERS, tuple(np.empty(0, object) for _ in node.items), None)


def joined(node: Pack, parts: Sequence[Documents]) -> Documents:
    """Concatenate documents; values that no document needs any more are dropped."""
    if not parts:
        return no_documents(node)
    if len(parts) == 1:
        return parts[0]
    group_of = np.repeat(np.arange(len(node.groups)), [len(group.fields) for group in node.groups])
    made: list[Array] = []
    starts: list[Indices] = []
    for field, group in enumerate(group_of.tolist()):
        pieces, begins, base = [], [], 0
        for part in parts:
            begin = part.starts[field]
            first = int(begin.min(initial=len(part.values[field])))
            stop = int((begin + part.lengths[group]).max(initial=first))
            pieces.append(part.values[field][first:stop])
            begins.append(begin - first + base)
            base += stop - first
        made.append(np.concatenate(pieces))
        starts.append(np.concatenate(begins))
    ids = [part.ids for part in parts if part.ids is not None]
    return Documents(
        tuple(made),
        np.stack(starts),
        np.concatenate([part.lengths for part in parts], 1),
        np.concatenate([part.numbers for part in parts]),
        tuple(np.concatenate([part.items[i] for part in parts]) for i in range(len(node.items))),
        np.concatenate(ids) if ids else None,
    )


class Layout(NamedTuple):
    """Parts of documents in rows, in the order of places: `whole` cells from `first` on of document `which`.

    `whole` and `column` have a row for each group of fields.
    """

    which: Indices
    first: Indices
    whole: Indices
    row: Indices
    column: Indices
    segment: Indices
    rows: int


def _placed(which: Indices, first: Indices, whole: Indices, row: Indices, rows: int) -> Layout:
    """Parts that are sorted by rows, side by side in each."""
    before = np.cumsum(whole, 1) - whole
    opening = np.searchsorted(row, np.arange(rows))  # the first part of each row
    column = before - before[:, opening][:, row]
    return Layout(which, first, whole, row, column, np.arange(len(row)) - opening[row] + 1, rows)


def fitted(units: Indices, lengths: Indices, max_documents: int | None = None, *, best: bool = False) -> Layout:
    """The longest first, each into the first row that has room or into the fullest one; rows by their first documents.

    Args:
        units: How many cells each document takes, a row for each group of fields.
        lengths: How many cells a row has, of each group.
        max_documents: The most documents in a row.
        best: Whether the row with the least room is taken, not the first.
    """
    most = max_documents or 0
    if len(lengths) == 1:
        length = int(lengths[0])
        count = -(-units[0] // length)
        which = np.repeat(np.arange(units.shape[1]), count)
        first = (np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)) * length
        whole = np.minimum(length, units[0, which] - first)[None]
        order = np.argsort(-whole[0], kind="stable")
        found = np.empty(len(which), np.int64)
        fit = _native.best_fit if best else _native.first_fit
        rows = fit(whole[0, order], length, most, found)
    else:
        which = np.flatnonzero(units.any(0))
        first = np.zeros(len(which), np.int64)
        whole = units[:, which]
        order = np.argsort(-(whole / lengths[:, None]).max(0, initial=0), kind="stable")
        found = np.empty(len(which), np.int64)
        rows = _native.fit_several(np.ascontiguousarray(whole.T[order]), lengths, most, best, found)
    bins = np.empty(len(which), np.int64)
    bins[order] = found
    opening = np.empty(rows, np.int64)
    opening[bins[::-1]] = np.arange(len(bins))[::-1]
    rank = np.empty(rows, np.int64)
    rank[np.argsort(opening)] = np.arange(rows)
    row = rank[bins]
    by_row = np.argsort(row, kind="stable")
    return _placed(which[by_row], first[by_row], whole[:, by_row], row[by_row], rows)


def strung(units: Indices, length: int, skip: int, rows: int) -> Layout:
    """One after another, from cell `skip` of the first on, cut where a row is full; the last may not be."""
    ends = np.cumsum(units)
    starts = ends - units
    stop = min(int(ends[-1]), skip + rows * length)
    cuts = np.unique(np.concatenate([starts[(starts > skip) & (starts < stop)], np.arange(skip, stop, length)]))
    which = np.searchsorted(ends, cuts, side="right")
    return _placed(which, cuts - starts[which], np.diff(cuts, append=stop)[None], (cuts - skip) // length, rows)


class Parts(NamedTuple):
    """The parts of documents in some rows of a layout; rows are counted from the first of them."""

    layout: Layout
    rows: int
    opening: Indices
    """The first part of each row."""

    @classmethod
    def of(cls, layout: Layout, first: int, stop: int) -> Parts:
        """Those of the rows `first` to before `stop`."""
        part = slice(*np.searchsorted(layout.row, [first, stop]).tolist())
        row = layout.row[part] - first
        rows = stop - first
        some = Layout(
            layout.which[part],
            layout.first[part],
            layout.whole[:, part],
            row,
            layout.column[:, part],
            layout.segment[part],
            rows,
        )
        return cls(some, rows, np.searchsorted(row, np.arange(rows)))


def made_rows(node: Pack, ctx: Context, all_of: Documents, layout: Layout, first: int, stop: int) -> Block:
    """The rows `first` to before `stop` of a layout."""
    parts = Parts.of(layout, first, stop)
    made: dict[str, Column] = {}
    field_number = filled = cells = 0
    for number, group in enumerate(node.groups):
        for field in group.fields:
            pieces = _pieces(all_of, parts, number, field_number, group)
            made[field.name] = _field_rows(field, all_of.values[field_number], pieces, parts.rows, group.length)
            field_number += 1
        made |= {f"{group.prefix}{name}": c for name, c in _places(node, group, pieces, parts, number).items()}
        filled += int(parts.layout.whole[number].sum())
        cells += parts.rows * group.length
    made |= _items(node, all_of, parts)
    ctx.stage.filled(filled, cells)
    ids = None
    if all_of.ids is not None:
        known = all_of.ids[parts.layout.which[parts.opening]]
        begin = parts.layout.first[parts.opening].astype(np.uint64)
        ids = np.stack([known[:, 0] * np.uint64(FOLD) + known[:, 1], begin], 1)
    structure = node.spec.structure
    assert structure is not None
    return Block(structure, structure.leaves_in(made), parts.rows, None, ids)


def _pieces(all_of: Documents, parts: Parts, group: int, field: int, about: PackedGroup) -> Indices:
    """What the kernels take: for each part, where its values start, and where it goes."""
    layout = parts.layout
    tokens = np.minimum(layout.whole[group], all_of.lengths[group, layout.which] - layout.first)
    cells = layout.row * about.length + layout.column[group]
    start = all_of.starts[field, layout.which] + layout.first
    columns = [start, tokens, layout.whole[group], cells, layout.segment, all_of.numbers[layout.which]]
    return np.stack(columns, 1)


def _field_rows(field: PackedField, given: Array, pieces: Indices, rows: int, length: int) -> Array:
    given = np.ascontiguousarray(given)
    out = np.empty((rows, length, *field.width), field.dtype)
    bytes_per_cell = field.dtype.itemsize * int(np.prod(field.width, dtype=np.int64))
    if not bytes_per_cell:
        return out
    separator, pad = field.cell(field.separator), field.cell(field.pad)
    cells = out.reshape(-1).view(np.uint8).reshape(-1, bytes_per_cell)
    _native.pack_field(given.reshape(-1).view(np.uint8).reshape(-1, bytes_per_cell), pieces, separator, pad, cells)
    return out


def _places(node: Pack, group: PackedGroup, pieces: Indices, parts: Parts, number: int) -> dict[str, Column]:
    """Which document each cell belongs to, and where in it it is."""
    shape, options = (parts.rows, group.length), node.options
    segments = np.empty(shape, np.int32)
    positions = np.empty(shape, np.int32) if node.makes_positions(group) else NO_PLACES
    documents = np.empty(shape, np.int64) if options.documents else NO_NUMBERS
    _native.pack_places(pieces, segments.reshape(-1), positions.reshape(-1), documents.reshape(-1))
    made: dict[str, Column] = {"segments": segments}
    if node.makes_positions(group):
        made["positions"] = positions
    if options.documents:
        made["documents"] = documents
    if options.cu_seqlens:
        made |= _boundaries(parts, number, group.length, options.max_documents)
    return made


def _boundaries(parts: Parts, group: int, length: int, most: int | None) -> dict[str, Column]:
    """Where documents begin and end in each row; padding is the last."""
    layout = parts.layout
    whole = layout.whole[group]
    counts = np.bincount(layout.row, minlength=parts.rows)
    used = np.bincount(layout.row, whole, parts.rows).astype(np.int64)
    longest = length - used
    np.maximum.at(longest, layout.row, whole)
    ends = (layout.column[group] + whole).astype(np.int32)
    if most is not None:
        table = np.full((parts.rows, most + 2), length, np.int32)
        table[:, 0] = 0
        table[layout.row, layout.segment] = ends
        return {"cu_seqlens": table, "max_seqlen": longest.astype(np.int32)}
    sizes = counts + 1 + (used < length)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    flat = np.full(int(offsets[-1]), length, np.int32)
    flat[offsets[:-1]] = 0
    flat[offsets[:-1][layout.row] + layout.segment] = ends
    return {"cu_seqlens": Ragged(flat, offsets), "max_seqlen": longest.astype(np.int32)}


def _items(node: Pack, all_of: Documents, parts: Parts) -> dict[str, Column]:
    """The items of the documents that begin in each row, and the segment of each."""
    made: dict[str, Column] = {}
    if not node.items:
        return made
    layout = parts.layout
    begins = np.flatnonzero(layout.first == 0)
    cuts = np.searchsorted(layout.row[begins], np.arange(parts.rows + 1)).tolist()
    for number, each in enumerate(node.items):
        items, segments = [], []
        for row in range(parts.rows):
            mine = begins[cuts[row] : cuts[row + 1]]
            found = all_of.items[number][layout.which[mine]].tolist()
            sizes = [1 if each.single else len(value) for value in found]
            items.append(each.joined(found))
            segments.append(np.repeat(layout.segment[mine], sizes).astype(np.int32))
        made[each.name] = column_of(items)
        made[f"{each.name}_segments"] = column_of(segments)
    return made
