"""The base of all operations that make batches: a subclass says how rows are combined."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headrace.columns import Indices, column_bytes
from headrace.columns.block import Block, Failure, Item, concat, folded, structures_differ
from headrace.errors import ElementError, SpecError
from headrace.execute.context import Context, Form
from headrace.execute.registry import fetches, opens
from headrace.execute.remainder import end_of_rows, read_again
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Divides, Node

SLOW_COPY_BYTES = 1 << 18
"""Copying this many bytes takes longer than handing over one more block."""
BATCHED = 3
"""Folded into the path of a batch's id, which is otherwise that of its first row."""


class Stacking(Protocol):
    """Combine rows, and report those that do not fit."""

    def assemble(self, block: Block, size: int) -> Block | str: ...
    def error(self, cause: BaseException | str, ordinal: int) -> ElementError: ...


@dataclass(frozen=True, eq=False)
class Batching(Node):
    """Combine every `batch_size` rows into one."""

    input: Node
    batch_size: int
    drop_remainder: bool = False

    divides = Divides.SHARES
    stacks_objects = False
    """Whether it makes no difference to a batch if texts come as objects."""

    @abstractmethod
    def assemble(self, block: Block, size: int) -> Block | str:
        """Return every `size` rows of a block as one, or why not."""

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.in_groups(self.batch_size, up=not self.drop_remainder)

    @property
    def takes(self) -> int:
        return self.batch_size

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def drops_rows(self) -> bool:
        return self.drop_remainder and not self.input.cardinality.fills(self.batch_size)

    @property
    def leading(self) -> int | None:
        """The size of a batch's first axis, as far as it is known."""
        return self.batch_size if self.drop_remainder else None


@fetches(Batching)
def fetch_batches(node: Batching, ctx: Context, indices: Indices) -> Block:
    """Return the rows of each batch, put together."""
    rows, size = node.input.cardinality, node.batch_size
    made = []
    for start in indices * size:
        stop = min(start + size, rows) if rows.known else start + size
        numbers = np.arange(start, stop)
        items: list[Item]
        try:
            items = [ctx.fetch(node.input, numbers)]
        except SpecError as error:
            raise node.error(error, int(start // size)) from None
        except ElementError:  # of whichever operation failed first: the batch's is that of its first bad row
            items = ctx.fetch_items(node.input, numbers)
        made.append(stack_items(node, items, len(numbers), int(start // size)))
    return concat(made)


@opens(Batching)
class BatchStream(Stream):
    """Pull rows until a batch is complete. `_carry` holds the rows of an incomplete batch."""

    def __init__(self, node: Batching, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, form=Form(objects=node.stacks_objects))
        self._ctx = ctx
        self._carry: list[Item] = []
        self._carried = 0

    @property
    def handed_over(self) -> bool:
        return self._input.stream.handed_over

    def pull(self, want: int) -> Made:
        size = self._node.batch_size
        while self._carried < size:
            item = self._input.pull(want * size - self._carried)
            if item is END:
                return self._last()
            self._carry.append(item)
            self._carried += item.rows
        if all(isinstance(item, Block) for item in self._carry):
            return self._whole(self._joined(min(want * size, self._carried - self._carried % size), size), size)
        return self._whole(size, size)

    def _joined(self, rows: int, size: int) -> int:
        """Return how many of `rows` rows to join now: of a large block only those of a batch that began before it."""
        last = self._carry[-1]
        before = self._carried - last.rows
        begun = -(-before // size) * size
        return begun if 0 < begun < rows and _takes_long_to_copy(last) else rows

    def _whole(self, rows: int, size: int) -> Item:
        """Return the first `rows` rows that wait, as batches of `size`."""
        taken, self._carry = _split(self._carry, rows)
        self._carried -= rows
        mark = taken[0].mark
        try:
            return stack_items(self._node, taken, size, mark.ordinal // self._node.batch_size)
        except ElementError as error:
            if rows > size:  # find the batch that is at fault: one at a time
                self._carry, self._carried = [*taken, *self._carry], self._carried + rows
                return self._whole(size, size)
            return Failure(error, mark)

    def _last(self) -> Made:
        if self._node.drop_remainder:
            dropped, self._carry, self._carried = self._carry, [], 0
            return end_of_rows(dropped)
        return self._whole(self._carried, self._carried) if self._carried else END

    def skip(self, count: int, *, replay: bool = False) -> int:
        node, size = self._node, self._node.batch_size
        if node.drop_remainder and not node.input.pure:  # the last one is pulled: a remainder may hold a failure
            count = count - 1 if replay else 0
        rows = count * size - self._carried
        if rows <= 0:
            return 0
        waiting, mark = self._carried, self._carry[0].mark if self._carry else self._input.mark()
        self._carry, self._carried = [], 0
        done = waiting + self._input.skip(rows, replay=replay)
        if not node.drop_remainder:
            return -(-done // size)
        whole, rest = divmod(done, size)
        if whole < count and rest:
            self._carry = read_again(self._ctx, node.input, mark, skip=whole * size, rows=rest)
            self._carried = rest
        return whole


def stack_items(node: Stacking, parts: list[Item], size: int, number: int) -> Block:
    """Return the rows of `parts` in batches, the first of them the `number`-th; raises the failure among them, or why
    not.
    """
    mark = parts[0].mark
    blocks = []
    for part in parts:
        if isinstance(part, Failure):
            raise part.error
        blocks.append(part)
    differ = structures_differ(blocks)
    if differ:
        raise node.error(SpecError(differ), number)
    made = node.assemble(concat(blocks), size)
    if isinstance(made, str):
        raise node.error(SpecError(made), number)
    made.mark = mark
    made.ids = folded(made.ids, BATCHED)
    return made


def _takes_long_to_copy(item: Item) -> bool:
    """Return whether copying takes longer than handing over one more block; objects are not copied, only referenced."""
    if not isinstance(item, Block) or item.nbytes < SLOW_COPY_BYTES:
        return False
    return sum(c.nbytes if isinstance(c, np.ndarray) else column_bytes(c) for c in item.columns) >= SLOW_COPY_BYTES


def _split(items: list[Item], rows: int) -> tuple[list[Item], list[Item]]:
    head: list[Item] = []
    for i, item in enumerate(items):
        if item.rows >= rows:
            head.append(item.slice(0, rows) if item.rows > rows else item)
            rest = [item.slice(rows, item.rows)] if item.rows > rows else []
            return head, rest + items[i + 1 :]
        head.append(item)
        rows -= item.rows
    return head, []
