"""Rows that lie in files of this machine, in a buffer that holds only where."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headrace import _native
from headrace.block import Block, Item, concat
from headrace.columns import Indices
from headrace.columns.refs import BackgroundCheck, RecordRefs, RefTable, UnsoundError
from headrace.execute.budget import free_memory
from headrace.execute.stream import END, Pulled, Source
from headrace.late_block import LateBlock, LateRecords, UnmergedBlock
from headrace.ops.slots import Slots
from headrace.plan.marks import Mark
from headrace.plan.structure import LEAF

READ_BYTES, READ_ROWS = 16 << 20, 4096
"""No more than so many bytes are read at a time, and no fewer records, if they are no more than that."""
AHEAD, MOST_AHEAD = 2, 8
"""So many times as much is looked at before it is asked for; in time more, where there are processors for it."""
UNSEEN = 16
"""So many times as much may go into the buffer before it is known to be good: who is given rows then waits for that."""
RESIDENT, RESIDENT_SHARE = 256 << 20, 64
"""When so many bytes, or this part of the free memory if that is more, have been looked at, their pages are taken out
of this process's own view; some come back."""
FILES = 64
"""Beyond so many files it is looked now and then which of them still have rows in the buffer."""


class PointedItem(NamedTuple):
    """An item of an input that has been read ahead, and who is looking at its rows meanwhile, where they are places."""

    item: Item
    check: BackgroundCheck | None


class PointedRows:
    """An input, of whose rows it only says where they lie, if they can be had late: a block holds their `RefTable`.

    They are looked at, since behind one that is bad there may be no others, but not copied: on other cores, while
    those before them are used. Whoever is given rows that were drawn waits until all are looked at that came before.
    """

    def __init__(self, source: Source, cpus: int) -> None:
        self._source = source
        self._ahead, self._most_ahead = AHEAD, max(AHEAD, min(MOST_AHEAD, cpus // 2))
        self._coming: deque[PointedItem] = deque()
        self._unseen: deque[BackgroundCheck] = deque()
        self._files: list[_native.MappedFile] = []
        self._numbers: dict[int, int] = {}
        self._looked = FILES
        self._seen = 0
        self._row_bytes = 1
        self._pointing: bool | None = None
        self._merged: tuple[object, RefTable] | None = None

    @cached_property
    def _resident(self) -> int:
        """To find out how much memory is free takes as long as to read many a record."""
        return max(RESIDENT, free_memory() // RESIDENT_SHARE)

    @property
    def points(self) -> bool:
        """Whether it has been seen that rows can be pointed at."""
        return self._pointing is True

    @property
    def ordinal(self) -> int:
        """Where the rows stand that come next."""
        return self._coming[0].item.mark.ordinal if self._coming else self._source.ordinal

    def mark(self) -> Mark:
        """Of the row that comes next."""
        return self._coming[0].item.mark if self._coming else self._source.mark()

    def pull(self, want: int) -> Pulled:
        """As many rows as are wanted, if there are; what cannot be pointed at, as it comes."""
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
        """Whether there are rows; has those be looked at that come after them, where so many are wanted."""
        at_once = want
        if self.points:
            room = min(max(want, READ_ROWS), max(1, READ_BYTES // self._row_bytes))
            at_once = max(room // want * want, min(room, want))  # or two reads would have to be put together
        while self._has_room() and self._read(at_once):
            pass
        self._release()
        return bool(self._coming)

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Pass over rows; returns how many there were. Those that were read ahead must be good, too."""
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
        _native.release_files(self._files)  # or whoever lets go of the last of them would do it alone

    def _has_room(self) -> bool:
        return not self._coming or (self.points and len(self._coming) < self._ahead)

    def _read(self, want: int) -> bool:
        """Have up to so many rows more on their way, or an item that holds no places; False at the end."""
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
            self._coming.append(PointedItem(self._as_it_comes(other), None))
        return bool(parts) or other is not END

    def _look_at(self, parts: list[Block], found: list[RefTable]) -> None:
        """Have others find out whether these rows are good."""
        places = found[0] if len(found) == 1 else np.concatenate(found)
        nbytes = _native.pointed_bytes(places)
        self._seen += nbytes
        self._row_bytes = max(1, nbytes // len(places))
        ids = None if parts[0].ids is None else np.concatenate([p.ids for p in parts if p.ids is not None])
        block = Block(LEAF, [places], len(places), parts[0].mark, ids)
        self._coming.append(PointedItem(block, BackgroundCheck(RecordRefs(self._files, places))))

    def _take(self, want: int) -> Item:
        """The next item, or some of it; it may not be known to be good yet."""
        item, check = self._coming.popleft()
        if check is not None:
            self._unseen.append(check)
            self._see(UNSEEN)
        if item.rows > want:
            self._coming.appendleft(PointedItem(item.slice(want, item.rows), None))
            item = item.slice(0, want)
        return item

    def _see(self, most: int) -> None:
        """Wait until it is known of all items but so many that they are good."""
        while len(self._unseen) > most:
            self._unseen.popleft().wait()

    def _release(self) -> None:
        """Take pages that have been looked at out of this process's view, now and then."""
        if self._seen > RESIDENT and self._seen > self._resident:
            self._seen = 0
            _native.release_files(self._files)

    def _as_it_comes(self, item: Item) -> Item:
        if isinstance(item, Block):
            if self._pointing:  # rows are held that only say where they lie, and these are others
                raise UnsoundError
            self._pointing = False
        return item

    def _places(self, block: Block) -> RefTable | None:
        """Where its rows lie, by the ordinals that they have; None where that is not to be said."""
        if not isinstance(block, LateRecords | UnmergedBlock):
            return None
        places, first = np.empty((block.rows, 4), np.int64), block.mark.ordinal
        if isinstance(block, LateRecords):
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

    def places_of(self, rows: LateBlock, ordinals: Indices) -> Block | None:
        """Rows that were found elsewhere, as those that it gives: a block of their places; None where that cannot be.

        Somebody has seen them before; whoever makes them sees whether they are still the same.
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
        """Rows that the buffer gives out: late ones, where it holds places. From the first on more are looked at."""
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
        """Rows as late ones. The first wait for what came in since; others are handed over behind them."""
        (places,) = block.columns
        rows = LateRecords(RecordRefs(self._files, places), block.ids, tuple(self._unseen))
        self._unseen.clear()
        rows.mark, rows.own, rows.offset = block.mark, block.own, block.offset
        return rows

    def _forget(self, slots: Slots) -> None:
        """Let go of files that have no more rows here; rows that were given out know those they need."""
        held = [slots.numbers()[:, 0]]
        for item in (coming.item for coming in self._coming):
            if isinstance(item, Block):
                item.columns = [item.columns[0].copy()]  # others may be looking at what these places say
                held.append(item.columns[0][:, 0])
        there = [(numbers >= 0) & (numbers < len(self._files)) for numbers in held]  # empty slots hold anything
        used = np.unique(np.concatenate([numbers[known] for numbers, known in zip(held, there, strict=True)]))
        for numbers, known in zip(held, there, strict=True):
            numbers[known] = np.searchsorted(used, numbers[known])
        self._files = [self._files[number] for number in used.tolist()]
        self._numbers = {id(file): number for number, file in enumerate(self._files)}
        self._merged = None
        self._looked = max(FILES, 2 * len(self._files))
