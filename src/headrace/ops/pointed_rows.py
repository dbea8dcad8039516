"""Rows that lie in files of this machine, in a buffer that holds only where."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.arrow_text import binary
from headrace.block import Block, Ids, Item
from headrace.execute.stream import END, Pulled, Source
from headrace.late_block import LateBlock, UnmergedBlock, UnsoundError
from headrace.ops.buffer_size import Peeked
from headrace.ops.slots import Slots
from headrace.plan.structure import LEAF
from headrace.records.files import Bytes
from headrace.sources.late_records import LateRecords

T = TypeVar("T")
Places = NDArray[np.int64]
"""Of each row the number of its file, and the bytes where it begins and ends."""

FILES = 64
"""Beyond so many files it is looked now and then which of them still have rows in the buffer."""


class KnownFile(NamedTuple):
    """A file whose rows are pointed at."""

    data: Bytes
    file: _native.MappedFile
    address: int


Files = list[KnownFile]


class PickedRecords(LateBlock):
    """Records by where each of them lies, copied when they are used."""

    __slots__ = ("_files", "_places")

    def __init__(self, places: Places, files: Files, ids: Ids | None) -> None:
        super().__init__(LEAF, len(places), int((places[:, 2] - places[:, 1]).sum()), None, ids)
        self._places = places
        self._files = files

    def make(self) -> None:
        if self._columns is not None:
            return
        self._columns = [binary(*_looked_at(_native.unframe_at, self._places, self._files))]

    def _part(self, start: int, stop: int) -> Block:
        ids = None if self.ids is None else self.ids[start:stop]
        return PickedRecords(self._places[start:stop], self._files, ids)


def _looked_at(look: Callable[[list[Bytes], Places, Places], T | None], places: Places, files: Files) -> T:
    """What `look` makes of the bytes of files, which of them has each row, and where; raises where it is not sound."""
    which = np.ascontiguousarray(places[:, 0])
    files[0].file.load(0, 0)
    found = look([each.data for each in files], which, places[:, 1:].ravel())
    used = np.flatnonzero(np.bincount(which))
    if found is None or not all(files[number].file.intact for number in used.tolist()):
        raise UnsoundError
    return found


class PointedRows(Peeked):
    """An input, of whose rows it only says where they lie, if they can be had late: a block holds their `Places`.

    They are looked at, since behind one that is bad there may be no others, but not copied.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._files: Files = []
        self._numbers: dict[int, int] = {}
        self._looked = FILES
        self._pointing: bool | None = None
        self._merged: tuple[object, Places] | None = None

    def pull(self, want: int) -> Pulled:
        """As many rows as are wanted, if there are; what cannot be pointed at, as it comes."""
        parts: list[Block] = []
        found: list[Places] = []
        rows = 0
        while rows < want and (item := super().pull(want - rows)) is not END:
            places = self._places(item) if isinstance(item, Block) and self._pointing is not False else None
            if places is None:
                if not parts:
                    return self._as_it_comes(item)
                self._pending.put_back(item)
                break
            self._pointing = True
            assert isinstance(item, Block)
            parts.append(item)
            found.append(places)
            rows += item.rows
        if not parts:
            return END
        places = found[0] if len(found) == 1 else np.concatenate(found)
        _looked_at(_all_good, places, self._files)
        ids = None if parts[0].ids is None else np.concatenate([p.ids for p in parts if p.ids is not None])
        return Block(LEAF, [places], rows, parts[0].mark, ids)

    def _as_it_comes(self, item: Item) -> Item:
        if isinstance(item, Block):
            if self._pointing:  # rows are held that only say where they lie, and these are others
                raise UnsoundError
            self._pointing = False
        return item

    def _places(self, block: Block) -> Places | None:
        """Where its rows lie, None where that is not to be said."""
        if isinstance(block, LateRecords):
            data, bounds, file = block.frames
            number, start = self._number(file, data)
            places = np.empty((block.rows, 3), np.int64)
            places[:, 0] = number
            places[:, 1] = bounds[:-1]
            places[:, 2] = bounds[1:]
            places[:, 1:] += start
            return places
        if not isinstance(block, UnmergedBlock) or not block.parts:
            return None
        if self._merged is None or self._merged[0] is not block.parts:  # else another part of the same
            parts = [self._places(part) for part in block.parts]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            self._merged = block.parts, np.concatenate(known)
        return self._merged[1][block.order]

    def _number(self, file: _native.MappedFile, data: Bytes) -> tuple[int, int]:
        """The number of a file, and where in it these bytes begin."""
        number = self._numbers.get(id(file))
        if number is None:
            number = self._numbers[id(file)] = len(self._files)
            self._files.append(KnownFile(file.data, file, _address(file.data)))
        return number, _address(data) - self._files[number].address

    def rows_of(self, item: Item, slots: Slots) -> Item:
        """Rows that the buffer gives out: late ones, where it holds places."""
        if not isinstance(item, Block) or not self._pointing:
            return item
        (places,) = item.columns
        rows = PickedRecords(places, self._files, item.ids)
        rows.mark, rows.own, rows.offset = item.mark, item.own, item.offset
        if len(self._files) > self._looked:
            self._forget(slots)
        return rows

    def _forget(self, slots: Slots) -> None:
        """Let go of files that have no more rows in the buffer; rows that were given out know those they need."""
        numbers = slots.numbers()[:, 0]
        there = (numbers >= 0) & (numbers < len(self._files))  # empty slots hold anything
        used, numbers[there] = np.unique(numbers[there], return_inverse=True)
        self._files = [self._files[number] for number in used.tolist()]
        self._numbers = {id(known.file): number for number, known in enumerate(self._files)}
        self._merged = None
        self._looked = max(FILES, 2 * len(self._files))


def _all_good(parts: list[Bytes], which: Places, bounds: Places) -> bool | None:
    return _native.verify_at(parts, which, bounds) or None


def _address(data: Bytes) -> int:
    address: int = data.__array_interface__["data"][0]
    return address
