"""The rows that a shuffle buffer holds, copied into slots: packed rows of bytes, and pools for text and objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from headrace import _native
from headrace.columns import Column, Indices, Stacked, column_of, kind_of, values
from headrace.columns.arrow_text import binary, is_plain, nbytes, parts
from headrace.columns.block import Block, Item, from_elements
from headrace.columns.dense import MIN_THREADED_COPY_BYTES, copy_with_help, pooled
from headrace.core.types import Array, Component
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    import pyarrow as pa

Dense = Array

MAX_BYTES_AT_ONCE = 1 << 30
"""Up to this size all slots are allocated at once: pages that are never touched take no memory."""

MAX_SLOTS_AT_ONCE = 1 << 20
"""More slots than this are allocated as rows arrive: some are initialized, which takes memory."""

LARGE_ROW_BYTES = 1 << 14
"""A row of this size is not copied if its source keeps it in memory."""

MAX_TOGETHER_BYTES = 64 << 20
"""Up to this size, expected rows are returned contiguously."""

MAX_PACKED_BYTES = 400
"""The largest packed row."""

MAX_PACKED_COLUMN_BYTES = 64
"""A value of more bytes has its own slots: copying it alone is as fast."""

MIN_PACKED_COLUMNS = 12
"""Fewer columns are exchanged one by one, which is faster than packing them."""

EMPTY: Dense = np.empty(0)

NOWHERE = -1
"""The pool index for a slot that never held a row."""


class RowSlots:
    """Packed slots for the rows of some columns: the values of a row are contiguous.

    Slots that never held a row hold `blank` in their first column, if it is given.
    """

    def __init__(self, like: list[Dense], blank: int | None = None) -> None:
        self._shapes = [column.shape[1:] for column in like]
        self._dtypes = [column.dtype for column in like]
        sizes = [column.dtype.itemsize * prod(column.shape[1:]) for column in like]
        self._bounds = [*accumulate(sizes, initial=0)]
        self.row_bytes: int = self._bounds[-1]
        self._rows = np.empty((0, self.row_bytes), np.uint8)
        self._blank = blank
        self._rest: list[Dense] = []

    def grow(self, room: int) -> None:
        """Grow to `room` slots."""
        old, self._rows = self._rows, pooled((room, self.row_bytes), np.uint8)
        self._rows[: len(old)] = old
        if self._blank is not None:
            self.column(0)[len(old) :] = self._blank

    def column(self, number: int) -> Dense:
        """Return the values of one column in all slots, without a copy."""
        dtype, shape = self._dtypes[number], (len(self._rows), *self._shapes[number])
        start, stop = self._bounds[number : number + 2]
        return self._rows[:, start:stop].view(dtype).reshape(shape) if start < stop else np.empty(shape, dtype)

    def place(self, slots: Indices | slice, columns: list[Dense]) -> None:
        """Put rows into empty slots; an array of slots, or a run of them."""
        if len(columns) == 1 and isinstance(slots, slice):  # which may be a large one in any order
            copy_with_help(columns[0], self.column(0)[slots])
        elif isinstance(slots, slice):
            _native.pack_columns(_in_order(columns), self._rows[slots])
        else:
            packed = np.empty((len(slots), self.row_bytes), np.uint8)
            _native.pack_columns(_in_order(columns), packed)
            _native.copy_rows(packed, self._rows, None, slots)

    def exchange(self, hole: int, columns: list[Dense], draws: Indices, into: list[Dense] | None = None) -> list[Dense]:
        """Fill the hole with row i, return slot draws[i] and make it the hole; `into` these columns, or new ones."""
        out = self._out(len(draws)) if into is None else into
        _native.shuffle_exchange(self._rows, hole, _in_order(columns), draws, out)
        return out

    def drain(self, used: int, draws: Indices) -> list[Dense]:
        """Give out slot draws[i]; the last one in use takes its place."""
        out = self._out(len(draws))
        _native.shuffle_drain(self._rows, used, draws, out)
        return out

    def gather(self, slots: Indices) -> list[Dense]:
        """Return the rows of these slots, in this order."""
        out = self.empty(len(slots))
        _native.gather_columns(self._rows, slots, out)
        return out

    def peek(self, slots: slice) -> list[Dense]:
        """Return the rows of a run of slots; of empty ones anything."""
        rows = self._rows[slots]
        out = self.empty(len(rows))
        _native.unpack_columns(rows, out)
        return out

    def move(self, slot: int, last: int) -> None:
        """Move the row of slot `last` into an empty one."""
        self._rows[slot] = self._rows[last]

    def expect(self, rows: int) -> None:
        """Announce that `rows` rows will be requested: large ones are made contiguous, so that none is copied to join
        them.
        """
        wide = len(self._dtypes) == 1 and self.row_bytes * rows >= MIN_THREADED_COPY_BYTES
        if wide and not (self._rest and len(self._rest[0])):
            self._rest = self.empty(min(rows, max(1, MAX_TOGETHER_BYTES // self.row_bytes)))

    def _out(self, rows: int) -> list[Dense]:
        """Memory for rows that are returned."""
        if not self._rest or rows > len(self._rest[0]):
            self._rest = []
            return self.empty(rows)
        out = [rest[:rows] for rest in self._rest]
        self._rest = [rest[rows:] for rest in self._rest]
        return out

    def empty(self, rows: int) -> list[Dense]:
        """Allocate columns for `rows` rows."""
        before = _native.use_pool()
        try:
            return [np.empty((rows, *s), d) for s, d in zip(self._shapes, self._dtypes, strict=True)]
        finally:
            _native.use_pool(before)


def _in_order(columns: list[Dense]) -> list[Dense]:
    return [np.ascontiguousarray(column) for column in columns]


class Codec(Protocol):
    """Convert the rows of one column to numbers, and back."""

    like: Dense
    """An empty array of the converted type."""
    blank: int | None
    """The value of slots that never held a row, if it matters."""

    def fits(self, column: Column) -> bool:
        """Return whether it takes rows of this column."""

    def keep(self, column: Column) -> Dense:
        """Store the rows in slots."""

    def give(self, rows: Dense) -> Column:
        """Return the rows that leave their slots, which are forgotten."""

    def look(self, rows: Dense) -> Column:
        """Return the rows of these slots; of those that never held one anything."""


class DenseCodec:
    """Rows of one dtype and shape, as they are."""

    blank: int | None = None

    def __init__(self, like: Dense) -> None:
        self.like: Dense = like[:0]

    def fits(self, column: Column) -> bool:
        like = self.like
        return isinstance(column, np.ndarray) and column.dtype == like.dtype and column.shape[1:] == like.shape[1:]

    def keep(self, column: Column) -> Dense:
        assert isinstance(column, np.ndarray)
        return column

    def give(self, rows: Dense) -> Dense:
        return rows

    def look(self, rows: Dense) -> Dense:
        return rows


class PoolCodec(ABC):
    """Rows in a pool, by their indices."""

    like: Dense = np.empty(0, np.int64)
    blank: int | None = NOWHERE

    @abstractmethod
    def _find(self, places: Indices) -> Iterable[Any]:
        """Return the rows of these places, as objects."""

    def look(self, rows: Dense) -> list[Component]:
        found = np.full(len(rows), None)
        found[rows != NOWHERE] = np.fromiter(self._find(rows[rows != NOWHERE]), object)
        return found.tolist()


class TextCodec(PoolCodec):
    """Bytes or strings in Arrow's layout."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._pool = _native.TextPool()

    def fits(self, column: Column) -> bool:
        return _is_text(column) and column.type == self._kind

    def keep(self, column: Column) -> Indices:
        return self._pool.keep(*parts(column))

    def give(self, rows: Dense) -> Column:
        return binary(*self._pool.give(rows), self._kind)

    def _find(self, places: Indices) -> Iterable[Any]:
        return values(binary(*self._pool.read(places), self._kind))


class ObjectCodec(PoolCodec):
    """Store large texts, ragged rows and anything else as objects."""

    def __init__(self, *, copies: bool = True) -> None:
        self._copies = copies
        self._pool = np.empty(0, object)
        self._touched = 0
        self._free: list[Indices] = []

    def fits(self, column: Column) -> bool:  # noqa: ARG002
        return True

    def keep(self, column: Column) -> Indices:
        """Store rows in free slots first, then append."""
        need, found = len(column), []
        while need and self._free:
            part = self._free.pop()
            found.append(part[:need])
            if len(part) > need:
                self._free.append(part[need:])
            need -= len(found[-1])
        found.append(np.arange(self._touched, self._touched + need))
        self._touched += need
        if self._touched > len(self._pool):
            more = max(self._touched, 2 * len(self._pool)) - len(self._pool)
            self._pool = np.concatenate([self._pool, np.empty(more, object)])
        places = np.concatenate(found)
        self._pool[places] = _boxes(column, copies=self._copies)
        return places

    def give(self, rows: Dense) -> Column:
        found = self._pool[rows].tolist()
        self._pool[rows] = None
        self._free.append(rows)
        made = column_of(found)
        return made.copy() if not self._copies and len(found) == 1 and isinstance(made, np.ndarray) else made

    def _find(self, places: Indices) -> Iterable[Any]:
        return iter(self._pool[places])


class Slots:
    """Numbered slots for rows. `extra` columns (ids, ordinals) travel with the rows.

    Rows that are `kept` in memory anyway are not copied, if they are large. With `exact` there will be as many rows as
    slots, so that all are allocated at once.
    """

    def __init__(self, capacity: int, *, kept: bool = False, exact: bool = False) -> None:
        self._capacity = capacity
        self._kept = kept
        self._exact = exact
        self._room = 0
        self._top = 0
        self._structure: Structure | None = None
        self._whole = False
        self._codecs: list[Codec] = []
        self._groups: list[SlotGroup] = []
        self._extra: list[RowSlots] = []
        self._reserved = 0
        self._joined: list[list[Dense]] = []
        self._joined_rows = 0
        self._finished: list[Item] = []

    @property
    def extra(self) -> list[Dense]:
        """The columns that travel along; slots that never held a row have the largest number."""
        return [e.column(0) for e in self._extra]

    def numbers(self) -> Dense:
        """Return the only column, if it is one of numbers, up to the last slot that held a row; in others anything."""
        (group,) = self._groups
        return group.slots.column(0)[: self._top]

    def _admit(self, block: Block, extra: list[Dense], top: int) -> list[Dense]:
        """Return the rows in slot layout, for slots up to `top`."""
        if self._structure is None:
            self._structure = block.structure
            self._codecs = [_codec(c, self._kept) for c in block.columns]
            self._groups = _groups(self._codecs)
            self._extra = [RowSlots([e], np.iinfo(e.dtype).max) for e in extra]
        elif not (self._whole or self._fits(block)):
            self._finished = self.finish()
            held = self._peek(slice(0, self._top))
            columns = [codec.look(rows) for codec, rows in zip(self._codecs, held, strict=True)]
            self._whole, self._codecs = True, [ObjectCodec()]
            self._groups = _groups(self._codecs)
            self._groups[0].slots.grow(self._room)
            elements = _elements(Block(self._structure, columns, self._top))
            self._groups[0].slots.place(slice(0, self._top), [self._codecs[0].keep(elements)])
        self._grow(top)
        self._top = max(self._top, top)
        columns = [_elements(block)] if self._whole else block.columns
        return [codec.keep(column) for codec, column in zip(self._codecs, columns, strict=True)]

    def _fits(self, block: Block) -> bool:
        if block.structure != self._structure:
            return False
        return all(codec.fits(c) for codec, c in zip(self._codecs, block.columns, strict=True))

    def _every(self) -> list[RowSlots]:
        return [*(group.slots for group in self._groups), *self._extra]

    def _grow(self, size: int) -> None:
        """Room for `size` slots, and not much more: the requested buffer may be far larger than the data."""
        if size <= self._room:
            return
        row_bytes = 8 + sum(s.row_bytes for s in self._every())
        few = self._capacity <= MAX_SLOTS_AT_ONCE and self._capacity * row_bytes <= MAX_BYTES_AT_ONCE
        at_once = self._exact or few
        self._room = self._capacity if at_once else min(self._capacity, max(size, 2 * self._room))
        for slots in self._every():
            slots.grow(self._room)

    def place(self, slots: Indices | slice, block: Block, extra: list[Dense]) -> None:
        """Put the rows of `block` into these slots; an array of slots, or a run of them as a slice."""
        columns = self._admit(block, extra, slots.stop if isinstance(slots, slice) else int(slots.max()) + 1)
        for numbers, rows in self._groups:
            rows.place(slots, [columns[number] for number in numbers])
        for along, new in zip(self._extra, extra, strict=True):
            along.place(slots, [new])

    def expect(self, rows: int) -> None:
        """Announce that `rows` rows will be requested."""
        for group in self._groups:
            group.slots.expect(rows)

    def reserve(self, rows: int) -> int:
        """Collect the next exchanges in one block, which `finish` returns. Return its rows: these, or what fits."""
        row_bytes = sum(slots.row_bytes for slots in self._every())
        self._reserved = max(1, min(rows, MAX_TOGETHER_BYTES // max(1, row_bytes)))
        return self._reserved

    def exchange(self, hole: int, block: Block, extra: list[Dense], draws: Indices) -> list[Item]:
        """Let row i of `block` fill the hole, and slot draws[i] be given out and become the hole.

        Returns what was given out and is not part of a block that `finish` gives.
        """
        columns = self._admit(block, extra, hole + 1)
        incoming = [[columns[n] for n in group.numbers] for group in self._groups] + [[new] for new in extra]
        finished, self._finished = self._finished, []
        start, stop = self._joined_rows, self._joined_rows + len(draws)
        if not start and self._reserved:
            self.reserve(self._reserved)  # the first rows determine the size
        if stop > self._reserved:
            made = [slots.exchange(hole, new, draws) for slots, new in zip(self._every(), incoming, strict=True)]
            return [*finished, *self.finish(), *self._given_by_all(made, len(draws))]
        if not start:
            self._joined = [slots.empty(self._reserved) for slots in self._every()]
        for slots, new, whole in zip(self._every(), incoming, self._joined, strict=True):
            slots.exchange(hole, new, draws, [column[start:stop] for column in whole])
        self._joined_rows = stop
        return finished

    def finish(self) -> list[Item]:
        """Return the rows of all exchanges since `reserve`."""
        made, rows = self._joined, self._joined_rows
        self._joined, self._joined_rows, self._reserved = [], 0, 0
        return self._given_by_all([[column[:rows] for column in whole] for whole in made], rows) if rows else []

    def _given_by_all(self, made: list[list[Dense]], rows: int) -> list[Item]:
        """Return rows as blocks, out of the columns of each group and those that travel along."""
        count = len(self._groups)
        return self._given(self._ungrouped(made[:count]), [along for (along,) in made[count:]], rows)

    def drain(self, used: int, draws: Indices) -> list[Item]:
        """Give out slot draws[i]; the last one in use takes its place."""
        return self._given_by_all([slots.drain(used, draws) for slots in self._every()], len(draws))

    def give(self, slots: Indices) -> list[Item]:
        """Give out the rows of these slots, each for the only time."""
        return self._given_by_all([each.gather(slots) for each in self._every()], len(slots))

    def pop(self, slot: int) -> Item:
        """Give out the row of one slot."""
        one = slice(slot, slot + 1)
        return self._given_by_all([slots.peek(one) for slots in self._every()], 1)[0]

    def rows_at(self, slots: list[int]) -> list[tuple[Structure, Sequence[Any]]]:
        """Return the rows of these slots, none of them empty, which stay there: their structures and components."""
        places = np.array(slots, np.int64)
        made = [[rows.column(i)[places] for i in range(len(numbers))] for numbers, rows in self._groups]
        columns = [c.look(rows) for c, rows in zip(self._codecs, self._ungrouped(made), strict=True)]
        if self._whole:
            return [*values(columns[0])]
        assert self._structure is not None
        return [(self._structure, leaves) for leaves in Block(self._structure, columns, len(slots)).leaves()]

    def _peek(self, slots: slice) -> list[Dense]:
        """Return the columns of a run of slots; in empty ones anything."""
        return self._ungrouped([group.slots.peek(slots) for group in self._groups])

    def _ungrouped(self, made: list[list[Dense]]) -> list[Dense]:
        """Return the columns of all groups, in their order."""
        if len(made) == 1 and len(made[0]) == 1:
            return made[0]
        found: list[Dense] = [EMPTY] * len(self._codecs)
        for group, columns in zip(self._groups, made, strict=True):
            for number, column in zip(group.numbers, columns, strict=True):
                found[number] = column
        return found

    def close_up(self, hole: int, last: int) -> None:
        """Move the last slot in use into the hole."""
        if last < self._room:
            for slots in self._every():
                slots.move(hole, last)

    def _given(self, columns: list[Dense], extra: list[Dense], rows: int) -> list[Item]:
        """Return rows as blocks. Ids are the first extra column, if there is one with two numbers per row."""
        ids = extra[0] if extra and extra[0].ndim == 2 else None
        given = [codec.give(column) for codec, column in zip(self._codecs, columns, strict=True)]
        if self._whole:
            return [*from_elements([*values(given[0])], ids)]
        assert self._structure is not None
        return [Block(self._structure, given, rows, None, ids)]


class SlotGroup(NamedTuple):
    """Columns, by their numbers, that share slots."""

    numbers: list[int]
    slots: RowSlots


def _groups(codecs: list[Codec]) -> list[SlotGroup]:
    """Group narrow columns, as many per slot as pays off; all others are separate."""
    alone = [SlotGroup([number], RowSlots([codec.like], codec.blank)) for number, codec in enumerate(codecs)]
    narrow = [g for g in alone if codecs[g.numbers[0]].blank is None and g.slots.row_bytes <= MAX_PACKED_COLUMN_BYTES]
    packed: list[list[int]] = [[]]
    size = 0
    for (number,), slots in sorted(narrow, key=lambda group: group.slots.row_bytes):  # equal ones are copied together
        size += slots.row_bytes
        if size > MAX_PACKED_BYTES:
            packed.append([])
            size = slots.row_bytes
        packed[-1].append(number)
    worth = [numbers for numbers in packed if len(numbers) >= MIN_PACKED_COLUMNS]
    together = {number for numbers in worth for number in numbers}
    made = [SlotGroup(numbers, RowSlots([codecs[number].like for number in numbers])) for numbers in worth]
    return [*made, *(group for group in alone if group.numbers[0] not in together)]


def _is_text(column: Column) -> bool:
    return kind_of(column).name == "text" and is_plain(column)


def _codec(like: Column, kept: bool) -> Codec:
    if _is_text(like) and nbytes(like) < LARGE_ROW_BYTES * len(like):
        return TextCodec(like.type)
    if not isinstance(like, np.ndarray) or like.dtype.hasobject:
        return ObjectCodec()
    large = kept and like.nbytes >= LARGE_ROW_BYTES * len(like)
    return ObjectCodec(copies=False) if large else DenseCodec(like)


def _boxes(column: Column, *, copies: bool = True) -> Array:
    """Return the rows as objects, of their own unless they need not be copied."""
    rows = values(column)
    if copies and not isinstance(column, Stacked):  # whose objects are created for this
        rows = (v.copy() if isinstance(v, np.ndarray) else v for v in rows)
    return np.fromiter(rows, object, len(column))


def _elements(block: Block) -> list[Component]:
    """Return the rows whole, each with its structure."""
    columns = [_boxes(c) for c in block.columns]
    return [(block.structure, [c[i] for c in columns]) for i in range(block.rows)]
