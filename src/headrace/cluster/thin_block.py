"""Rows of a split of which only some were sent: placeholders stand for the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.columns import Indices, pick, take
from headrace.columns.block import Block, Failure
from headrace.core.override import override
from headrace.errors import HeadraceError
from headrace.plan.marks import Mark
from headrace.plan.structure import LEAF, Structure


class ThinBlock(Block):
    """A block with missing rows: `columns` have the `came` rows, `where` maps each row to one of these, or -1.

    `numbers` are those that the rows are expected to have among the rows of all splits.
    """

    __slots__ = ("came", "numbers", "where")

    def __init__(self, block: Block, came: int, numbers: Indices, where: Indices) -> None:
        super().__init__(block.structure, block.columns, len(numbers), block.mark, block.ids, block.own)
        self.came: int = came
        self.numbers: Indices = numbers
        self.where: Indices = where

    def cut(self, start: int, stop: int) -> ThinBlock:
        part = ThinBlock(self, self.came, self.numbers[start:stop], self.where[start:stop])
        part.offset = self.offset + start
        part._nbytes = self.nbytes * part.rows // max(1, self.rows)
        return part

    def count_bytes(self, row_bytes: float) -> None:
        """Count the bytes of all rows, as if they had come: the read-ahead must not depend on it."""
        self._nbytes = round(row_bytes * self.rows)

    def take(self, indices: Indices) -> Block:
        return self._rows(self.where[indices])

    def whole(self) -> Block:
        return self._rows(self.where)

    def _rows(self, where: Indices) -> Block:
        if len(where) and where.min() < 0:
            raise HeadraceError("a row was left out as that of another trainer, and is wanted nevertheless")
        ids = None if self.ids is None else self.ids[where]
        made = Block(self.structure, [take(c, where) for c in self.columns], len(where), self.mark, ids, self.own)
        made.offset = self.offset
        return made


class ExpectedFailure(Failure):
    """A row that could not be made, with the number that it is expected to have among those of all splits."""

    __slots__ = ("number",)

    def __init__(self, failure: Failure, number: int) -> None:
        super().__init__(failure.error, failure.mark, failure.own)
        self.number: int = number

    @override
    def slice(self, start: int, stop: int) -> ExpectedFailure:
        return ExpectedFailure(Failure(self.error, self.mark), self.number)

    def whole(self) -> Failure:
        made = Failure(self.error, self.mark, self.own)
        made.offset = self.offset
        return made


def thin_item(item: Block | Failure, numbers: Indices, kept: Indices | None) -> ThinBlock | ExpectedFailure:
    """Return an item for these rows: all of them, or only those at the positions `kept`."""
    if isinstance(item, Failure):
        return ExpectedFailure(item, int(numbers[0]))
    where = np.full(len(numbers), -1)
    where[slice(None) if kept is None else kept] = np.arange(item.rows)
    return ThinBlock(item, item.rows, numbers, where)


def absent_rows(numbers: Indices, mark: Mark | None, structure: Structure | None) -> ThinBlock:
    """Return rows none of which has come."""
    return ThinBlock(Block(structure or LEAF, [], 0, mark), 0, numbers, np.full(len(numbers), -1))


def merge_thin(blocks: Sequence[Block], order: Indices) -> Block:
    """Like `pick_rows`, for thin blocks."""
    parts = [block for block in blocks if isinstance(block, ThinBlock)]
    filled = [part for part in parts if part.came]
    bases = np.cumsum([0, *(part.came for part in parts)])
    where = np.concatenate([np.where(p.where < 0, -1, p.where + b) for p, b in zip(parts, bases, strict=False)])[order]
    numbers = np.concatenate([part.numbers for part in parts])[order]
    here = where >= 0
    if not here.any():
        return absent_rows(numbers, parts[0].mark, parts[0].structure)
    rows, first = where[here], filled[0]
    columns = [pick(columns, rows) for columns in zip(*(p.columns for p in filled), strict=True)]
    ids = None if first.ids is None else np.concatenate([p.ids for p in filled if p.ids is not None])[rows]
    block = Block(first.structure, columns, len(rows), parts[0].mark, ids)
    return ThinBlock(block, len(rows), numbers, np.where(here, np.cumsum(here) - 1, -1))
