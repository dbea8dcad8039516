"""Batches that hold as many rows as fit into a number of tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Column, Indices, in_own_kinds, values
from headrace.columns.block import Block, Failure, Item, pick_rows, structures_differ
from headrace.core.keys import mix_key
from headrace.core.types import Nested, UserFunction
from headrace.errors import ElementError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.padded_batch import PaddedBatch, Padding, column_dtype, pad_rows
from headrace.ops.ragged_batch import RaggedBatch, assemble_ragged
from headrace.ops.shared.arguments import positive
from headrace.ops.shared.batching import stack_items
from headrace.ops.shared.row_sizes import lengths_of, row_sizes, size_arguments
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Mark
from headrace.plan.node import Divides, Node
from headrace.plan.spec import Spec
from headrace.trace.function import Function

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def batch_by_tokens(
    self: Dataset,
    budget: int,
    length: Callable[..., object] | str | int | None = None,
    *,
    max_rows: int | None = None,
    pad_to_multiple_of: int = 1,
    sort_window: int = 4096,
    group: int = 1,
    packed: bool = False,
    padding_values: Nested = None,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Batch rows of similar length, as many as fit into `budget` tokens.

    Every `sort_window` elements are sorted by length and cut into batches. A batch is padded to its longest row, and
    its rows times that length are at most `budget`. The batches of a window come in an order that is drawn anew in each
    epoch and follows from nothing but the position. An element that is longer than the budget is an error in its place,
    as are elements that fail: they come before the batches of their window.

    For several processes, put `distribute(rank, world_size)` after it: each gets as many batches as the others. With
    `group` a multiple of the world size, the batches of one step have the same number of rows.

    Args:
        budget: The most tokens in a batch, padding included.
        length: How long an element is: a function, or the key of a component, whose first axis is counted (a number
            is taken as it is). By default the only component.
        max_rows: The most rows in a batch.
        pad_to_multiple_of: Batches are padded to lengths that are multiples of this; only axes of no fixed size are.
        sort_window: How many elements are sorted together. They are read again on a resume.
        group: How many consecutive batches have the same number of rows. It is part of the order, so choose one that
            all world sizes divide.
        packed: Do not pad: components of varying length become hr.Ragged, and the sum of the lengths is at most
            `budget`.
        padding_values: As for `padded_batch`.
        drop_remainder: Whether to leave out the last batches of an epoch if they hold fewer rows than fit, or do not
            fill a group.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset of batches.

    Raises:
        SpecError: The elements have no such component.
        ValueError: An argument is out of range.

    >>> rows = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([[1], [2] * 4, [3] * 2, [4] * 4, [5]]))
    >>> sorted(batch.tolist() for batch in rows.batch_by_tokens(8))
    [[[2, 2, 2, 2], [4, 4, 4, 4]], [[3, 3], [1, 0], [5, 0]]]
    """
    spec = self._node.spec
    fn, key = size_arguments("batch_by_tokens", "length", length, spec)
    several = positive("group", group)
    window = -(-positive("sort_window", sort_window) // several) * several
    limits = TokenLimits(
        positive("budget", budget),
        None if max_rows is None else positive("max_rows", max_rows),
        positive("pad_to_multiple_of", pad_to_multiple_of),
        several,
        bool(packed),
    )
    padding = None if packed else Padding(None, padding_values)
    if padding is not None and spec.known:
        padding.check(spec)
    return self._then(BatchByTokens, limits, window, fn, key, padding, bool(drop_remainder), name=name)


@dataclass(frozen=True)
class TokenLimits:
    """How many rows go into a batch."""

    budget: int
    max_rows: int | None
    multiple: int
    group: int
    packed: bool

    def padded(self, length: int) -> int:
        """Return the length that a row of `length` tokens is padded to."""
        return length if self.packed else -(-length // self.multiple) * self.multiple

    def capacity(self, lengths: Indices) -> int:
        """How many rows a batch may have that begins with the first of these, whose lengths fall."""
        most = len(lengths) + 1 if self.max_rows is None else self.max_rows
        if self.packed:
            fit = int(np.searchsorted(np.cumsum(lengths), self.budget, side="right"))
            return min(most, fit + (fit == len(lengths)))  # all of them: there would be room for one more
        longest = self.padded(int(lengths[0]))
        return min(self.max_rows or self.budget, self.budget // longest) if longest else most

    def groups(self, lengths: Indices, *, drop_last: bool) -> list[list[Indices]]:
        """Rows in batches, and batches in groups with the same number of rows each.

        `drop_last` leaves out a last group whose batches could hold more.
        """
        order = np.argsort(-lengths, kind="stable")
        falling, made, at, group = lengths[order], [], 0, self.group
        while at < len(order):
            rows, left = self.capacity(falling[at:]), len(order) - at
            if left < rows * group and drop_last:
                break
            even = min(rows, left // group)
            if not even:  # the last rows of an epoch
                made.append([order[i : i + rows] for i in range(at, len(order), rows)])
                break
            made.append([order[at + i * even : at + (i + 1) * even] for i in range(group)])
            at += even * group
        return made

    def __str__(self) -> str:
        return f"{self.budget}, {self.max_rows}, {self.multiple}, {self.group}, {self.packed}"


@dataclass(frozen=True, eq=False)
class BatchByTokens(Node):
    """Rows of a window, sorted by length, in batches within a budget."""

    input: Node
    limits: TokenLimits
    window: int
    length_func: UserFunction | None = None
    key: Hashable = None
    padding: Padding | None = field(default=None)
    drop_remainder: bool = False

    divides = Divides.SHARES

    @cached_property
    def pure(self) -> bool:
        """See the class."""
        return self.length_func is None and self.input.pure

    @property
    def live(self) -> bool:  # type: ignore[override]
        """See the class."""
        return self.length_func is not None

    @property
    def operation(self) -> str:
        return "batch_by_tokens"

    @cached_property
    def function(self) -> Function | None:
        """The length function and its traces."""
        return None if self.length_func is None else Function(self.length_func)

    @property
    def spec(self) -> Spec:
        if not self.input.spec.known:
            return Spec.UNKNOWN
        if self.padding is None:
            return RaggedBatch(self.input, 1, site=self.site).spec
        return PaddedBatch(self.input, 1, padding=self.padding, site=self.site).spec

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality if self.input.cardinality == 0 else self.input.cardinality.vague

    def remark(self) -> str | None:
        return None if self.function is None else self.function.remark(self.input.spec)

    def too_long(self, length: int) -> ValueError | None:
        """Why a row cannot be in any batch."""
        if self.limits.padded(length) <= self.limits.budget:
            return None
        return ValueError(
            f"an element of {length} tokens does not fit into a batch of {self.limits.budget}: raise the budget, or "
            "truncate or chunk() the elements before"
        )

    def order(self, path: int, start: int, groups: int) -> list[int]:
        """In which order the groups of a window come, that begins with element `start`."""
        return sorted(range(groups), key=lambda number: mix_key(path, start, number))

    def assemble(self, block: Block, size: int) -> Block | str:
        """Every `size` rows of a block as one, or why not."""
        if self.padding is None:
            return assemble_ragged(self.input, block, size)
        structure, ids = block.structure, block.ids
        columns: list[Column] = []
        known = [in_own_kinds(column) for column in block.columns]
        fillers = self.padding.fillers(structure, [column_dtype(c) for c in known])
        fixed = self.fixed_axes(block)
        for path, column, filler, fix in zip(structure.paths, known, fillers, fixed, strict=True):
            lengths = None if fix or self.limits.multiple == 1 else lengths_of(column)
            target = None
            if lengths is not None:
                axes = (None,) * (np.ndim(next(values(column))) - 1)
                target = (self.limits.padded(int(lengths.max(initial=0))), *axes)
            made = pad_rows(column, block.rows // size, size, target, filler)
            if isinstance(made, str):
                return f"component{path}: {made}" if path else made
            columns.append(made)
        return Block(structure, columns, block.rows // size, block.mark, None if ids is None else ids[::size])

    def fixed_axes(self, block: Block) -> list[bool]:
        """Of each component, whether its first axis has one size in all elements."""
        known = self.input.spec
        if known.structure != block.structure or self.input.tentative:
            return [False] * block.structure.leaves
        return [bool(leaf.shape) and leaf.shape is not None and leaf.shape[0] is not None for leaf in known.leaves]


@opens(BatchByTokens)
class TokenBatchStream(Stream):
    """A window of rows at a time: failures first, then batches. A place is the window's, and how many came of it."""

    def __init__(self, node: BatchByTokens, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._input = ctx.open(node.input, at.inputs)
        self._failures: deque[Failure] = deque()
        self._batches: deque[Indices] = deque()
        self._blocks: list[Block] = []
        self._numbers: list[int] = []
        self._given = 0
        self._mark: Mark

    def pull(self, want: int) -> Made:
        made: list[Item] = []
        while len(made) < want:
            if not self._failures and not self._batches:
                if made:
                    break
                if not self._read_window():
                    return END
                continue
            item = self._failures.popleft() if self._failures else self._batch(self._batches.popleft())
            item.mark, item.own, item.offset = self._mark, None, self._given
            self._given += 1
            made.append(item)
        return made

    def _read_window(self) -> bool:
        """Read as many rows as are sorted together; False at the end."""
        node = self._node
        self._mark, self._given, self._blocks, self._numbers = self._input.mark(), 0, [], []
        start = self._input.ordinal
        lengths: list[int] = []
        ended = False
        while len(lengths) < node.window:
            number = self._input.ordinal
            item = self._input.pull(node.window - len(lengths))
            if item is END:
                ended = True
                break
            if isinstance(item, Failure):
                self._failures.append(item)
                continue
            lengths += self._sized(item, number)
        if self._input.ordinal == start:
            return False
        limits = node.limits
        groups = limits.groups(np.array(lengths, np.int64), drop_last=ended and node.drop_remainder)
        order = node.order(self._ctx.path, start, len(groups))
        self._batches.extend(batch for number in _last_stays(order, groups, limits.group) for batch in groups[number])
        return True

    def _sized(self, block: Block, number: int) -> list[int]:
        """The lengths of the rows that can be batched, which are kept; the others become failures."""
        node = self._node
        good: list[int] = []
        lengths: list[int] = []
        for i, size in enumerate(row_sizes(node.operation, node.function, node.key, block)):
            error = size if isinstance(size, Exception) else node.too_long(int(size))
            if error is not None:
                self._failures.append(Failure(node.error(error, number + i)))
            else:
                assert not isinstance(size, Exception)
                good.append(i)
                lengths.append(int(size))
                self._numbers.append(number + i)
        if good:
            self._blocks.append(block if len(good) == block.rows else block.take(np.array(good)))
        return lengths

    def _batch(self, rows: Indices) -> Item:
        number = self._numbers[int(rows[0])]
        try:
            if structures_differ(self._blocks):
                starts = np.cumsum([0, *(block.rows for block in self._blocks)])
                found = np.searchsorted(starts, rows, side="right") - 1
                pairs = zip(found.tolist(), (rows - starts[found]).tolist(), strict=True)
                parts: list[Item] = [self._blocks[block].slice(row, row + 1) for block, row in pairs]
            else:
                parts = [pick_rows(self._blocks, rows)]
            return stack_items(self._node, parts, len(rows), number)
        except ElementError as error:
            return Failure(error)
        except Exception as error:
            return Failure(self._node.error(error, number))


def _last_stays(order: list[int], groups: list[list[Indices]], size: int) -> list[int]:
    """The order, with a group that has other than `size` batches at the end, so that the others stay aligned."""
    return sorted(order, key=lambda number: len(groups[number]) != size)
