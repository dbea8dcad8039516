"""The rows that a shuffle buffer holds, copied into slots: dense arrays where rows allow it, else a list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.block import Block, Indices, Item, from_elements, values
from headrace.plan.structure import Structure
from headrace.ragged import as_bytes

Dense = NDArray[Any]

AT_ONCE = 1 << 30
"""Up to this size room for all slots is asked for at once: pages that are never touched take no memory."""


class Slots:
    """Numbered places for rows. `extra` columns (ids, ordinals) travel with the rows."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._room = 0
        self._structure: Structure | None = None
        self._arrays: list[Dense] | None = None
        self._rows: list[tuple[Structure, list[Any]] | None] | None = None
        self._extra: list[Dense] = []

    @property
    def extra(self) -> list[Dense]:
        """The columns that travel along."""
        return self._extra

    def _admit(self, block: Block, extra: list[Dense]) -> None:
        """Make room for rows like these: set up at the first, give up density at the first that differ."""
        if self._structure is None:
            self._structure = block.structure
            dense = _dense(block)
            if dense:
                self._arrays = [np.empty((0, *c.shape[1:]), c.dtype) for c in dense]
            else:
                self._rows = []
            self._extra = [np.empty((0, *e.shape[1:]), e.dtype) for e in extra]
        elif self._arrays is not None and not self._fits(block):
            columns = [values(a) for a in self._arrays]
            self._rows = [(self._structure, [_copied(v) for v in row]) for row in zip(*columns, strict=True)]
            self._arrays = None

    def _fits(self, block: Block) -> bool:
        if block.structure != self._structure:
            return False
        pairs = zip(self._arrays or [], _dense(block), strict=False)
        return len(block.columns) == sum(c.dtype == a.dtype and c.shape[1:] == a.shape[1:] for a, c in pairs)

    def _grow(self, size: int) -> None:
        """Room for `size` slots, and not much more: the buffer may be asked for far beyond the data."""
        if size <= self._room:
            return
        arrays = [*(self._arrays or []), *self._extra]
        row_bytes = 8 + sum(a.dtype.itemsize * int(np.prod(a.shape[1:])) for a in arrays)
        at_once = self._capacity * row_bytes <= AT_ONCE
        self._room = room = self._capacity if at_once else min(self._capacity, max(size, 2 * self._room))
        if self._arrays is not None:
            self._arrays = [_grown(a, room) for a in self._arrays]
        if self._rows is not None:
            self._rows += [None] * (room - len(self._rows))
        old = [len(e) for e in self._extra]
        self._extra = [_grown(e, room) for e in self._extra]
        for extra, filled in zip(self._extra, old, strict=True):
            extra[filled:] = np.iinfo(extra.dtype).max  # slots that never held a row count as the youngest

    def place(self, slots: Indices | slice, block: Block, extra: list[Dense]) -> None:
        """Put the rows of `block` into these slots; an array of slots, or a run of them as a slice."""
        self._admit(block, extra)
        self._grow(slots.stop if isinstance(slots, slice) else int(slots.max()) + 1)
        if self._arrays is not None:
            for array, column in zip(self._arrays, block.columns, strict=True):
                array[slots] = column
        elif self._rows is not None:
            numbers = range(slots.start, slots.stop) if isinstance(slots, slice) else slots
            for slot, row in zip(numbers, _elements(block), strict=True):
                self._rows[slot] = row
        for kept, new in zip(self._extra, extra, strict=True):
            kept[slots] = new

    def exchange(self, hole: int, block: Block, extra: list[Dense], draws: Indices) -> list[Item]:
        """Row i of `block` fills the hole, slot draws[i] is given out and becomes the hole."""
        self._admit(block, extra)
        self._grow(hole + 1)
        outs = [_exchanged(kept, hole, new, draws) for kept, new in zip(self._extra, extra, strict=True)]
        if self._arrays is not None:
            made: list[Item] = [
                Block(
                    block.structure,
                    [_exchanged(a, hole, c, draws) for a, c in zip(self._arrays, _dense(block), strict=True)],
                    block.rows,
                )
            ]
        else:
            assert self._rows is not None
            given = []
            for row, slot in zip(_elements(block), draws, strict=True):
                self._rows[hole] = row
                given.append(self._rows[slot])
                hole = slot
            made = [*from_elements([g for g in given if g is not None])]
        return _with_ids(made, outs)

    def copy(self, slot: int) -> Block:
        """The row of one slot."""
        if self._arrays is not None:
            assert self._structure is not None
            made = Block(self._structure, [a[slot : slot + 1].copy() for a in self._arrays], 1)
        else:
            row = self._rows[slot] if self._rows is not None else None
            assert row is not None
            made = from_elements([row])[0]
        if self._extra and self._extra[0].ndim == 2:
            made.ids = self._extra[0][slot : slot + 1].copy()
        return made

    def close_up(self, hole: int, last: int) -> None:
        """Move the last slot in use into the hole."""
        for array in [*(self._arrays or []), *self._extra]:
            if last < len(array):
                array[hole] = array[last]
        if self._rows is not None and last < len(self._rows):
            self._rows[hole] = self._rows[last]

    def drain(self, used: int, draws: Indices) -> list[Item]:
        """Give out slot draws[i]; the last one in use takes its place."""
        outs = [_drained(e, used, draws) for e in self._extra]
        if self._arrays is not None:
            assert self._structure is not None
            made: list[Item] = [Block(self._structure, [_drained(a, used, draws) for a in self._arrays], len(draws))]
        else:
            assert self._rows is not None
            given = []
            for slot in draws:
                used -= 1
                given.append(self._rows[slot])
                self._rows[slot] = self._rows[used]
            made = [*from_elements([g for g in given if g is not None])]
        return _with_ids(made, outs)


def _dense(block: Block) -> list[Dense]:
    """The columns, if all of them are dense."""
    found = [c for c in block.columns if isinstance(c, np.ndarray) and not c.dtype.hasobject]
    return found if len(found) == len(block.columns) else []


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _elements(block: Block) -> list[tuple[Structure, list[Any]]]:
    columns = [values(c) for c in block.columns]
    if not columns:
        return [(block.structure, []) for _ in range(block.rows)]
    return [(block.structure, [_copied(v) for v in row]) for row in zip(*columns, strict=True)]


def _grown(array: Dense, room: int) -> Dense:
    bigger = np.empty((room, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger


def _exchanged(slots: Dense, hole: int, incoming: Dense, draws: Indices) -> Dense:
    out = np.empty((len(draws), *slots.shape[1:]), slots.dtype)
    if out.nbytes:
        _native.shuffle_exchange(as_bytes(slots), hole, as_bytes(incoming), draws, as_bytes(out))
    return out


def _drained(slots: Dense, used: int, draws: Indices) -> Dense:
    out = np.empty((len(draws), *slots.shape[1:]), slots.dtype)
    if out.nbytes:
        _native.shuffle_drain(as_bytes(slots), used, draws, as_bytes(out))
    return out


def _with_ids(items: list[Item], extra: list[Dense]) -> list[Item]:
    """Ids are the first extra column, where there are any with two numbers a row."""
    if not extra or extra[0].ndim != 2:
        return items
    start = 0
    for item in items:
        if isinstance(item, Block):
            item.ids = extra[0][start : start + item.rows]
        start += item.rows
    return items
