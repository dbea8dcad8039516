"""Repeat the elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, concat
from headrace.execute.context import OBJECTS, Context
from headrace.execute.inputs import Input
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.indexed.memory import Memory
from headrace.indexed.numbered import NumberedStream
from headrace.indexed.range import Range
from headrace.ops.shared.arguments import integer
from headrace.ops.shared.keywords import explain_keywords
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.plan.capabilities import is_endless
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import START, At, Marks, OwnMark
from headrace.plan.node import Divides, Moves

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


@explain_keywords
def repeat(self: Dataset[Element], count: int | None = None, name: str | None = None) -> Dataset[Element]:
    """Repeat the elements `count` times, each time as a new epoch; forever if `count` is None or negative.

    Args:
        count: Number of times; None or -1 repeats forever.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(2).repeat(2))
    [np.int64(0), np.int64(1), np.int64(0), np.int64(1)]
    """
    times = None if count is None or integer("count", count) < 0 else integer("count", count)
    return self._then(Repeat, times, name=name)


@dataclass(frozen=True, eq=False)
class Repeat(UnchangedRows):
    """Repeat the input `count` times; None means forever, until an epoch has no rows."""

    count: int | None

    divides = Divides.SHARES

    moves = Moves.ROWS

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.times(self.count)

    @property
    def endless(self) -> bool:
        """Whether a pass never ends, unless the input turns out to have no rows."""
        return (self.count is None and self.input.cardinality != 0) or (self.count != 0 and is_endless(self.input))

    @property
    def indexable(self) -> bool:
        return self.input.indexable and self.input.cardinality.known


@fetches(Repeat)
def fetch_repeated(node: Repeat, ctx: Context, indices: Indices) -> Block:
    """Fetch rows from the epochs that contain them."""
    epochs, rows = np.divmod(indices, node.input.cardinality)
    order = np.argsort(epochs, kind="stable")
    cuts = np.flatnonzero(np.diff(epochs[order])) + 1
    parts = [ctx.epoch(int(epochs[run[0]])).fetch(node.input, rows[run]) for run in np.split(order, cuts)]
    if len(parts) == 1:
        return parts[0]
    return concat(parts).take(np.argsort(order))


@dataclass(slots=True)
class Epoch(OwnMark):
    """The epoch of the input."""

    number: int

    rereads = False


MAX_SHORT_EPOCH_ROWS = 1 << 10
"""An epoch of at most this many rows is no more work than opening it: many such are made at once."""


@opens(Repeat, own=Epoch)
def open_repeat(node: Repeat, ctx: Context, at: At) -> Stream:
    """Open one epoch after the other; by number if epochs are short and all alike."""
    rows = int(node.input.cardinality)
    if (
        not (node.addressable and isinstance(node.input, Memory | Range) and 0 < rows <= MAX_SHORT_EPOCH_ROWS)
        or ctx.with_ids
    ):
        return RepeatStream(node, ctx, at)
    return NumberedStream(node, lambda start, stop: ctx.fetch(node.input, np.arange(start, stop) % rows))


class RepeatStream(Stream):
    """Opens the input once for each epoch."""

    def __init__(self, node: Repeat, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._epoch: int = 0 if at.own is None else at.own.number
        self._input: Input | None = None
        if node.count != 0 and (node.input.cardinality != 0 or node.input.has_extra_failures):
            self._open(at.inputs)

    def _open(self, marks: Marks) -> Input:
        self._input = self._ctx.epoch(self._epoch).open(self._node.input, marks, form=OBJECTS, flush=True)
        return self._input

    def _next_epoch(self) -> bool:
        """Begin the next epoch, unless this was the last one, or had no rows and the repetition would never end."""
        if self._input is None:
            return False
        empty = self._input.ordinal == 0
        self._input.close()
        self._input = None
        if (empty and self._node.count is None) or self._epoch + 1 == self._node.count:
            return False
        self._epoch += 1
        self._open(START)
        return True

    def pull(self, want: int) -> Made:
        while self._input is not None:
            item = self._input.pull(want)
            if item is not END:
                item.own = Epoch(self._epoch)
                return item
            if not self._next_epoch():
                break
        return END

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = self._skip_epochs(count) if self._node.addressable else 0
        while done < count and self._input is not None:
            done += self._input.skip(count - done, replay=replay)
            if done < count and not self._next_epoch():
                break
        return done

    def _skip_epochs(self, count: int) -> int:
        """Skip whole epochs at once, if that is unobservable."""
        rows = self._node.input.cardinality
        if self._input is None or rows == 0:
            return 0
        here = self._input.ordinal
        epochs, rest = divmod(here + count, rows)
        if epochs == 0:
            return 0
        left = None if self._node.count is None else self._node.count - self._epoch
        if left is not None and epochs >= left:
            epochs, rest = left - 1, rows
        self._input.close()
        self._epoch += epochs
        self._open(START).skip(rest, replay=True)
        return epochs * rows + rest - here
