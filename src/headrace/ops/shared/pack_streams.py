"""How `pack` runs: documents as they come, or a window of them at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.row_by_row import Leaves
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.packing import (
    Documents,
    Layout,
    documents_of,
    fitted,
    joined,
    made_rows,
    no_documents,
    strung,
)
from headrace.plan.marks import At, Mark, OwnMark
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.ops.pack import Pack

MAX_DOCUMENTS_AT_A_TIME = 256


class PackStream(Stream):
    """What both ways of packing share: the documents of blocks, and failures in their places."""

    def __init__(self, node: Pack, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._input = ctx.open(node.input, at.inputs)

    def _documents(self, item: Item, number: int) -> list[tuple[Documents | Failure, Mark]]:
        """The documents of an item, with a failure in the place of each row that is not one; and where they are."""
        if isinstance(item, Failure):
            return [(item, item.mark)]
        found = documents_of(self._node, item, number)
        if found is not None:
            return [(found, item.mark)]
        if item.rows > 1:
            rows = [item.slice(i, i + 1) for i in range(item.rows)]
            return [part for i, row in enumerate(rows) for part in self._documents(row, number + i)]
        return [(Failure(self._node.error(SpecError(self._node.refusal(item)), number)), item.mark)]


class FitStream(PackStream):
    """A window of documents at a time: failures first, then rows. A place is the window's, and how many came of it."""

    def __init__(self, node: Pack, ctx: Context, at: At) -> None:
        super().__init__(node, ctx, at)
        self._failures: deque[Failure] = deque()
        self._ready: Documents | None = None
        self._layout: Layout
        self._next = self._given = 0
        self._mark: Mark

    def _read_window(self) -> bool:
        """Read as many documents as may be looked at together; False at the end."""
        self._mark, self._given, self._next = self._input.mark(), 0, 0
        start = self._input.ordinal
        parts: list[Documents] = []
        while (left := start + self._node.lookahead - self._input.ordinal) > 0:
            number = self._input.ordinal
            item = self._input.pull(left)
            if item is END:
                break
            for part, _ in self._documents(item, number):
                if isinstance(part, Failure):
                    self._failures.append(part)
                else:
                    parts.append(part)
        if self._input.ordinal == start:
            return False
        node = self._node
        whole = joined(node, parts)
        best = node.strategy == "best_fit"
        self._layout = fitted(whole.lengths + node.behind, node.lengths, node.options.max_documents, best=best)
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

    The place of a row is that of its first cell. Failures that come before the row is full are counted from there.
    """

    def __init__(self, node: Pack, ctx: Context, at: At) -> None:
        super().__init__(node, ctx, at)
        self._skip: int = 0 if at.own is None else at.own.cells
        self._read_ahead: deque[tuple[Documents | Failure, Mark]] = deque()
        self._waiting = no_documents(node)
        self._marks: deque[tuple[int, Mark]] = deque()
        self._since = 0
        self._ended = False
        self._pure = node.input.pure
        self._length: int = node.groups[0].length
        self._pace = ctx.run.pace()

    def pull(self, want: int) -> Made:
        length = self._length
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
        self._read_ahead.extend(self._documents(item, number))

    def _read_row_by_row(self, number: int) -> None:
        """Read no further than the document that fills a row."""
        left = self._length - self._cells()
        node = self._node
        fields = node.groups[0].fields

        def fills_row(structure: Structure, leaves: Leaves) -> bool:
            nonlocal left
            if isinstance(leaves, Exception) or structure != node.structure:
                return True
            if not all(field.fits(leaves[field.leaf]) for field in fields):
                return True
            left -= len(leaves[fields[0].leaf]) + int(node.groups[0].separated)
            return left <= 0

        items = self._input.pull_until(MAX_DOCUMENTS_AT_A_TIME, fills_row)
        if items is END:
            self._ended = True
            return
        for item in items:
            self._read_ahead.extend(self._documents(item, number))
            number += item.rows

    def _add(self) -> None:
        """Queue the next documents, except those that take no cells."""
        part, mark = self._read_ahead.popleft()
        assert not isinstance(part, Failure)
        self._marks.append((int(part.numbers[0]), mark))
        kept = part.those(self._units(part) > 0)
        self._waiting = joined(self._node, [self._waiting, kept]) if len(self._waiting.numbers) else kept

    def _cells(self) -> int:
        """Return how many cells are queued."""
        units = self._units(self._waiting)
        return int(units.sum()) - self._skip if len(units) else 0

    def _units(self, documents: Documents) -> Indices:
        """How many cells documents take, with what follows them."""
        units: Indices = documents.lengths[0] + self._node.behind[0]
        return units

    def _place(self) -> tuple[Mark, ConcatMark]:
        """Return the place of the first queued cell."""
        number = int(self._waiting.numbers[0])
        while len(self._marks) > 1 and self._marks[1][0] <= number:
            self._marks.popleft()
        first, mark = self._marks[0]
        return mark.later(number - first), ConcatMark(self._skip)

    def _rows(self, rows: int) -> Block:
        units = self._units(self._waiting)
        layout = strung(units, self._length, self._skip, rows)
        made = made_rows(self._node, self._ctx, self._waiting, layout, 0, rows)
        made.mark, made.own = self._place()
        made.offset, self._since = self._since, 0
        ends = np.cumsum(units)
        used = min(int(ends[-1]), self._skip + rows * self._length)
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
