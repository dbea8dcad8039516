"""Buffer references to rows in local files instead of the rows."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headrace import _native
from headrace.columns import Indices
from headrace.columns.block import Block, Item, concat
from headrace.columns.lazy_block import LazyBlock, RecordBlock, Selection
from headrace.columns.refs import BackgroundCheck, CorruptRecordsError, RecordRefs, RefTable
from headrace.execute.budget import free_memory
from headrace.execute.stream import END, Pulled, Source
from headrace.ops.shuffle.shuffle_buffer import Slots
from headrace.plan.marks import Mark
from headrace.plan.structure import LEAF

READ_BYTES, READ_ROWS = 16 << 20, 4096
"""At most READ_BYTES are read at a time, but at least READ_ROWS records, if they are no more than that."""
FIRST_READS_AHEAD, MAX_READS_AHEAD = 2, 8
"""How many times as much is scanned ahead, at first and at most, if there are CPUs for it."""
MAX_UNVERIFIED_READS = 16
"""How many times as much may be buffered before it is verified; a consumer of drawn rows then waits for that."""
MIN_RESIDENT_BYTES, RESIDENT_SHARE = 256 << 20, 64
"""When this many bytes, or this fraction of the free memory if that is more, have been scanned, their pages are
unmapped from this process; some come back.
"""
MAX_UNCHECKED_FILES = 64
"""With more files than this, unused ones are dropped from time to time."""


class ReadItem(NamedTuple):
    """An item of an input that was read ahead, and the scan that verifies it, if its rows are references."""

    item: Item
    check: BackgroundCheck | None


class ReferenceInput:
    """An input whose rows are references, if they can be read lazily: a block holds their `RefTable`.

    They are verified, because no rows may follow a bad one, but not copied: on other cores, while earlier rows are
    used. A consumer of drawn rows waits until all rows before them are verified.
    """

    def __init__(self, source: Source, cpus: int) -> None:
        self._source = source
        self._ahead, self._most_ahead = FIRST_READS_AHEAD, max(FIRST_READS_AHEAD, min(MAX_READS_AHEAD, cpus // 2))
        self._coming: deque[ReadItem] = deque()
        self._unseen: deque[BackgroundCheck] = deque()
        self._files: list[_native.MappedFile] = []
        self._numbers: dict[int, int] = {}
        self._looked = MAX_UNCHECKED_FILES
        self._seen = 0
        self._row_bytes = 1
        self._pointing: bool | None = None
        self._merged: tuple[object, RefTable] | None = None

    @cached_property
    def _resident(self) -> int:
        """Return the limit; computed once, because looking up the free memory takes as long as reading many records."""
        return max(MIN_RESIDENT_BYTES, free_memory() // RESIDENT_SHARE)

    @property
    def points(self) -> bool:
        """Whether rows are known to be available as references."""
        return self._pointing is True

    @property
    def ordinal(self) -> int:
        """Return the ordinal of the next row."""
        return self._coming[0].item.mark.ordinal if self._coming else self._source.ordinal

    def mark(self) -> Mark:
        """Return the mark of the next row."""
        return self._coming[0].item.mark if self._coming else self._source.mark()

    def pull(self, want: int) -> Pulled:
        """Return as many rows as are wanted, if there are; rows that are not references, as they come."""
        parts: list[Block] = []
        rows = 0
        while rows < want and self._has_more(want - rows):
            following = self._coming[0].item
            places = isinstance(following, Block) and self.points
            if not places and parts:
                break
            item = self._take(want - rows)
            if not places or (not parts and item.rows == want):
                return item
            assert isinstance(item, Block)
            parts.append(item)
            rows += item.rows
        return concat(parts) if parts else END

    def _has_more(self, want: int) -> bool:
        """Return whether there are rows, and start verifying the next ones if `want` are wanted."""
        at_once = want
        if self.points:
            room = min(max(want, READ_ROWS), max(1, READ_BYTES // self._row_bytes))
            at_once = max(room // want * want, min(room, want))  # or two reads would have to be assembled
        while self._has_room() and self._read(at_once):
            pass
        self._release()
        return bool(self._coming)

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Skip rows. Return how many there were. Those that were read ahead must be good, too."""
        done = 0
        while done < count and self._coming:
            done += self._take(count - done).rows
        self._see(0)
        return done + self._source.skip(count - done, replay=replay) if done < count else done

    def close(self) -> None:
        """Free the input."""
        self._coming.clear()
        self._unseen.clear()
        self._source.close()
        _native.release_files(self._files)  # else the thread that drops the last of them would do it alone

    def _has_room(self) -> bool:
        return not self._coming or (self.points and len(self._coming) < self._ahead)

    def _read(self, want: int) -> bool:
        """Request up to `want` more rows, or an item without references. Return False at the end."""
        parts: list[Block] = []
        found: list[RefTable] = []
        rows = 0
        other: Pulled = END
        while rows < want and (item := self._source.pull(want - rows)) is not END:
            places = self._places(item) if isinstance(item, Block) and self._pointing is not False else None
            if places is None:
                other = item
                break
            self._pointing = True
            assert isinstance(item, Block)
            parts.append(item)
            found.append(places)
            rows += item.rows
        if parts:
            self._look_at(parts, found)
        if other is not END:
            self._coming.append(ReadItem(self._as_it_comes(other), None))
        return bool(parts) or other is not END

    def _look_at(self, parts: list[Block], found: list[RefTable]) -> None:
        """Start verifying these rows in the background."""
        places = found[0] if len(found) == 1 else np.concatenate(found)
        nbytes = _native.pointed_bytes(places)
        self._seen += nbytes
        self._row_bytes = max(1, nbytes // len(places))
        ids = None if parts[0].ids is None else np.concatenate([p.ids for p in parts if p.ids is not None])
        block = Block(LEAF, [places], len(places), parts[0].mark, ids)
        self._coming.append(ReadItem(block, BackgroundCheck(RecordRefs(self._files, places))))

    def _take(self, want: int) -> Item:
        """Return the next item, or some of it; it may not be known to be good yet."""
        item, check = self._coming.popleft()
        if check is not None:
            self._unseen.append(check)
            self._see(MAX_UNVERIFIED_READS)
        if item.rows > want:
            self._coming.appendleft(ReadItem(item.slice(want, item.rows), None))
            item = item.slice(0, want)
        return item

    def _see(self, most: int) -> None:
        """Wait until all items but `most` are verified."""
        while len(self._unseen) > most:
            self._unseen.popleft().wait()

    def _release(self) -> None:
        """Unmap pages that were scanned from this process, from time to time."""
        if self._seen > MIN_RESIDENT_BYTES and self._seen > self._resident:
            self._seen = 0
            _native.release_files(self._files)

    def _as_it_comes(self, item: Item) -> Item:
        if isinstance(item, Block):
            if self._pointing:  # references are held, and these rows are none
                raise CorruptRecordsError
            self._pointing = False
        return item

    def _places(self, block: Block) -> RefTable | None:
        """Return references to its rows by their ordinals; None if that is impossible."""
        if not isinstance(block, RecordBlock | Selection):
            return None
        places, first = np.empty((block.rows, 4), np.int64), block.mark.ordinal
        if isinstance(block, RecordBlock):
            if not block.refs.consecutive:
                return None
            (file,) = block.refs.files
            _native.bounds_as_places(self._number(file), block.refs.where, first, places)
            return places
        if not block.parts:
            return None
        if self._merged is None or self._merged[0] is not block.parts:  # else another part of the same
            parts = [self._places(part) for part in block.parts]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            self._merged = block.parts, np.concatenate(known)
        _native.take_places(self._merged[1], block.order, first, places)
        return places

    def _number(self, file: _native.MappedFile) -> int:
        number = self._numbers.get(id(file))
        if number is None:
            number = self._numbers[id(file)] = len(self._files)
            self._files.append(file)
        return number

    def places_of(self, rows: LazyBlock, ordinals: Indices) -> Block | None:
        """Convert rows that were found elsewhere into a block of references; None if that is impossible.

        They were verified before; materializing them checks whether they are still the same.
        """
        text = rows.pointed() if self._pointing is not False else None
        if text is None:
            return None
        self._pointing = True
        places = text.table.copy()
        places[:, 0] = np.array([self._number(file) for file in text.files])[places[:, 0]]
        places[:, 3] = ordinals
        return Block(LEAF, [places], len(places), ids=rows.ids)

    def rows_of(self, items: list[Item], slots: Slots) -> list[Item]:
        """Return rows from the buffer, lazy ones if it holds references.

        From the first call on, more are verified ahead.
        """
        self._ahead = min(self._ahead + 1, self._most_ahead)
        if not self._pointing:
            return items
        if items and not isinstance(items[0], Block):  # a failure waits for nothing
            self._see(0)
        made = [self._picked(item) if isinstance(item, Block) else item for item in items]
        if len(self._files) > self._looked:
            self._forget(slots)
        return made

    def _picked(self, block: Block) -> Block:
        """Return rows as lazy ones.

        The first wait for the verification of earlier rows; others are handed over after them.
        """
        (places,) = block.columns
        rows = RecordBlock(RecordRefs(self._files, places), block.ids, tuple(self._unseen))
        self._unseen.clear()
        rows.mark, rows.own, rows.offset = block.mark, block.own, block.offset
        return rows

    def _forget(self, slots: Slots) -> None:
        """Release files that have no more rows here; rows that were returned hold those they need."""
        held = [slots.numbers()[:, 0]]
        for item in (coming.item for coming in self._coming):
            if isinstance(item, Block):
                item.columns = [item.columns[0].copy()]  # other threads may be reading these entries
                held.append(item.columns[0][:, 0])
        there = [(numbers >= 0) & (numbers < len(self._files)) for numbers in held]  # empty slots hold anything
        used = np.unique(np.concatenate([numbers[known] for numbers, known in zip(held, there, strict=True)]))
        for numbers, known in zip(held, there, strict=True):
            numbers[known] = np.searchsorted(used, numbers[known])
        self._files = [self._files[number] for number in used.tolist()]
        self._numbers = {id(file): number for number, file in enumerate(self._files)}
        self._merged = None
        self._looked = max(MAX_UNCHECKED_FILES, 2 * len(self._files))
