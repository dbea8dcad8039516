"""Blocks whose rows are known, and made where they are first looked at: by a worker, not by whoever hands them out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from headrace.block import Block, Ids, Item, concat, pick_rows
from headrace.columns import Column, Indices
from headrace.columns.refs import BackgroundCheck, RecordRefs, join_refs
from headrace.plan.marks import Mark
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import LEAF, Structure

POINTER = 128
"""What a row takes of which it is only known where it lies, more or less."""
MOVED = 400
"""Bytes of a row that costs more to move than to say where it lies …"""
MOVED_ALONE = 8 << 10
"""… where the thread that moves it also makes it."""
RECORD = TensorSpec((), bytes)
LARGE = 1 << 18
"""Bytes of rows that take long enough to copy to be worth another thread's time."""


class LateBlock(Block):
    """Its columns are made when they are first asked for."""

    __slots__ = ("_columns", "_lent")

    def __init__(self, structure: Structure, rows: int, nbytes: int, mark: Mark | None, ids: Ids | None) -> None:
        super().__init__(structure, [], rows, mark, ids)
        self._columns: list[Column] | None = None
        self._lent: RecordRefs | None = None
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

    def pointed(self) -> RecordRefs | None:
        """Where its rows lie, if they are records of which nothing else is known yet."""
        return None

    @property
    def late_spec(self) -> TensorSpec | None:
        """Of records, where nothing is known but where they lie."""
        return RECORD if self._columns is None and _is_pointed_at(self) else None

    def arguments(self, in_place: frozenset[int]) -> list[Column]:
        """As those of other blocks; records that may be read where they lie are not copied."""
        self._lent = self.pointed() if 0 in in_place and self._columns is None else None
        return self.columns if self._lent is None else [self._lent]

    def look(self) -> None:
        """Make the rows, unless somebody has seen that they are sound."""
        if self._lent is None or not self._lent.sound:
            self.make()

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
    """See that its rows are sound, also those that nobody wants: others may not follow where they are not."""
    if isinstance(item, LateBlock):
        item.look()


class LateRecords(LateBlock):
    """Records by reference, copied and verified where they are used.

    No row follows a bad record of a file. So if these were drawn from a buffer, the records that went into it before
    must pass their checks first.
    """

    __slots__ = ("_checks", "refs")

    def __init__(self, refs: RecordRefs, ids: Ids | None, checks: Sequence[BackgroundCheck] = ()) -> None:
        super().__init__(LEAF, len(refs), refs.nbytes, None, ids)
        self.refs = refs
        self._checks = checks

    @property
    def numbers(self) -> Indices | None:
        """The ordinals that rows which were drawn had in the input of the shuffle."""
        return None if self.refs.consecutive else self.refs.where[:, 3]

    def make(self) -> None:
        """Copy the records."""
        if self._columns is None:
            self._columns = [self.pointed().copy()]

    def pointed(self) -> RecordRefs:
        """The references, once what went into the buffer before has passed its checks."""
        for check in self._checks:
            check.wait()
        self._checks = ()
        return self.refs

    def _part(self, start: int, stop: int) -> Block:
        ids = None if self.ids is None else self.ids[start:stop]
        return LateRecords(self.refs.cut(start, stop), ids, self._checks)


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
            pointed = self.pointed()
            self._columns = pick_rows(parts, self.order).columns if pointed is None else [pointed.copy()]
            self.parts = ()

    def pointed(self) -> RecordRefs | None:
        """Where its rows lie, if that is all that is known of those of all parts."""
        found = [part.pointed() if isinstance(part, LateBlock) else None for part in self.parts]
        known = [each for each in found if each is not None]
        return join_refs(known).take(self.order) if known and len(known) == len(found) else None

    def _part(self, start: int, stop: int) -> Block:
        ids = None if self.ids is None else self.ids[start:stop]
        return UnmergedBlock(self.parts, self.order[start:stop], ids, self.nbytes * (stop - start) // max(1, self.rows))


def merge_rows(parts: Sequence[Block], order: Indices) -> Block:
    """As `pick_rows`; rows that are large, or late themselves, are copied when they are used."""
    late = isinstance(parts[0], LateBlock) or sum(p.nbytes for p in parts) >= LARGE
    return UnmergedBlock.of(parts, order) if late else pick_rows(parts, order)


def join_late(parts: Sequence[Block]) -> Block:
    """As `concat`; rows that are late stay so."""
    if not any(isinstance(part, LateBlock) for part in parts):
        return concat(parts)
    return UnmergedBlock.of(parts, np.arange(sum(part.rows for part in parts)))
