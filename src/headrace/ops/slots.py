"""The rows that a shuffle buffer holds, copied into slots: bytes where a column is dense or text, else objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.arrow_text import binary, is_plain, nbytes, parts
from headrace.block import Block, Item, from_elements
from headrace.columns import Column, Indices, Stacked, column_of, kind_of, values
from headrace.columns.dense import MUCH, copy_with_help, pooled
from headrace.plan.structure import Structure
from headrace.ragged import as_bytes

if TYPE_CHECKING:
    import pyarrow as pa

Dense = NDArray[Any]

AT_ONCE = 1 << 30
"""Up to this size room for all slots is asked for at once: pages that are never touched take no memory."""


MANY = 1 << 20
"""More slots than this are made as rows come: their numbers take memory, whether rows lie in them or not."""

LARGE = 1 << 14
"""Bytes of a row that is not worth copying twice."""

TOGETHER = 64 << 20
"""Up to so many bytes of rows lie one after another when they are given out."""

NOWHERE = -1
"""The place of the row of a slot that never held one."""


class Store(Protocol):
    """The slots of one column."""

    row_bytes: int

    def fits(self, column: Column) -> bool:
        """Whether rows of this column can lie here."""

    def grow(self, room: int) -> None:
        """Have `room` slots, more than now."""

    def place(self, slots: Indices | slice, column: Column) -> None:
        """Put rows into empty slots; an array of slots, or a run of them."""

    def exchange(self, hole: int, column: Column, draws: Indices) -> Column:
        """Row i fills the hole, slot draws[i] is given out and becomes the hole."""

    def drain(self, used: int, draws: Indices) -> Column:
        """Give out slot draws[i]; the last one in use takes its place."""

    def expect(self, rows: int) -> None:
        """So many rows are about to be asked for, in one go or several."""

    def pop(self, slots: slice) -> Column:
        """Give out the rows of a run of slots."""

    def peek(self, top: int) -> Column:
        """What lies in the slots below `top`; in empty ones anything."""

    def move(self, slot: int, last: int) -> None:
        """Move the row of slot `last` into an empty one."""


class DenseStore:
    """Rows of one dtype and shape: as many bytes each. Slots that never held a row hold `blank`, where it is given."""

    def __init__(self, like: Dense, blank: Any = None) -> None:
        self.rows = np.empty((0, *like.shape[1:]), like.dtype)
        self.row_bytes = like.dtype.itemsize * int(np.prod(like.shape[1:]))
        self._blank = blank
        self._rest = self.rows

    def fits(self, column: Column) -> bool:
        rows = self.rows
        return isinstance(column, np.ndarray) and column.dtype == rows.dtype and column.shape[1:] == rows.shape[1:]

    def grow(self, room: int) -> None:
        old, self.rows = self.rows, self._new(room)
        self.rows[: len(old)] = old
        if self._blank is not None:
            self.rows[len(old) :] = self._blank

    def _new(self, rows: int) -> Dense:
        return pooled((rows, *self.rows.shape[1:]), self.rows.dtype)

    def place(self, slots: Indices | slice, column: Column) -> None:
        if isinstance(slots, slice):
            copy_with_help(column, self.rows[slots])
        else:
            self.rows[slots] = column

    def exchange(self, hole: int, column: Column, draws: Indices) -> Dense:
        assert isinstance(column, np.ndarray)
        out = self._out(len(draws))
        if out.nbytes:
            _native.shuffle_exchange(as_bytes(self.rows), hole, as_bytes(column), draws, as_bytes(out))
        return out

    def drain(self, used: int, draws: Indices) -> Dense:
        out = self._out(len(draws))
        if out.nbytes:
            _native.shuffle_drain(as_bytes(self.rows), used, draws, as_bytes(out))
        return out

    def expect(self, rows: int) -> None:
        """Have them lie one after another, whoever puts them together need not copy them."""
        if not len(self._rest) and self.row_bytes * rows >= MUCH:
            self._rest = self._new(min(rows, max(1, TOGETHER // self.row_bytes)))

    def _out(self, rows: int) -> Dense:
        """Memory for rows that are given out."""
        if rows > len(self._rest):
            self._rest = self._rest[:0]
            return self._new(rows)
        out, self._rest = self._rest[:rows], self._rest[rows:]
        return out

    def pop(self, slots: slice) -> Dense:
        return self.rows[slots].copy()

    def peek(self, top: int) -> Dense:
        return self.rows[:top]

    def move(self, slot: int, last: int) -> None:
        self.rows[slot] = self.rows[last]


class PlacedStore(ABC):
    """Rows that lie in a pool, and in each slot the place of one in the pool."""

    row_bytes = 16

    def __init__(self) -> None:
        self._places = DenseStore(np.empty(0, np.int64), NOWHERE)

    @abstractmethod
    def fits(self, column: Column) -> bool:
        """Whether rows of this column can lie here."""

    @abstractmethod
    def _keep(self, column: Column) -> Indices:
        """The rows into the pool; their places."""

    @abstractmethod
    def _give(self, places: Indices) -> Column:
        """The rows of these places, which are free from here on."""

    @abstractmethod
    def _look(self, places: Indices) -> Iterable[Any]:
        """The rows of these places, as objects."""

    def grow(self, room: int) -> None:
        self._places.grow(room)

    def place(self, slots: Indices | slice, column: Column) -> None:
        self._places.place(slots, self._keep(column))

    def exchange(self, hole: int, column: Column, draws: Indices) -> Column:
        return self._give(self._places.exchange(hole, self._keep(column), draws))

    def drain(self, used: int, draws: Indices) -> Column:
        return self._give(self._places.drain(used, draws))

    def expect(self, rows: int) -> None:  # noqa: B027 - they lie wherever they do
        """So many rows are about to be asked for."""

    def pop(self, slots: slice) -> Column:
        return self._give(self._places.pop(slots))

    def peek(self, top: int) -> list[Any]:
        places = self._places.peek(top)
        found = np.full(top, None)
        found[places != NOWHERE] = np.fromiter(self._look(places[places != NOWHERE]), object)
        return found.tolist()

    def move(self, slot: int, last: int) -> None:
        self._places.move(slot, last)


class TextStore(PlacedStore):
    """Bytes or strings in Arrow's layout."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__()
        self._kind = kind
        self._pool = _native.TextPool()

    def fits(self, column: Column) -> bool:
        return _is_text(column) and column.type == self._kind

    def _keep(self, column: Column) -> Indices:
        return self._pool.keep(*parts(column))

    def _give(self, places: Indices) -> Column:
        return binary(*self._pool.give(places), self._kind)

    def _look(self, places: Indices) -> Iterable[Any]:
        return values(binary(*self._pool.read(places), self._kind))


class ObjectStore(PlacedStore):
    """Large texts, ragged rows and anything else: objects."""

    def __init__(self, *, copies: bool = True) -> None:
        super().__init__()
        self._copies = copies
        self._pool = np.empty(0, object)
        self._touched = 0
        self._free: list[Indices] = []

    def fits(self, column: Column) -> bool:  # noqa: ARG002
        return True

    def _keep(self, column: Column) -> Indices:
        """Where others were given out, then beyond."""
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

    def _give(self, places: Indices) -> Column:
        rows = self._pool[places].tolist()
        self._pool[places] = None
        self._free.append(places)
        made = column_of(rows)
        return made.copy() if not self._copies and len(rows) == 1 and isinstance(made, np.ndarray) else made

    def _look(self, places: Indices) -> Iterable[Any]:
        return iter(self._pool[places])


class Slots:
    """Numbered places for rows. `extra` columns (ids, ordinals) travel with the rows.

    Rows that are `kept` in memory anyway are not copied, if they are large.
    """

    def __init__(self, capacity: int, *, kept: bool = False) -> None:
        self._capacity = capacity
        self._kept = kept
        self._room = 0
        self._top = 0
        self._structure: Structure | None = None
        self._whole = False
        self._stores: list[Store] = []
        self._extra: list[DenseStore] = []

    @property
    def extra(self) -> list[Dense]:
        """The columns that travel along; slots that never held a row have the largest number."""
        return [e.rows for e in self._extra]

    def numbers(self) -> Dense:
        """The first column, where it is one of numbers, up to the last slot that held a row; in others anything."""
        (store, *_) = self._stores
        assert isinstance(store, DenseStore), "rows of numbers"
        return store.rows[: self._top]

    def _admit(self, block: Block, extra: list[Dense], top: int) -> list[Column]:
        """The rows as the stores take them, with slots up to `top`."""
        if self._structure is None:
            self._structure = block.structure
            self._stores = [_store(c, self._kept) for c in block.columns]
            self._extra = [DenseStore(e, np.iinfo(e.dtype).max) for e in extra]
        elif not (self._whole or self._fits(block)):
            held = Block(self._structure, [s.peek(self._top) for s in self._stores], self._top)
            self._whole, self._stores = True, [ObjectStore()]
            self._stores[0].grow(self._room)
            self._stores[0].place(slice(0, self._top), _elements(held))
        self._grow(top)
        self._top = max(self._top, top)
        return [_elements(block)] if self._whole else block.columns

    def _fits(self, block: Block) -> bool:
        if block.structure != self._structure:
            return False
        return all(s.fits(c) for s, c in zip(self._stores, block.columns, strict=True))

    def _grow(self, size: int) -> None:
        """Room for `size` slots, and not much more: the buffer may be asked for far beyond the data."""
        if size <= self._room:
            return
        every = [*self._stores, *self._extra]
        row_bytes = 8 + sum(s.row_bytes for s in every)
        at_once = self._capacity <= MANY and self._capacity * row_bytes <= AT_ONCE
        self._room = self._capacity if at_once else min(self._capacity, max(size, 2 * self._room))
        for store in every:
            store.grow(self._room)

    def place(self, slots: Indices | slice, block: Block, extra: list[Dense]) -> None:
        """Put the rows of `block` into these slots; an array of slots, or a run of them as a slice."""
        columns = self._admit(block, extra, slots.stop if isinstance(slots, slice) else int(slots.max()) + 1)
        for store, rows in zip([*self._stores, *self._extra], [*columns, *extra], strict=True):
            store.place(slots, rows)

    def expect(self, rows: int) -> None:
        """So many rows are about to be asked for."""
        for store in self._stores:
            store.expect(rows)

    def exchange(self, hole: int, block: Block, extra: list[Dense], draws: Indices) -> list[Item]:
        """Row i of `block` fills the hole, slot draws[i] is given out and becomes the hole."""
        columns = self._admit(block, extra, hole + 1)
        outs = [s.exchange(hole, new, draws) for s, new in zip(self._extra, extra, strict=True)]
        made = [s.exchange(hole, new, draws) for s, new in zip(self._stores, columns, strict=True)]
        return self._given(made, outs, len(draws))

    def drain(self, used: int, draws: Indices) -> list[Item]:
        """Give out slot draws[i]; the last one in use takes its place."""
        outs = [s.drain(used, draws) for s in self._extra]
        return self._given([s.drain(used, draws) for s in self._stores], outs, len(draws))

    def pop(self, slot: int) -> Item:
        """Give out the row of one slot."""
        one = slice(slot, slot + 1)
        return self._given([s.pop(one) for s in self._stores], [s.pop(one) for s in self._extra], 1)[0]

    def close_up(self, hole: int, last: int) -> None:
        """Move the last slot in use into the hole."""
        if last < self._room:
            for store in [*self._stores, *self._extra]:
                store.move(hole, last)

    def _given(self, columns: list[Column], extra: list[Dense], rows: int) -> list[Item]:
        """Rows as blocks. Ids are the first extra column, where there are any with two numbers a row."""
        ids = extra[0] if extra and extra[0].ndim == 2 else None
        if self._whole:
            return [*from_elements([*values(columns[0])], ids)]
        assert self._structure is not None
        return [Block(self._structure, columns, rows, None, ids)]


def _is_text(column: Column) -> bool:
    return kind_of(column).name == "text" and is_plain(column)


def _store(like: Column, kept: bool) -> Store:
    if _is_text(like) and nbytes(like) < LARGE * len(like):
        return TextStore(like.type)
    if not isinstance(like, np.ndarray) or like.dtype.hasobject:
        return ObjectStore()
    dense = DenseStore(like)
    return ObjectStore(copies=False) if kept and dense.row_bytes >= LARGE else dense


def _boxes(column: Column, *, copies: bool = True) -> NDArray[Any]:
    """The rows as objects, of their own unless they need not be copied."""
    rows = values(column)
    if copies and not isinstance(column, Stacked):  # whose objects are made for this
        rows = (v.copy() if isinstance(v, np.ndarray) else v for v in rows)
    return np.fromiter(rows, object, len(column))


def _elements(block: Block) -> list[Any]:
    """The rows whole, each with its structure."""
    columns = [_boxes(c) for c in block.columns]
    return [(block.structure, [c[i] for c in columns]) for i in range(block.rows)]
