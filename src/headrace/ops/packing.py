"""How `pack` runs: which part of which sequence goes where, and the rows that are made of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.block import FOLD, Block, Failure, Ids, Item
from headrace.columns import Indices
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.row_by_row import Leaves
from headrace.execute.stream import END, Made, Stream
from headrace.plan.marks import At, Mark, OwnMark
from headrace.plan.structure import Structure
from headrace.ragged import Ragged

if TYPE_CHECKING:
    from headrace.ops.pack import Pack

NO_DOCUMENTS = np.empty(0, np.int64)
MAX_DOCUMENTS_AT_A_TIME = 256


class Sequences(NamedTuple):
    """Token sequences: where each lies among the values, how long it is, and which row of the input it was."""

    values: NDArray[Any]
    starts: Indices
    lengths: Indices
    numbers: Indices
    ids: Ids | None

    def those(self, which: Any) -> Sequences:
        """Some of them: a slice, or which they are."""
        ids = None if self.ids is None else self.ids[which]
        return Sequences(self.values, self.starts[which], self.lengths[which], self.numbers[which], ids)


def sequences_of(block: Block, number: int, dtype: np.dtype[Any]) -> Sequences | None:
    """The rows of a block, the first of them the `number`-th; None where they are not sequences of this dtype."""
    column = block.columns[0] if len(block.columns) == 1 and block.structure.kind is None else None
    numbers = np.arange(number, number + block.rows)
    if isinstance(column, list) and all(_is_row(row, dtype) for row in column):
        lengths = np.array([len(row) for row in column], np.int64)
        return Sequences(np.concatenate(column), np.cumsum(lengths) - lengths, lengths, numbers, block.ids)
    if isinstance(column, Ragged) and _is_row(column.values, dtype):
        starts = np.asarray(column.offsets[:-1], np.int64)
        return Sequences(column.values, starts, column.row_lengths(), numbers, block.ids)
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.dtype == dtype:
        rows, width = column.shape
        starts = np.arange(rows, dtype=np.int64) * width
        return Sequences(column.reshape(-1), starts, np.full(rows, width, np.int64), numbers, block.ids)
    return None


def _is_row(value: Any, dtype: np.dtype[Any]) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == dtype


def joined(parts: Sequence[Sequences], dtype: np.dtype[Any]) -> Sequences:
    """One behind the other; values that nobody needs any more are left behind."""
    if not parts:
        return Sequences(np.empty(0, dtype), NO_DOCUMENTS, NO_DOCUMENTS, NO_DOCUMENTS, None)
    if len(parts) == 1:
        return parts[0]
    values, starts, base = [], [], 0
    for part in parts:
        first = int(part.starts[0]) if len(part.starts) else 0
        stop = int((part.starts + part.lengths).max(initial=first))
        values.append(part.values[first:stop])
        starts.append(part.starts - first + base)
        base += stop - first
    ids = [part.ids for part in parts if part.ids is not None]
    return Sequences(
        np.concatenate(values),
        np.concatenate(starts),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate(ids) if ids else None,
    )


class Layout(NamedTuple):
    """Parts of sequences in rows, in the order of places: `whole` cells from `first` on of sequence `which`."""

    which: Indices
    first: Indices
    whole: Indices
    row: Indices
    column: Indices
    segment: Indices
    rows: int


def _placed(which: Indices, first: Indices, whole: Indices, row: Indices, rows: int) -> Layout:
    """Parts that are sorted by rows, side by side in each."""
    before = np.cumsum(whole) - whole
    opening = np.searchsorted(row, np.arange(rows))  # the first part of each row
    return Layout(which, first, whole, row, before - before[opening][row], np.arange(len(row)) - opening[row] + 1, rows)


def fitted(units: Indices, length: int) -> Layout:
    """The longest first, each into the first row that has room; rows in the order of their first sequences."""
    count = -(-units // length)
    which = np.repeat(np.arange(len(units)), count)
    first = (np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)) * length
    whole = np.minimum(length, units[which] - first)
    order = np.argsort(-whole, kind="stable")
    bins = np.empty(len(which), np.int64)
    found = np.empty(len(which), np.int64)
    rows = _native.first_fit(whole[order], length, found)
    bins[order] = found
    opening = np.empty(rows, np.int64)
    opening[bins[::-1]] = np.arange(len(bins))[::-1]
    rank = np.empty(rows, np.int64)
    rank[np.argsort(opening)] = np.arange(rows)
    row = rank[bins]
    by_row = np.argsort(row, kind="stable")
    return _placed(which[by_row], first[by_row], whole[by_row], row[by_row], rows)


def strung(units: Indices, length: int, skip: int, rows: int) -> Layout:
    """One behind the other, from cell `skip` of the first on, cut where a row is full; the last may not be."""
    ends = np.cumsum(units)
    starts = ends - units
    stop = min(int(ends[-1]), skip + rows * length)
    cuts = np.unique(np.concatenate([starts[(starts > skip) & (starts < stop)], np.arange(skip, stop, length)]))
    which = np.searchsorted(ends, cuts, side="right")
    return _placed(which, cuts - starts[which], np.diff(cuts, append=stop), (cuts - skip) // length, rows)


def made_rows(node: Pack, ctx: Context, all_of: Sequences, layout: Layout, first: int, stop: int) -> Block:
    """The rows `first` to before `stop` of a layout."""
    part = slice(*np.searchsorted(layout.row, [first, stop]).tolist())
    which, begin, whole = layout.which[part], layout.first[part], layout.whole[part]
    row, rows = layout.row[part] - first, stop - first
    tokens = np.minimum(whole, all_of.lengths[which] - begin)
    cells = row * node.length + layout.column[part]
    start = all_of.starts[which] + begin
    pieces = np.stack([start, tokens, whole, cells, layout.segment[part], all_of.numbers[which]], 1)
    values = np.ascontiguousarray(all_of.values)
    out = np.empty((rows, node.length), values.dtype)
    segments, positions = np.empty((2, rows, node.length), np.int32)
    documents = np.empty((rows, node.length), np.int64) if node.documents else NO_DOCUMENTS
    given = values.view(np.uint8).reshape(len(values), values.itemsize)
    cells_out = out.view(np.uint8).reshape(-1, values.itemsize)
    more = (segments.reshape(-1), positions.reshape(-1), documents.reshape(-1))
    _native.pack_rows(given, pieces, node.separator_bytes, cells_out, *more)
    ctx.stage.filled(int(whole.sum()), out.size)
    ids = None
    if all_of.ids is not None:
        opening = np.searchsorted(row, np.arange(rows))
        known = all_of.ids[which[opening]]
        ids = np.stack([known[:, 0] * np.uint64(FOLD) + known[:, 1], begin[opening].astype(np.uint64)], 1)
    structure = node.spec.structure
    assert structure is not None
    columns = structure.leaves_in({"tokens": out, "segments": segments, "positions": positions, "documents": documents})
    return Block(structure, columns, rows, None, ids)


class PackStream(Stream):
    """What both ways of packing share: documents as sequences, and failures in their places."""

    def __init__(self, node: Pack, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._input = ctx.open(node.input, at.inputs)

    def _sequences(self, item: Item, number: int) -> list[tuple[Sequences | Failure, Mark]]:
        """The documents of an item, with a failure in the place of each that is none; and where they lie."""
        if isinstance(item, Failure):
            return [(item, item.mark)]
        found = sequences_of(item, number, self._node.dtype)
        if found is not None:
            return [(found, item.mark)]
        if item.rows > 1:
            rows = [item.slice(i, i + 1) for i in range(item.rows)]
            return [part for i, row in enumerate(rows) for part in self._sequences(row, number + i)]
        return [(Failure(self._node.error(SpecError(self._node.refusal(item)), number)), item.mark)]


class FirstFitStream(PackStream):
    """A window of documents at a time: failures first, then rows. A place is the window's, and how many came of it."""

    def __init__(self, node: Pack, ctx: Context, at: At) -> None:
        super().__init__(node, ctx, at)
        self._failures: deque[Failure] = deque()
        self._ready: Sequences | None = None
        self._layout: Layout
        self._next = self._given = 0
        self._mark: Mark

    def _read_window(self) -> bool:
        """Read as many documents as may be looked at together; False at the end."""
        self._mark, self._given, self._next = self._input.mark(), 0, 0
        start = self._input.ordinal
        parts: list[Sequences] = []
        while (left := start + self._node.lookahead - self._input.ordinal) > 0:
            number = self._input.ordinal
            item = self._input.pull(left)
            if item is END:
                break
            for part, _ in self._sequences(item, number):
                if isinstance(part, Failure):
                    self._failures.append(part)
                else:
                    parts.append(part)
        if self._input.ordinal == start:
            return False
        whole = joined(parts, self._node.dtype)
        self._layout = fitted(self._node.units(whole.lengths), self._node.length)
        self._ready = whole if self._layout.rows else None
        return True

    def pull(self, want: int) -> Made:
        while not self._failures and self._ready is None:
            if not self._read_window():
                return END
        item: Item
        if self._failures:
            item = self._failures.popleft()
        else:
            assert self._ready is not None
            stop = min(self._layout.rows, self._next + want)
            item = made_rows(self._node, self._ctx, self._ready, self._layout, self._next, stop)
            self._next = stop
            if stop == self._layout.rows:
                self._ready = None
        item.mark, item.own, item.offset = self._mark, None, self._given
        self._given += item.rows
        return item


@dataclass(slots=True)
class ConcatMark(OwnMark):
    """How many cells of the document, at which the input is read again, went into rows before."""

    cells: int


class ConcatStream(PackStream):
    """Documents one behind the other. `_waiting` are those that are not used up, the first from cell `_skip` on.

    A row lies where its first cell does. What comes before that row is full, failures, is counted from there.
    """

    def __init__(self, node: Pack, ctx: Context, at: At) -> None:
        super().__init__(node, ctx, at)
        self._skip: int = 0 if at.own is None else at.own.cells
        self._read_ahead: deque[tuple[Sequences | Failure, Mark]] = deque()
        self._waiting = joined([], node.dtype)
        self._marks: deque[tuple[int, Mark]] = deque()
        self._since = 0
        self._ended = False
        self._pure = node.input.pure
        self._pace = ctx.run.pace()

    def pull(self, want: int) -> Made:
        length = self._node.length
        while True:
            cells = self._cells()
            rows = cells // length
            if rows >= want or (rows and not self._pure):
                return self._rows(min(rows, want))
            if self._read_ahead and not isinstance(self._read_ahead[0][0], Failure):
                self._add()
            elif rows:
                return self._rows(rows)
            elif self._read_ahead:
                return self._failure(cells)
            elif self._ended:
                return self._rows(1) if cells else END
            else:
                self._read()

    def _read(self) -> None:
        number = self._input.ordinal
        if not self._pure:
            self._read_row_by_row(number)
            return
        item = self._input.pull(self._pace.rows)
        if item is END:
            self._ended = True
            return
        self._pace.observe(item, 0)
        self._read_ahead.extend(self._sequences(item, number))

    def _read_row_by_row(self, number: int) -> None:
        """Read no further than the document that fills a row."""
        left = self._node.length - self._cells()

        def fills_row(structure: Structure, leaves: Leaves) -> bool:
            nonlocal left
            row = leaves[0] if structure.kind is None and not isinstance(leaves, Exception) else None
            if not _is_row(row, self._node.dtype):
                return True
            assert row is not None
            left -= int(self._node.units(np.array([len(row)]))[0])
            return left <= 0

        items = self._input.pull_until(MAX_DOCUMENTS_AT_A_TIME, fills_row)
        if items is END:
            self._ended = True
            return
        for item in items:
            self._read_ahead.extend(self._sequences(item, number))
            number += item.rows

    def _add(self) -> None:
        """Have the next documents wait for their rows, those that take up any room."""
        part, mark = self._read_ahead.popleft()
        assert not isinstance(part, Failure)
        self._marks.append((int(part.numbers[0]), mark))
        kept = part.those(self._node.units(part.lengths) > 0)
        self._waiting = joined([self._waiting, kept], self._node.dtype) if len(self._waiting.lengths) else kept

    def _cells(self) -> int:
        """How many cells wait."""
        units = self._node.units(self._waiting.lengths)
        return int(units.sum()) - self._skip if len(units) else 0

    def _place(self) -> tuple[Mark, ConcatMark]:
        """Where the first cell that waits lies."""
        number = int(self._waiting.numbers[0])
        while len(self._marks) > 1 and self._marks[1][0] <= number:
            self._marks.popleft()
        first, mark = self._marks[0]
        return mark.later(number - first), ConcatMark(self._skip)

    def _rows(self, rows: int) -> Block:
        units = self._node.units(self._waiting.lengths)
        layout = strung(units, self._node.length, self._skip, rows)
        made = made_rows(self._node, self._ctx, self._waiting, layout, 0, rows)
        made.mark, made.own = self._place()
        made.offset, self._since = self._since, 0
        ends = np.cumsum(units)
        used = min(int(ends[-1]), self._skip + rows * self._node.length)
        first = int(np.searchsorted(ends, used, side="right"))
        self._skip = used - int(ends[first] - units[first]) if first < len(units) else 0
        self._waiting = self._waiting.those(slice(first, None))
        return made

    def _failure(self, cells: int) -> Failure:
        item, mark = self._read_ahead.popleft()
        assert isinstance(item, Failure)
        item.mark, item.own = self._place() if cells else (mark, ConcatMark(0))
        item.offset = self._since
        self._since += bool(cells)
        return item
