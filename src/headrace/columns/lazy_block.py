"""Lazy blocks: their rows are materialized on first use, by a worker thread and not by the thread that
hands them out.

There are two: a `RecordBlock` refers to records of mapped files (`RecordRefs`), a `Selection` to rows of blocks in
memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from headrace.columns import Column, Indices
from headrace.columns.block import Block, Ids, Item, SlicedColumns, concat, pick_rows
from headrace.columns.refs import BackgroundCheck, RecordRefs, box_records, join_refs
from headrace.plan.marks import Mark
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import LEAF, Structure

REFERENCE_BYTES = 128
"""The approximate bytes of a reference to a row."""
MIN_REFERENCED_ROW_BYTES = 400
"""A row of this many bytes costs more to move than a reference …"""
MIN_REFERENCED_ROW_BYTES_ALONE = 8 << 10
"""… if the thread that moves it also materializes it."""
RECORD = TensorSpec((), bytes)
MIN_LAZY_BLOCK_BYTES = 1 << 18
"""Blocks of at least this size are copied lazily, by the thread that uses them."""


class LazyBlock(Block):
    """A block whose columns are materialized on first use."""

    __slots__ = ("_lent", "_made")

    def __init__(self, structure: Structure, rows: int, nbytes: int, mark: Mark | None, ids: Ids | None) -> None:
        super().__init__(structure, [], rows, mark, ids)
        self._made: list[Column] | None = None
        self._lent: RecordRefs | None = None
        self._nbytes = nbytes

    @property
    def columns(self) -> list[Column]:
        """The rows."""
        self.make()
        assert self._made is not None
        return self._made

    @columns.setter
    def columns(self, columns: list[Column]) -> None:
        self._made = columns

    def sliced_columns(self) -> SlicedColumns:
        return self.columns, 0

    @abstractmethod
    def make(self) -> None:
        """Materialize the rows now, in this thread. Raise CorruptRecordsError if they are corrupt."""

    @abstractmethod
    def _part(self, start: int, stop: int) -> Block:
        """Return some of the rows, lazily."""

    def pointed(self) -> RecordRefs | None:
        """Return references to its rows, if they are records that are not materialized yet."""
        return None

    @property
    def late_spec(self) -> TensorSpec | None:
        """Return the spec of records that are not materialized yet."""
        return RECORD if self._made is None and _is_pointed_at(self) else None

    def arguments(self, in_place: frozenset[int]) -> list[Column]:
        """Return the columns like other blocks; records that may be read in place are not copied."""
        self._lent = self.pointed() if 0 in in_place and self._made is None else None
        return self.columns if self._lent is None else [self._lent]

    def look(self) -> None:
        """Materialize the rows, unless they were verified before."""
        if self._lent is None or not self._lent.sound:
            self.make()

    def cut(self, start: int, stop: int) -> Block:
        """Return the elements, as other blocks do."""
        if self._made is not None:
            self._columns = self._made
            return super().cut(start, stop)
        part = self._part(start, stop)
        part.mark, part.own, part.offset = self.mark, self.own, self.offset + start
        return part


def held_bytes(item: Item) -> int:
    """Return how much memory an item takes now, without materializing it."""
    return REFERENCE_BYTES * item.rows if _is_pointed_at(item) else item.nbytes


def _is_pointed_at(item: Item) -> bool:
    """Return whether the rows are only references."""
    if isinstance(item, Selection):
        return bool(item.parts) and all(map(_is_pointed_at, item.parts))
    return isinstance(item, LazyBlock)


def look_at(item: Item) -> None:
    """Verify its rows, also unwanted ones: no rows may follow corrupt ones."""
    if isinstance(item, LazyBlock):
        item.look()


class RecordBlock(LazyBlock):
    """Records by reference, copied and verified when they are used.

    No row follows a bad record of a file. So if these were drawn from a buffer, the records that went into it before
    must pass their checks first.
    """

    __slots__ = ("_checks", "refs")

    def __init__(self, refs: RecordRefs, ids: Ids | None, checks: Sequence[BackgroundCheck] = ()) -> None:
        super().__init__(LEAF, len(refs), refs.nbytes, None, ids)
        self.refs: RecordRefs = refs
        self._checks = checks

    @property
    def numbers(self) -> Indices | None:
        """The ordinals that rows which were drawn had in the input of the shuffle."""
        return None if self.refs.consecutive else self.refs.where[:, 3]

    def make(self) -> None:
        """Copy the records."""
        if self._made is None:
            self._made = [self.pointed().copy()]

    def pointed(self) -> RecordRefs:
        """Return the references, once what went into the buffer before has passed its checks."""
        for check in self._checks:
            check.wait()
        self._checks = ()
        return self.refs

    def _part(self, start: int, stop: int) -> Block:
        ids = None if self.ids is None else self.ids[start:stop]
        return RecordBlock(self.refs.cut(start, stop), ids, self._checks)


class Selection(LazyBlock):
    """Rows of several blocks in a new order; holds these until they are copied."""

    __slots__ = ("order", "parts")

    def __init__(self, parts: Sequence[Block], order: Indices, ids: Ids | None, nbytes: int) -> None:
        super().__init__(parts[0].structure, len(order), nbytes, parts[0].mark, ids)
        self.parts: Sequence[Block] = parts
        self.order: Indices = order

    @classmethod
    def of(cls, parts: Sequence[Block], order: Indices) -> Selection:
        """Return these rows of all of these blocks."""
        ids = None if parts[0].ids is None else np.concatenate([p.ids for p in parts if p.ids is not None])[order]
        nbytes = sum(p.nbytes for p in parts) * len(order) // max(1, sum(p.rows for p in parts))
        return cls(parts, order, ids, nbytes)

    def make(self) -> None:
        """Copy the rows. A block that others were cut from belongs to several threads, two of which may do this."""
        parts = self.parts
        if parts:
            pointed = self.pointed()
            self._made = pick_rows(parts, self.order).columns if pointed is None else [pointed.copy()]
            self.parts = ()

    def pointed(self) -> RecordRefs | None:
        """Return references to its rows, if all parts are only references."""
        found = [part.pointed() if isinstance(part, LazyBlock) else None for part in self.parts]
        known = [each for each in found if each is not None]
        return join_refs(known).take(self.order) if known and len(known) == len(found) else None

    def boxed(self) -> Block:
        """Return the rows materialized now, in this thread: records as bytes objects."""
        records = [part.pointed() if isinstance(part, LazyBlock) else None for part in self.parts]
        refs = [each for each in records if each is not None and each.consecutive]
        if len(refs) < len(records):
            self.make()
            return self
        return Block(LEAF, [box_records(refs, self.order)], self.rows, self.mark, self.ids, nbytes=self.nbytes)

    def _part(self, start: int, stop: int) -> Block:
        ids = None if self.ids is None else self.ids[start:stop]
        return Selection(self.parts, self.order[start:stop], ids, self.nbytes * (stop - start) // max(1, self.rows))


def merge_rows(parts: Sequence[Block], order: Indices) -> Block:
    """Like `pick_rows`; rows that are large, or lazy themselves, are copied when they are used."""
    late = isinstance(parts[0], LazyBlock) or sum(p.nbytes for p in parts) >= MIN_LAZY_BLOCK_BYTES
    return Selection.of(parts, order) if late else pick_rows(parts, order)


def join_late(parts: Sequence[Block]) -> Block:
    """Like `concat`; lazy rows stay lazy."""
    if not any(isinstance(part, LazyBlock) for part in parts):
        return concat(parts)
    return Selection.of(parts, np.arange(sum(part.rows for part in parts)))
