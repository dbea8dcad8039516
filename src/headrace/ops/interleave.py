"""Take turns among several datasets at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from headrace import keys
from headrace.block import Block, Item
from headrace.errors import StateError
from headrace.execute.context import CYCLE, Context
from headrace.execute.registry import opens
from headrace.execute.row_buffer import ReadersAhead, RowBuffer
from headrace.execute.stream import END, Made, Pulled, Stream, with_more
from headrace.late_block import held_bytes, merge_rows
from headrace.ops.arguments import function, positive, width
from headrace.ops.children import Parent, open_child
from headrace.ops.prefetch import Prefetch
from headrace.ops.template import BuildingNode
from headrace.options import AUTOTUNE
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Mark, Marked, OwnMark
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import Probe

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def interleave(
    self: Dataset,
    map_func: Callable[..., Dataset],
    cycle_length: int | None = None,
    block_length: int | None = None,
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Dataset:
    """Visit `cycle_length` datasets made by `map_func` in turn, `block_length` elements each.

    With `num_parallel_calls` that many of them are read ahead, each on a thread, with AUTOTUNE as many as are found to
    help, which is also so for files on this machine that are only read; the order stays the same, unless
    `deterministic=False`.

    >>> list(hr.Dataset.range(2).interleave(lambda i: hr.Dataset.range(10 * i, 10 * i + 2), cycle_length=2))
    [np.int64(0), np.int64(10), np.int64(1), np.int64(11)]
    """
    if cycle_length is None or cycle_length == AUTOTUNE:
        cycle_length = CYCLE
    return self._then(
        Interleave,
        function("interleave", map_func, self._node.spec),
        positive("cycle_length", cycle_length),
        positive("block_length", 1 if block_length is None else block_length),
        keys.seed(None),
        width(num_parallel_calls),
        deterministic,
        name=name,
    )


@dataclass(frozen=True, eq=False)
class Interleave(BuildingNode):
    """Opens one dataset for each row, up to `cycle_length` at a time."""

    input: Node
    fn: Callable[..., Any]
    cycle_length: int
    block_length: int
    seed: keys.Seed = field(repr=False, metadata=TUNING)
    num_parallel_calls: int | None = field(metadata=TUNING)
    deterministic: bool | None = field(default=None, metadata=TUNING)

    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))

    divides = True
    keeps_rows = True

    @cached_property
    def pure(self) -> bool:
        return self.deterministic is not False and self.input.pure and self.building.pure(self.input.spec)

    def remedy(self) -> str | None:
        return "give it num_parallel_calls=hr.AUTOTUNE" if self.num_parallel_calls is None else None

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.vague


class TurnTaker(Parent, Protocol):
    """A node that opens several datasets at a time."""

    @property
    def cycle_length(self) -> int | None: ...
    @property
    def block_length(self) -> int: ...
    @property
    def num_parallel_calls(self) -> int | None: ...
    @property
    def deterministic(self) -> bool | None: ...


MERGED_BYTES = 4 << 20
"""Rows that lie ready are put in order up to so many bytes at a time, wanted or not: rows are cheap, turns are not."""


@dataclass(slots=True)
class TurnsMark(OwnMark):
    """Whose turn it is, and what it has given in it; how many parents were read since the oldest live one.

    `live` are the slots that hold a dataset: which, the ordinal of the parent, and where the dataset stands.
    """

    turn: int
    given: int
    read: int
    live: tuple[tuple[int, int, Marked], ...]


@opens(Interleave, own=TurnsMark)
class InterleaveStream(Stream):
    """Walks the slots in turn. Where the input is read again: at the oldest live parent."""

    def __init__(self, node: TurnTaker, ctx: Context, at: At, merge: Callable[..., Block] = merge_rows) -> None:
        self._node = node
        self._ctx = ctx
        self._merge = merge
        self._ordered = ctx.keeps_order(node.deterministic)
        self._unseen = node.pure and self._ordered
        self._slots: list[RowBuffer | None] = [None] * (node.cycle_length or 1)
        self._parent_marks: list[Mark | None] = [None] * len(self._slots)
        self._ahead = ReadersAhead(ctx, node.num_parallel_calls, most=len(self._slots))
        self._pace = self._ahead.pace(ctx)
        own = at.own or TurnsMark(0, 0, 0, ())
        self._turn: int = own.turn
        self._given: int = own.given
        self._pinned = at.own is not None  # rows that follow a mark come from the slot it names
        self._parents = ctx.open(node.input, at.inputs, with_ids=True)
        self._changed: set[int] = set()
        self._entries: dict[int, tuple[int, int, Mark]] = {}
        self._oldest: Mark | None = None
        self._over = False
        base = self._parents.ordinal
        for index, number, inner in sorted(own.live, key=lambda entry: entry[1]):
            self._pass_parents(number)
            if not self._fill(index, inner):
                raise StateError("the input of interleave ended before the element where the state was taken")
        self._pass_parents(base + own.read)

    def _pass_parents(self, until: int) -> None:
        self._parents.skip(until - self._parents.ordinal, replay=True)

    def _fill(self, index: int, mark: Marked | None = None) -> bool:
        """Open the next parent's dataset in this slot; False if there is none."""
        row = END if self._over else self._parents.pull(1)
        if row is END:
            self._over = True
            return False
        pure = brief = False

        def ahead(child: Node) -> Node:
            nonlocal pure, brief
            pure = child.pure
            brief = pure and child.brief
            self._ahead.expect(child)
            return Prefetch(child, None) if self._ahead.needs_thread(index) and not brief else child

        self._parent_marks[index] = row.mark
        child = open_child(self._node, self._ctx.one_of(len(self._slots)), row, mark, ahead=ahead)
        self._slots[index] = slot = RowBuffer(child, in_blocks=pure, brief=brief, pace=self._pace)
        self._ahead.begin(index, slot)
        self._changed.add(index)
        self._oldest = None
        return True

    def _place(self) -> tuple[Mark, TurnsMark]:
        """What the next rows are marked with. Entries of slots are made anew only where one has changed since."""
        for index in self._changed:
            slot, parent = self._slots[index], self._parent_marks[index]
            self._entries.pop(index, None)
            if slot is not None and parent is not None:
                self._entries[index] = (index, parent.ordinal, slot.mark())
        self._changed.clear()
        if self._oldest is None:
            live = [mark for mark in self._parent_marks if mark is not None]
            self._oldest = min(live, key=attrgetter("ordinal"), default=None)
        oldest = self._parents.mark() if self._oldest is None else self._oldest
        read = self._parents.ordinal - oldest.ordinal
        return oldest, TurnsMark(self._turn, self._given, read, tuple(self._entries.values()))

    def _place_of(self, item: Item) -> tuple[Mark, TurnsMark]:
        """What rows of the slot whose turn it is are marked with: they know better than the slot did where they lie."""
        parent = self._parent_marks[self._turn]
        assert parent is not None, "the slot holds a dataset"
        self._changed.discard(self._turn)
        self._entries[self._turn] = (self._turn, parent.ordinal, item.mark)
        place = self._place()
        self._changed.add(self._turn)
        return place

    def _advance(self) -> None:
        self._turn = (self._turn + 1) % len(self._slots)
        self._given = 0
        self._pinned = False

    def pull(self, want: int) -> Made:
        item = self.pull_item(want)
        return with_more(item, want, self.pull_item) if self._unseen else item

    def pull_item(self, want: int) -> Pulled:
        """What comes next, as it comes: rows of one turn, or of several whole rounds."""
        return self._ahead.pull(self._next, want, self._slots) or END

    def _next(self, want: int) -> Item | None:
        return self._many_turns(want) or self._turn_by_turn(want)

    def _many_turns(self, want: int) -> Block | None:
        """Several turns at once, wanted or not, where every slot has rows ready for its share of them."""
        length, count = self._node.block_length, len(self._slots)
        if want < 2 * length or self._given or not self._ordered:
            return None
        around = (i % count for i in range(self._turn, self._turn + count))
        visits = [i for i in around if self._slots[i] is not None or not self._over]
        live = [slot for i in visits if (slot := self._slots[i]) is not None]
        heads = [head for slot in live if (head := slot.head()) is not None]
        count = len(visits)  # no more datasets come for slots that are empty once the parents are over
        if not heads or len(heads) < count or any(head.structure != heads[0].structure for head in heads):
            return None
        rows = max(want, MERGED_BYTES * sum(head.rows for head in heads) // max(1, sum(map(held_bytes, heads))))
        turns = min([rows // length, *(head.rows // length * count + i for i, head in enumerate(heads))])
        if turns * length > want and want % length == 0:  # what is left over would have to be joined with the next
            turns -= turns % (want // length)
        if turns < 2:
            return None
        place = self._place()
        self._changed.update(visits)
        shares = [-(-(turns - i) // count) for i in range(count)]
        parts = [slot.pull(share * length) for slot, share in zip(live, shares, strict=True) if share]
        blocks = [part for part in parts if isinstance(part, Block)]
        rounds, slot_of = np.divmod(np.arange(turns), count)
        first = np.cumsum([0, *shares[:-1]])
        order = (first[slot_of] + rounds)[:, None] * length + np.arange(length)
        whole = self._merge(blocks, order.ravel())
        whole.mark, whole.own = place
        self._turn = visits[turns % count]
        self._pinned = False
        return whole

    def _turn_by_turn(self, want: int) -> Item | None:
        idle = 0
        while idle <= len(self._slots):
            if not (self._ordered or self._pinned or self._given):
                self._turn = self._ahead.next_ready(self._slots, self._turn, fill=not self._over)
            slot = self._slots[self._turn]
            if slot is None:
                if not self._fill(self._turn):
                    idle += 1
                    self._advance()
                continue
            idle = 0
            item = slot.pull(min(want, self._node.block_length - self._given))
            if item is not END:
                item.mark, item.own = self._place_of(item)
                self._given += item.rows
                if self._given == self._node.block_length:
                    self._advance()
                return item
            slot.close()
            self._slots[self._turn] = self._parent_marks[self._turn] = None
            self._changed.add(self._turn)
            self._oldest = None
            self._advance()
        return None
