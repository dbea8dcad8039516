"""Blocks whose rows are known, and made where they are first looked at: by a worker, not by whoever hands them out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from headrace import _native
from headrace.block import Block, Ids, Item, concat, pick_rows
from headrace.columns import Column, Indices
from headrace.plan.marks import Mark
from headrace.plan.structure import Structure

POINTER = 128
"""What a row takes of which it is only known where it lies, more or less."""
MOVED = 400
"""Bytes of a row that costs more to move than to say where it lies …"""
MOVED_ALONE = 8 << 10
"""… where the thread that moves it also makes it."""
LARGE = 1 << 18
"""Bytes of rows that take long enough to copy to be worth another thread's time."""


class UnsoundError(BaseException):
    """Rows that were handed out unseen are not what they should be: they must be read again, and looked at at once.

    Where their `bounds` in `files` are given, it knows which of these they are in.
    """

    def __init__(self, files: Sequence[_native.MappedFile] = (), bounds: Sequence[Indices] = ()) -> None:
        super().__init__()
        self._bad = [file.path for file, some in zip(files, bounds, strict=True) if not _are_good(file, some)]

    def where(self) -> str:
        """In which file they are, if that is known."""
        return f" ({self._bad[0]})" if self._bad else ""


def _are_good(file: _native.MappedFile, bounds: Indices) -> bool:
    """Whether the records between these bounds, two for each, are what they should be."""
    places = np.zeros((len(bounds), 4), np.int64)
    places[:, 1:3] = bounds
    return _native.Verification([file], places).good()


class LateBlock(Block):
    """Its columns are made when they are first asked for."""

    __slots__ = ("_columns",)

    def __init__(self, structure: Structure, rows: int, nbytes: int, mark: Mark | None, ids: Ids | None) -> None:
        super().__init__(structure, [], rows, mark, ids)
        self._columns: list[Column] | None = None
        self._nbytes = nbytes

    @property
    def columns(self) -> list[Column]:
        """The rows."""
        self.make()
        assert self._columns is not None
        return self._columns

    @columns.setter
    def columns(self, columns: list[Column]) -> None:
        self._columns = columns

    @abstractmethod
    def make(self) -> None:
        """Make the rows now, in this thread, if they are not there; raises UnsoundError where they are none."""

    @abstractmethod
    def _part(self, start: int, stop: int) -> Block:
        """Some of the rows, not made yet either."""

    @staticmethod
    def merging(parts: Sequence[Block], order: Indices) -> Block:
        """As `pick_rows`, of several such blocks."""
        return pick_rows(parts, order)

    def cut(self, start: int, stop: int) -> Block:
        """As that of other blocks."""
        if self._columns is not None:
            return super().cut(start, stop)
        part = self._part(start, stop)
        part.mark, part.own, part.offset = self.mark, self.own, self.offset + start
        return part


def held_bytes(item: Item) -> int:
    """How much memory an item takes as it is."""
    return POINTER * item.rows if _is_pointed_at(item) else item.nbytes


def _is_pointed_at(item: Item) -> bool:
    """Whether nothing is there but where the rows lie."""
    if isinstance(item, UnmergedBlock):
        return bool(item.parts) and all(map(_is_pointed_at, item.parts))
    return isinstance(item, LateBlock)


def look_at(item: Item) -> None:
    """Have it made, if it is not: also rows that nobody wants must be sound, since others may not follow where not."""
    if isinstance(item, LateBlock):
        item.make()


class UnmergedBlock(LateBlock):
    """Rows of several blocks in a new order; holds these until they are copied."""

    __slots__ = ("order", "parts")

    def __init__(self, parts: Sequence[Block], order: Indices, ids: Ids | None, nbytes: int) -> None:
        super().__init__(parts[0].structure, len(order), nbytes, parts[0].mark, ids)
        self.parts = parts
        self.order = order

    @classmethod
    def of(cls, parts: Sequence[Block], order: Indices) -> UnmergedBlock:
        """These rows of all of these blocks."""
        ids = None if parts[0].ids is None else np.concatenate([p.ids for p in parts if p.ids is not None])[order]
        nbytes = sum(p.nbytes for p in parts) * len(order) // max(1, sum(p.rows for p in parts))
        return cls(parts, order, ids, nbytes)

    def make(self) -> None:
        """Copy the rows. A block that others were cut from belongs to several threads, two of which may do this."""
        parts = self.parts
        if parts:
            self._columns = _merging(parts)(parts, self.order).columns
            self.parts = ()

    def _part(self, start: int, stop: int) -> Block:
        ids = None if self.ids is None else self.ids[start:stop]
        return UnmergedBlock(self.parts, self.order[start:stop], ids, self.nbytes * (stop - start) // max(1, self.rows))


def _merging(parts: Sequence[Block]) -> Callable[[Sequence[Block], Indices], Block]:
    """What puts rows of such blocks in order."""
    kind = type(parts[0])
    alike = issubclass(kind, LateBlock) and all(type(part) is kind for part in parts)
    return kind.merging if alike else pick_rows  # type: ignore[attr-defined]  # it is a LateBlock


def merge_rows(parts: Sequence[Block], order: Indices) -> Block:
    """As `pick_rows`; rows that are large, or late themselves, are copied when they are used."""
    late = isinstance(parts[0], LateBlock) or sum(p.nbytes for p in parts) >= LARGE
    return UnmergedBlock.of(parts, order) if late else pick_rows(parts, order)


def join_late(parts: Sequence[Block]) -> Block:
    """As `concat`; rows that are late stay so."""
    if not any(isinstance(part, LateBlock) for part in parts):
        return concat(parts)
    return UnmergedBlock.of(parts, np.arange(sum(part.rows for part in parts)))
