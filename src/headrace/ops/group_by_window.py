"""Group elements by a key, and make a dataset of each full group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from headrace.columns.block import Block, Failure, Item, leaf, pick_rows, structures_differ
from headrace.core import keys
from headrace.core.types import UserFunction
from headrace.errors import ElementError, SpecError, StateError
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import opens
from headrace.execute.row_by_row import Leaves, arguments_of
from headrace.execute.state import with_keyed_seeds
from headrace.execute.stream import END, Made, Stream
from headrace.indexed.memory import Memory
from headrace.ops.shared.arguments import bound_function, function, positive
from headrace.ops.shared.calls import CallOutcome, call_each_row, traced_numbers
from headrace.ops.shared.children import OneRow
from headrace.plan.cardinality import Cardinality
from headrace.plan.datasets import dataset_of, is_dataset
from headrace.plan.marks import At, Mark, Marked, OwnMark
from headrace.plan.node import TUNING, Ahead, Divides, Node, called_for
from headrace.plan.spec import Probe, Spec
from headrace.plan.structure import Structure
from headrace.trace.function import Function

if TYPE_CHECKING:
    from headrace.dataset import Dataset

log: logging.Logger = logging.getLogger("headrace")

MAX_ROWS_AT_A_TIME = 1 << 10
"""How many rows are read at most before they are assigned to their groups."""
MAX_KEPT_ROWS, MAX_KEPT_BYTES = 256, 256 << 10
"""Buffered rows stay in a block of at most this size; those of a larger one are copied."""
MAX_PARTS = 16
"""How many blocks the rows of one key may span before they are copied into one."""


def group_by_window(
    self: Dataset,
    key_func: Callable[..., object],
    reduce_func: Callable[[Any, Dataset], Dataset],
    window_size: int | None = None,
    window_size_func: Callable[[Any], int] | None = None,
    name: str | None = None,
) -> Dataset:
    """Collect elements with the same integer key; of each `window_size` of them `reduce_func(key, dataset)` makes one.

    Groups that are not full at the end come last, in the order of their keys.

    Args:
        key_func: Function of one element that returns its integer key.
        reduce_func: Function (key, dataset of a window) that returns a dataset.
        window_size: Number of elements in a window.
        window_size_func: Function of the key that returns the window size.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> evens_and_odds = hr.Dataset.range(10).group_by_window(lambda x: x % 2, lambda key, ds: ds.batch(5), 5)
    >>> list(evens_and_odds)
    [array([0, 2, 4, 6, 8]), array([1, 3, 5, 7, 9])]
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("group_by_window takes either window_size or window_size_func")
    fixed = None if window_size is None else positive("window_size", window_size)
    sizes = window_size_func if fixed is None else (lambda _: fixed)
    key = function("group_by_window", key_func, self._node.spec)
    reduce, size = (bound_function("group_by_window", given, "functions") for given in (reduce_func, sizes))
    return self._then(GroupByWindow, key, reduce, size, fixed, keys.seed(None), name=name)


@dataclass(frozen=True, eq=False)
class GroupByWindow(Node):
    """Reduce every `size_func(key)` rows with one key by the dataset that `reduce_func` returns."""

    input: Node
    key_func: UserFunction
    reduce_func: Callable[[Any, Any], Any]
    size_func: Callable[[Any], int] = field(repr=False)
    window_size: int | None = None
    seed: keys.Seed = field(default=keys.Seed(0, explicit=False), repr=False, metadata=TUNING)

    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))

    divides = Divides.SHARES

    @cached_property
    def function(self) -> Function:
        """The key function and its traces."""
        return Function(self.key_func)

    pure = False
    live = True

    @property
    def operation(self) -> str:
        return "group_by_window"

    @property
    def spec(self) -> Spec:
        return self.probe.spec or Spec.UNKNOWN

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.vague

    def remark(self) -> str | None:
        return self.function.remark(self.input.spec)

    def key_of(self, value: object) -> int:
        """Return the key of a row, of what the function gave."""
        if type(value) is np.int64:  # as most keys are
            return int(value)
        key = leaf(value)
        if not isinstance(key, np.integer | np.bool_):
            raise SpecError(f"the key must be an integer, not {key!r}")
        return int(key)

    def key_of_row(self, structure: Structure, leaves: Leaves) -> int:
        """Return the key of one row, by calling the function."""
        return self.key_of(self.key_func(*arguments_of(structure, leaves)))

    def keys(self, block: Block) -> Iterator[int | Exception]:
        """Yield the keys of rows: all at once if the function is traced, else lazily."""
        traced = traced_numbers(self.function, block, "iub")
        if traced is None:
            return keys_of(self, call_each_row(self.function.fn, block, keep=True))
        return iter((traced.astype(np.int8) if traced.dtype.kind == "b" else traced).tolist())

    def size_of(self, key: int) -> int:
        """Return how many rows with this key make a window."""
        if self.window_size is not None:
            return self.window_size
        size = int(self.size_func(np.int64(key)))
        if size < 1:
            raise ValueError(f"the window size for key {key} must be at least 1, not {size}")
        return size

    def outcome(self, ctx: Context, key: int, rows: Block, mark: Marked | None) -> Input | OneRow:
        """Return the rows that come out for a full window."""
        structure = rows.structure
        assert rows.ids is not None, "rows are read with ids"
        path, number = int(rows.ids[0, 0]), int(rows.ids[0, 1])
        try:
            salt = keys.mix_key(self.seed.key(ctx.path), path, number)
            with keys.keyed_seeds(salt), called_for(self.site):
                window = dataset_of(Memory(self.input.spec, rows.rows, structure, rows.columns, "window"))
                made = self.reduce_func(np.int64(key), window)
            if not is_dataset(made):
                raise TypeError(f"the function must return a Dataset, not {made!r}")
        except Exception as error:
            return OneRow(Failure(self.error(error, rows.mark.ordinal)), mark)
        return ctx.branch(path, number).open_plan(with_keyed_seeds(made._node, salt), mark, slot=1)


class Grouping(Protocol):
    """A node that groups rows by key and reduces each full group."""

    @property
    def input(self) -> Node: ...
    def key_of_row(self, structure: Structure, leaves: Leaves) -> int: ...
    def key_of(self, value: object) -> int: ...
    def keys(self, block: Block) -> Iterator[int | Exception]: ...
    def size_of(self, key: int) -> int: ...
    def outcome(self, ctx: Context, key: int, rows: Block, mark: Marked | None) -> Input | OneRow: ...
    def error(self, cause: BaseException | str, ordinal: int) -> ElementError: ...


def keys_of(node: Grouping, given: Iterator[CallOutcome]) -> Iterator[int | Exception]:
    """Yield the keys of rows, of what a user's function gave for each, or why there is none."""
    for fine, value in given:
        try:
            key = node.key_of(value) if fine else value
        except Exception as error:
            yield error
        else:
            yield key


@dataclass(slots=True)
class GroupMark(OwnMark):
    """Which rows are buffered: of those `read` since the oldest, the last `waiting[key]` of each key.

    `flushing` are the keys that are left after the end of the input; `current` is the key of the group that is being
    returned, and the position in its dataset.
    """

    read: int
    waiting: tuple[tuple[int, int], ...]
    flushing: tuple[int, ...] | None
    current: tuple[int, Marked] | None = None


class WaitingRows(NamedTuple):
    """Rows of a block that wait for others of their key."""

    block: Block
    rows: Sequence[int]

    @property
    def mark(self) -> Mark:
        """Return the mark of the first one."""
        return self.block.mark.later(self.rows[0])


@opens(GroupByWindow, own=GroupMark)
class GroupStream(Stream):
    """Return one group at a time; the rows of the others are buffered, copied out of their blocks."""

    def __init__(self, node: Grouping, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._pace = ctx.run.pace()
        self._parts: dict[int, list[WaitingRows]] = {}
        self._counts: dict[int, int] = {}
        self._flushing: list[int] | None = None
        self._child: Input | OneRow | None = None
        self._child_place: tuple[Mark, GroupMark, int]
        self._block: Block | None = None
        self._at = 0
        self._keys: Iterator[int | Exception] = iter(())
        self._local: dict[int, list[int]] = {}
        self._input = ctx.with_row_ids().open(node.input, at.inputs)
        self._reads_ahead = node.input.pure or node.input.ahead is Ahead.READY
        own: GroupMark | None = at.own
        if own is not None:
            self._refill(self._input.ordinal + own.read, dict(own.waiting))
            self._flushing = None if own.flushing is None else list(own.flushing)
            if own.current is not None:
                self._emit(*own.current)

    def _refill(self, until: int, waiting: dict[int, int]) -> None:
        """Re-read up to the position of the state, and keep the last rows of each key, as many as were buffered."""
        while self._input.ordinal < until:
            item = self._input.pull(min(until - self._input.ordinal, 256))
            if item is END:
                raise StateError("the input ended before the element at which the state was taken")
            if isinstance(item, Block):
                self._sort(item, waiting)
        for key, count in waiting.items():
            rows = _gathered(self._parts[key])
            self._parts[key] = [WaitingRows(rows, range(rows.rows - count, rows.rows))]
            self._counts[key] = count

    def _sort(self, block: Block, wanted: dict[int, int]) -> None:
        found: dict[int, list[int]] = {}
        for i, key in enumerate(self._node.keys(block)):
            if isinstance(key, Exception):
                log.debug("passed over again: %s", key)  # it was returned as a failure then
            elif key in wanted:
                found.setdefault(key, []).append(i)
        for key, indices in found.items():
            self._wait(key, block, indices)

    def _wait(self, key: int, block: Block, rows: list[int]) -> None:
        """Buffer rows of a block: a small block is kept as it is, rows of a large one are copied."""
        parts = self._parts.setdefault(key, [])
        parts.append(WaitingRows(block, rows))
        if block.rows > MAX_KEPT_ROWS or block.nbytes > MAX_KEPT_BYTES:
            parts[-1] = _copied(parts[-1:])
        elif len(parts) > MAX_PARTS:
            self._parts[key] = [_copied(parts)]

    def _here(self) -> Mark:
        """Return the mark of the input's next row."""
        if self._block is not None and self._at < self._block.rows:
            return self._block.mark.later(self._at)
        return self._input.mark()

    def _place(self, here: Mark) -> tuple[Mark, GroupMark]:
        waiting = [parts[0].mark for parts in self._parts.values()]
        if self._block is not None:
            waiting += [self._block.mark.later(rows[0]) for rows in self._local.values()]
        base = min(waiting, key=lambda mark: mark.ordinal, default=here)
        counts = tuple(sorted(self._counts.items()))
        left = None if self._flushing is None else tuple(self._flushing)
        return base, GroupMark(here.ordinal - base.ordinal, counts, left)

    def pull(self, want: int) -> Made:
        while True:
            if self._child is not None:
                item = self._child.pull(want)
                if item is not END:
                    mark, group, key = self._child_place
                    item.own, item.mark = replace(group, current=(key, item.mark)), mark
                    return item
                self._child.close()
                self._child = None
            if self._flushing is not None:
                if not self._flushing:
                    self._input.pull(1)  # after a restore it is not at its end, at which it may have dropped a failure
                    return END
                self._emit(self._flushing[0])
                continue
            failure = self._read_on() if self._reads_ahead else self._read_row_by_row()
            if failure is not None:
                return failure

    def _read_on(self) -> Item | None:
        """Read rows into their groups until one is full, and begin to return it; or return a failure met before."""
        block = self._block
        if block is None or self._at >= block.rows:
            started = perf_counter_ns()
            item = self._input.pull(self._pace.rows)
            if item is END:
                self._flushing = sorted(self._counts)
                return None
            self._pace.observe(item, perf_counter_ns() - started)
            if isinstance(item, Failure):
                item.mark, item.own = self._place(item.mark)
                return item
            self._block = block = item
            self._at, self._keys = 0, self._node.keys(item)
        local, counts, size_of = self._local, self._counts, self._node.size_of
        for key in self._keys:
            row = self._at
            self._at = row + 1
            if isinstance(key, int):
                try:
                    size = size_of(key)
                except Exception as error:
                    key = error  # noqa: PLW2901
            if isinstance(key, Exception):
                here = block.mark.later(row)
                failure = Failure(self._node.error(key, here.ordinal), *self._place(here))
                self._stow()
                return failure
            if key in local:
                local[key].append(row)
            else:
                local[key] = [row]
            counts[key] = count = counts.get(key, 0) + 1
            if count >= size:
                self._emit(key)
                break
        self._stow()
        return None

    def _read_row_by_row(self) -> Item | None:
        """Like `_read_on`, for an input that must not be read beyond the row that fills a group."""
        node, counts, size_of = self._node, self._counts, self._node.size_of
        key_of_row = node.key_of_row
        found: list[int] = []
        full: int | None = None
        bad_key: Exception | None = None

        def fills_group(structure: Structure, leaves: Leaves) -> bool:
            nonlocal full, bad_key
            try:
                key = key_of_row(structure, leaves)
                size = size_of(key)
            except Exception as error:
                bad_key = error
                return True
            found.append(key)
            counts[key] = count = counts.get(key, 0) + 1
            if count < size:
                return False
            full = key
            return True

        items = self._input.pull_until(MAX_ROWS_AT_A_TIME, fills_group)
        if items is END:
            self._flushing = sorted(counts)
            return None
        for item in items:
            if isinstance(item, Failure):
                item.mark, item.own = self._place(item.mark)
                return item
            self._block, self._at = item, item.rows
            for row, key in enumerate(found[: item.rows]):
                self._local.setdefault(key, []).append(row)
            del found[: item.rows]
            if item is not items[-1]:
                self._stow()
        failure: Failure | None = None
        if bad_key is not None and self._block is not None:
            here = self._block.mark.later(self._at - 1)
            failure = Failure(node.error(bad_key, here.ordinal), *self._place(here))
        elif full is not None:
            self._emit(full)
        self._stow()
        return failure

    def _stow(self) -> None:
        """Copy the buffered rows out of a block at its end."""
        if self._block is not None and self._at >= self._block.rows:
            for key, rows in self._local.items():
                self._wait(key, self._block, rows)
            self._local = {}
            self._block = None

    def _emit(self, key: int, mark: Marked | None = None) -> None:
        """Begin to return a group; in marks its rows count as buffered until it is done."""
        self._child_place = (*self._place(self._here()), key)
        parts = self._parts.pop(key, [])
        if self._block is not None and key in self._local:
            parts.append(WaitingRows(self._block, self._local.pop(key)))
        del self._counts[key]
        if self._flushing is not None:
            self._flushing = [k for k in self._flushing if k != key]
        self._child = self._node.outcome(self._ctx, key, _gathered(parts), mark)


def _gathered(parts: list[WaitingRows]) -> Block:
    """Return the rows that wait, copied into one block."""
    if len(parts) == 1:
        rows = parts[0].block.take(np.array(parts[0].rows))
    else:
        blocks = [part.block for part in parts]
        differ = structures_differ(blocks)
        if differ:
            raise SpecError(differ)
        starts = accumulate((block.rows for block in blocks), initial=0)
        numbers = [start + row for start, part in zip(starts, parts, strict=False) for row in part.rows]
        rows = pick_rows(blocks, np.array(numbers))
    rows.mark = parts[0].mark
    return rows


def _copied(parts: list[WaitingRows]) -> WaitingRows:
    rows = _gathered(parts)
    return WaitingRows(rows, range(rows.rows))
