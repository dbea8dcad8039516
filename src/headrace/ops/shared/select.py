"""Elements by number: what `ds[i]`, `ds[i:j:k]` and `ds[[3, 1, 4]]` mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import FOLD, Block, Failure
from headrace.core.types import Nested
from headrace.errors import NotIndexableError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.run import Pass
from headrace.execute.stream import Stream
from headrace.ops.cache import Cache
from headrace.ops.shared.arguments import integer
from headrace.ops.shared.gather import NumberStream, RowsByNumber
from headrace.ops.with_options import merge_options
from headrace.plan.access import is_coarse
from headrace.plan.capabilities import index_remedy
from headrace.plan.cardinality import INFINITE, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At
from headrace.plan.node import Node, obstacle
from headrace.plan.prepared import Prepared

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def select_rows(self: Dataset, index: int | slice | Sequence[int] | Indices) -> Nested:
    """Return an element by its number; a dataset of a slice, or of several numbers. Randomness is that of epoch 0.

    Datasets that take turns (interleave, flat_map, sample_from_datasets, choose_from_datasets) are counted once for it,
    which asks each for its length: `len(ds[:])` is their number of elements. A `cache()` over elements that cannot be
    found by number, such as those of a filter, keeps all up to the one that is requested.

    >>> ds = hr.Dataset.range(10).batch(4)
    >>> ds[-1]
    array([8, 9])
    >>> list(ds[:2])
    [array([0, 1, 2, 3]), array([4, 5, 6, 7])]
    >>> list(hr.Dataset.range(10)[[3, 1, -1]])
    [np.int64(3), np.int64(1), np.int64(9)]
    """
    cached = isinstance(self._node, Cache) and not self._node.indexable
    if cached and isinstance(index, int | np.integer) and index >= 0:  # kept as far as that element, not to the end
        return _element(self._node, int(index))
    node = self._counted
    blocker = obstacle(node)
    if blocker is not None:
        raise NotIndexableError(
            f"{blocker.operation} ({blocker.site}) cannot be indexed, so neither can this dataset; "
            f"{index_remedy(blocker)}"
        )
    if isinstance(index, slice):
        rows = _slice(index, node.cardinality)
        return dataset_of(node)._then(Select, rows.start, len(rows), rows.step)
    if isinstance(index, Sequence | np.ndarray):
        numbers = tuple(_number(integer("index", i), node.cardinality) for i in index)
        return dataset_of(node)._then(SelectNumbers, numbers)
    return _element(node, _number(integer("index", index), node.cardinality))


def _slice(index: slice, count: Cardinality) -> range:
    endless = any(v is None or v < 0 for v in (index.start or 0, index.stop)) or (index.step or 1) < 0
    if count == INFINITE and endless:
        raise IndexError("a slice of an infinite dataset needs a start and a stop from the beginning")
    return range(*index.indices(count if count.known else index.stop))


def _number(number: int, count: Cardinality) -> int:
    """Return the number of an element, counted from the front."""
    if count.known and not -count <= number < count:
        raise IndexError(f"element {number} of a dataset of {count}")
    if count == INFINITE and number < 0:
        raise IndexError("an infinite dataset has no end to count from")
    return number + count if number < 0 else number


def _element(node: Node, number: int) -> Nested:
    run = Pass(options=merge_options(node))
    try:
        context = run.context(Prepared.of(node)).epoch(0)
        item = context.fetch_items(node, np.array([number]))[0]
    finally:
        run.close()
    if isinstance(item, Failure):
        raise item.error.copy()
    try:
        (element,) = item.elements()
    except Exception as error:
        raise node.error(error, number) from error
    return element


@dataclass(frozen=True, eq=False)
class Select(RowsByNumber):
    """Rows start, start + step, … of an indexable input, `count` of them."""

    start: int
    count: int
    step: int

    @property
    def operation(self) -> str:
        return "slice"

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.count)

    indexable = True
    has_extra_failures = False


@opens(Select)
def open_selected(node: Select, ctx: Context, _at: At) -> Stream:
    """Return the rows by number."""
    return NumberStream(ctx, node.input, node.count, lambda a, b: node.start + np.arange(a, b) * node.step)


@fetches(Select)
def fetch_selected(node: Select, ctx: Context, indices: Indices) -> Block:
    """Return every n-th row."""
    return ctx.fetch(node.input, node.start + indices * node.step)


@dataclass(frozen=True, eq=False)
class SelectNumbers(RowsByNumber):
    """Rows of an indexable input by their numbers. One that comes again has another id."""

    numbers: tuple[int, ...]

    @property
    def operation(self) -> str:
        return "elements"

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(len(self.numbers))

    indexable = True
    has_extra_failures = False

    @property
    def in_large_lots(self) -> bool:
        return is_coarse(self.input)

    @cached_property
    def again(self) -> Indices:
        """Return how many times each row came before."""
        seen: Counter[int] = Counter()
        times = []
        for number in self.numbers:
            times.append(seen[number])
            seen[number] += 1
        return np.array(times, np.int64)


@fetches(SelectNumbers)
def fetch_listed(node: SelectNumbers, ctx: Context, indices: Indices) -> Block:
    """Return rows by their places in the list."""
    block = ctx.fetch(node.input, np.array(node.numbers, np.int64)[indices])
    if block.ids is not None and node.again.any():
        times = node.again[indices].astype(np.uint64)
        path = block.ids[:, 0]
        block.ids = np.stack([np.where(times > 0, path * np.uint64(FOLD) + times, path), block.ids[:, 1]], 1)
    return block


@opens(SelectNumbers)
def open_numbers(node: SelectNumbers, ctx: Context, _at: At) -> Stream:
    """Return the rows in the order requested."""
    return NumberStream(ctx, node, len(node.numbers), np.arange, scattered=is_coarse(node.input))
