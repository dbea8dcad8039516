"""Windows over consecutive elements: each is a dataset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Column, take, values
from headrace.columns.block import Block, Failure, Item, concat, folded, structures_differ
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.remainder import end_of_rows
from headrace.execute.stream import END, Made, Stream
from headrace.indexed.memory import Memory
from headrace.ops.shared.arguments import positive
from headrace.plan.cardinality import Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import DatasetSpec, Spec, leaf_spec
from headrace.plan.structure import LEAF

if TYPE_CHECKING:
    from headrace.dataset import Dataset

WINDOWED = 5
"""Folded into the path of a window's id, which is otherwise that of its first row."""


def window(
    self: Dataset,
    size: int,
    shift: int | None = None,
    stride: int = 1,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Group elements into datasets of `size` elements, each starting `shift` elements after the one before.

    Elements with several components give a structure of datasets.

    Args:
        size: Number of elements in a window.
        shift: Distance between the starts of two windows. Default: `size`.
        stride: Distance between two elements of a window.
        drop_remainder: Whether to drop the last batch if it is short.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> [list(w) for w in hr.Dataset.range(5).window(3, shift=2)]
    [[np.int64(0), np.int64(1), np.int64(2)], [np.int64(2), np.int64(3), np.int64(4)], [np.int64(4)]]
    """
    length = positive("size", size)
    step = length if shift is None else positive("shift", shift)
    return self._then(Window, length, step, positive("stride", stride), bool(drop_remainder), name=name)


@dataclass(frozen=True, eq=False)
class Window(Node):
    """Row i holds the rows i * shift, i * shift + stride, … of the input, `size` of them."""

    input: Node
    size: int
    shift: int
    stride: int = 1
    drop_remainder: bool = False
    stacked: bool = field(default=False, repr=False, metadata=TUNING)
    """Whole windows of dense rows come as arrays, `size` rows in each, not as datasets."""

    @property
    def takes(self) -> int:
        return self.shift

    @property
    def span(self) -> int:
        """Return how many rows a window spans, both ends included."""
        return (self.size - 1) * self.stride + 1

    @property
    def spec(self) -> Spec:
        known = self.input.spec
        return Spec(known.structure, tuple(DatasetSpec(Spec(LEAF, (s,))) for s in known.leaves))

    @property
    def cardinality(self) -> Cardinality:
        rows = self.input.cardinality
        if not rows.known:
            return rows
        if self.drop_remainder:
            return Cardinality(max(0, (rows - self.span) // self.shift + 1)) if rows >= self.span else Cardinality(0)
        return rows.in_groups(self.shift, up=True)

    @property
    def drops_rows(self) -> bool:
        return self.drop_remainder

    def in_incomplete_only(self, row: int, start: int) -> bool:
        """Return whether no window that begins before `start`, but one that begins there or later, holds this row."""
        first = max(0, row - self.span + 1)
        begins = range(-(-first // self.shift) * self.shift, row + 1, self.shift)
        holding = [begin for begin in begins if (row - begin) % self.stride == 0]
        return bool(holding) and min(holding) >= start

    def stacked_windows(self) -> tuple[Node, int]:
        """Return a node that gives whole windows as arrays, not as datasets, and their length."""
        return replace(self, stacked=True, stands_for=self), self.size


@opens(Window)
class WindowStream(Stream):
    """Buffer the rows from the next window's first on. The mark is the input's at that row."""

    def __init__(self, node: Window, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)
        self._parts: list[Item] = []
        self._rows = 0
        self._skip = 0
        self._over = False

    def pull(self, want: int) -> Made:
        node = self._node
        self._read(node.span + (want - 1) * node.shift)
        windows = self._complete()
        if windows:
            return self._given(min(want, windows))
        if node.drop_remainder:
            return self._dropped()
        return self._given(1) if self._rows else END

    def _dropped(self) -> Made:
        """End, with the first failure among rows that only incomplete windows would have held."""
        start = self._input.ordinal - self._rows  # of the first incomplete window
        lost: list[Item] = []
        row = start
        for item in self._parts:
            if isinstance(item, Failure) and self._node.in_incomplete_only(row, start):
                lost.append(item)
            row += item.rows
        return end_of_rows(lost)

    def _read(self, needed: int) -> None:
        """Read `needed` rows, unless the input ends before."""
        while not self._over and self._rows < needed:
            if self._skip:
                done = self._input.skip(self._skip)
                self._over = done < self._skip
                self._skip = 0
                continue
            item = self._input.pull(needed - self._rows)
            if item is END:
                self._over = True
                return
            self._parts.append(item)
            self._rows += item.rows

    def _complete(self) -> int:
        return (self._rows - self._node.span) // self._node.shift + 1 if self._rows >= self._node.span else 0

    def _given(self, count: int) -> Item:
        """Return the next windows; one window or the failure, if a failure is in the way."""
        blocks = [p for p in self._parts if isinstance(p, Block)]
        plain = len(blocks) == len(self._parts) and all(b.structure == blocks[0].structure for b in blocks)
        mark = self._parts[0].mark
        if plain:
            whole = concat(blocks)
            self._parts = [whole]
            made: Item = self._windows(whole, count)
        else:
            count = 1
            made = self._one()
        self._advance(count * self._node.shift)
        made.mark = mark
        return made

    def _windows(self, rows: Block, count: int) -> Block:
        node = self._node
        ids = None if rows.ids is None else folded(rows.ids[: count * node.shift : node.shift], WINDOWED)
        starts = range(0, count * node.shift, node.shift)
        columns: list[Column] = []
        full = starts[-1] + node.span <= rows.rows
        if node.stacked and full and all(isinstance(c, np.ndarray) for c in rows.columns):
            picked = np.array(starts)[:, None] + np.arange(0, node.span, node.stride)
            return Block(rows.structure, [take(c, picked) for c in rows.columns], count, None, ids)
        for column, spec in zip(rows.columns, element_specs(node.input.spec, rows, rows.columns), strict=True):
            columns.append([_dataset(column[a : a + node.span : 1][:: node.stride], spec) for a in starts])
        return Block(rows.structure, columns, count, None, ids)

    def _one(self) -> Item:
        """Return a window whose rows have different structures, or that holds a failure."""
        node = self._node
        rows = [p.slice(i, i + 1) for p in self._parts for i in range(p.rows)][: node.span : node.stride]
        for row in rows:
            if isinstance(row, Failure):
                return Failure(row.error)
        blocks = [row for row in rows if isinstance(row, Block)]
        differ = structures_differ(blocks, "window")
        if differ:
            return Failure(node.error(SpecError(differ), self._input.ordinal))
        whole = concat(blocks)
        ids = None if whole.ids is None else folded(whole.ids[:1], WINDOWED)
        specs = element_specs(node.input.spec, whole, whole.columns)
        columns: list[Column] = [[_dataset(c, s)] for c, s in zip(whole.columns, specs, strict=True)]
        return Block(whole.structure, columns, 1, None, ids)

    def _advance(self, rows: int) -> None:
        """Drop the rows that no later window holds."""
        while rows and self._parts:
            head = self._parts[0]
            gone = min(rows, head.rows)
            rows -= gone
            self._rows -= gone
            if gone == head.rows:
                self._parts.pop(0)
            else:
                self._parts[0] = head.slice(gone, head.rows)
        self._skip = rows


def as_datasets(windows: Block, known: Spec) -> Block:
    """Return windows as datasets, if they may be stacked; `known` is the spec of the windowed rows."""
    if not all(isinstance(column, np.ndarray) for column in windows.columns):
        return windows
    specs = element_specs(known, windows, [column[0] for column in windows.columns])
    columns: list[Column] = [[_dataset(r, s) for r in c] for c, s in zip(windows.columns, specs, strict=True)]
    return Block(windows.structure, columns, windows.rows, windows.mark, windows.ids)


def element_specs(known: Spec, rows: Block, columns: list[Column]) -> list[Spec]:
    """Return what is known of the elements of a window's datasets: from the input, else dtype and rank of the first
    row.
    """
    if known.structure != rows.structure:
        known = Spec(rows.structure, tuple(leaf_spec(next(values(c))) for c in columns)).without_sizes()
    return [Spec(LEAF, (leaf,)) for leaf in known.leaves]


def _dataset(column: Column, spec: Spec) -> Dataset:
    return dataset_of(Memory(spec, len(column), LEAF, [column], "window"))
