"""Where the batches of a scan's consumer begin and end, so that workers hand over whole batches."""

from __future__ import annotations

import threading
from collections import deque

from headrace.columns.block import Block, FirstHalf, concat

MAX_JOINED_BYTES = 8 << 20
"""Blocks are joined up to this size: larger ones leave the cache, and copying them takes longer than a hand-over."""


MIN_BATCHES_BY_THEMSELVES = 4
"""A block of at least this many batches is not joined with others."""
MAX_REQUEST_FACTOR = 4
"""At most this many times the usual number of rows is requested so that a block ends where a batch does."""


class BatchBounds:
    """Where batches begin in the rows of the cuts of one scan, as far as that is known.

    A batch of `size` rows begins at each row of the scan whose ordinal is a multiple of `size`. The ordinal of a cut's
    first row is known once the rows of all cuts before it are: their number is counted while the source is cut, or
    found when a worker has read them. All of this is a hint: a wrong number costs time and changes no row.

    The thread that cuts the source adds cuts, workers ask for the first row of theirs, and the consumer begins.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._added = 0
        self._first: int | None = None  # the ordinal of the first row of cut number `_counted`
        self._counted = 0
        self._begins: dict[int, int] = {}
        self._rows: dict[int, int | None] = {}
        self._halves: dict[int, Block] = {}

    def begin(self, ordinal: int) -> None:
        """Note the ordinal of the first row of the first cut."""
        with self._lock:
            if self._first is None:
                self._first = ordinal
                self._advance()

    def add(self, rows: int | None) -> int:
        """Add the next cut, of this many rows if they are known, and return its number."""
        with self._lock:
            number = self._added
            self._added += 1
            self._rows[number] = rows
            self._advance()
            return number

    def count(self, cut: int, rows: int) -> None:
        """Note how many rows a cut had."""
        with self._lock:
            if self._rows.get(cut, 0) is None:
                self._rows[cut] = rows
                self._advance()
            self._begins.pop(cut, None)

    def first_row(self, cut: int) -> int | None:
        """Return the ordinal of the first row of a cut; None if it is not known yet."""
        with self._lock:
            return self._begins.get(cut)

    def request(self, cut: int, passed: int, usual: int) -> int:
        """Return how many rows to request after `passed` rows of a cut: about `usual`, up to the end of a batch.

        Blocks of whole batches are handed over as they are, others are joined first, which copies them. If a batch has
        far more rows than usual, its end does not count.
        """
        first = self.first_row(cut)
        if first is None or self.size > MAX_REQUEST_FACTOR * usual:
            return usual
        rows = -(first + passed) % self.size
        rows += max(0, usual - rows) // self.size * self.size
        return rows if 2 * rows > usual else rows + self.size

    def next_row(self) -> int | None:
        """Return the ordinal of the first row of the cut that is added next; None if it is not known yet."""
        with self._lock:
            return self._first if self._counted == self._added else None

    def meet(self, cut: int, half: Block) -> None:
        """Join both halves of the batch that begins in a cut and ends in the next one, once workers have made both.

        The worker that comes second does it, before it hands over its own half.
        """
        with self._lock:
            other = self._halves.pop(cut, None)
            if other is None:
                self._halves[cut] = half
                return
        first, second = (other, half) if isinstance(other, FirstHalf) else (half, other)
        if isinstance(first, FirstHalf) and first.rows + second.rows == self.size and _alike(first, second):
            first.join(second)

    def forget(self, cut: int) -> None:
        """Keep no half of the batch that ends in this cut: it was handed over."""
        with self._lock:
            self._halves.pop(cut - 1, None)

    def _advance(self) -> None:
        while self._first is not None and self._counted in self._rows:
            self._begins[self._counted] = self._first
            rows = self._rows[self._counted]
            if rows is None:
                return
            del self._rows[self._counted]
            self._counted += 1
            self._first += rows


class BatchedBlocks:
    """Blocks of one cut, regrouped so that batches are whole where possible: the consumer takes views of them."""

    def __init__(self, bounds: BatchBounds, cut: int) -> None:
        self._bounds = bounds
        self._cut = cut
        self._held: deque[Block] = deque()
        self._rows = 0
        self._given = 0

    def add(self, block: Block) -> None:
        """Add the next block of the cut."""
        self._held.append(block)
        self._rows += block.rows

    def take(self, *, done: bool) -> list[Block]:
        """Return blocks to hand over now. All of them if the cut is `done`, else none of a batch that is not whole."""
        first = self._bounds.first_row(self._cut)
        if first is None:
            return self._all()
        size = self._bounds.size
        here = first + self._given
        begun = min(-here % size, self._rows)  # the rest of a batch that began in an earlier cut
        whole = (self._rows - begun) // size * size
        made = self._joined(begun) if begun and (begun < self._rows or done) else []
        if len(made) == 1:
            self._bounds.meet(self._cut - 1, made[0])
        while whole:
            rows = min(whole, self._rows_together(size))
            made.extend(self._joined(rows))
            whole -= rows
        return [*made, *self._last(self._rows)] if done and self._rows else made

    def _last(self, rows: int) -> list[Block]:
        """Return the rows of a batch that ends in the next cut."""
        made = self._joined(rows)
        if len(made) != 1:
            return made
        half = FirstHalf(made[0])
        self._bounds.meet(self._cut, half)
        return [half]

    def _all(self) -> list[Block]:
        made = list(self._held)
        self._held.clear()
        self._given += self._rows
        self._rows = 0
        return made

    def _rows_together(self, size: int) -> int:
        """Return how many rows to hand over as one block, in whole batches.

        Blocks of few batches are joined, up to a size that stays in the cache. Of larger ones only the batches across
        two of them are: to hand over one more block takes less time than to copy many batches.
        """
        first = self._held[0].rows
        if first >= MIN_BATCHES_BY_THEMSELVES * size:
            return first // size * size
        if any(block.rows >= MIN_BATCHES_BY_THEMSELVES * size for block in self._held):
            return -(-first // size) * size
        held = sum(block.nbytes for block in self._held)
        return max(1, MAX_JOINED_BYTES * self._rows // max(1, held) // size) * size

    def _joined(self, rows: int) -> list[Block]:
        """Return the next rows as one block, unless they differ in structure: then as they are."""
        parts = self._parts(rows)
        return [concat(parts)] if len(parts) > 1 and all(_alike(parts[0], part) for part in parts) else parts

    def _parts(self, rows: int) -> list[Block]:
        made: list[Block] = []
        self._given += rows
        self._rows -= rows
        while rows:
            block = self._held.popleft()
            if block.rows > rows:
                self._held.appendleft(block.slice(rows, block.rows))
                block = block.slice(0, rows)
            made.append(block)
            rows -= block.rows
        return made


def _alike(one: Block, other: Block) -> bool:
    return one.structure is other.structure or one.structure == other.structure
