"""Interleave several datasets at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from headrace import _native
from headrace.columns import Indices
from headrace.columns.block import Block, Item
from headrace.columns.lazy_block import Selection, look_at, merge_rows
from headrace.columns.refs import CorruptRecordsError
from headrace.core import keys
from headrace.core.types import UserFunction
from headrace.errors import StateError
from headrace.execute.context import DEFAULT_CYCLE_LENGTH, Context
from headrace.execute.registry import opens
from headrace.execute.row_buffer import ReadersAhead, RowBuffer
from headrace.execute.stream import END, Made, Pulled, Stream, with_more
from headrace.ops.prefetch import Prefetch
from headrace.ops.shared.arguments import MAX_OPEN_DATASETS, function, positive, width
from headrace.ops.shared.children import Parent, open_child
from headrace.ops.shared.keywords import explain_keywords
from headrace.ops.shared.ready_rows import ReadyRows
from headrace.ops.shared.template import BuildingNode
from headrace.options import AUTOTUNE
from headrace.plan.access import is_brief
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Mark, Marked, OwnMark
from headrace.plan.node import TUNING, Divides, Node
from headrace.plan.spec import Probe

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


@explain_keywords
def interleave(
    self: Dataset,
    map_func: Callable[..., Dataset[Element]],
    cycle_length: int | None = None,
    block_length: int | None = None,
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Dataset[Element]:
    """Visit `cycle_length` datasets made by `map_func` in turn, `block_length` elements each.

    With `num_parallel_calls` that many of them are read ahead, each on a thread. With AUTOTUNE, and for local files
    that are only read, as many are as are found to help. The order stays the same, unless `deterministic=False`.

    Args:
        map_func: Function of one element that returns a dataset.
        cycle_length: Number of inputs that take turns.
        block_length: Number of elements that each input gives per turn.
        num_parallel_calls: Number of inputs that are read at the same time, or `hr.AUTOTUNE`.
        deterministic: Whether to keep the order of elements. Default: the option of the pipeline, which keeps it.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(2).interleave(lambda i: hr.Dataset.range(10 * i, 10 * i + 2), cycle_length=2))
    [np.int64(0), np.int64(10), np.int64(1), np.int64(11)]
    """
    if cycle_length is None or cycle_length == AUTOTUNE:
        cycle_length = DEFAULT_CYCLE_LENGTH
    return self._then(
        Interleave,
        function("interleave", map_func, self._node.spec, mode="eager"),
        positive("cycle_length", cycle_length, most=MAX_OPEN_DATASETS),
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
    fn: UserFunction
    cycle_length: int
    block_length: int
    seed: keys.Seed = field(repr=False, metadata=TUNING)
    num_parallel_calls: int | None = field(metadata=TUNING)
    deterministic: bool | None = field(default=None, metadata=TUNING)

    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))

    divides = Divides.ROWS

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


ANOTHER_LANE = -1
NO_LANE = -2


class ManyChildren(Protocol):
    """Make the rows of many parents at once."""

    @property
    def most(self) -> int:
        """Return how many parents it takes at a time."""

    def fill_each(self, ctx: Context, parents: Block) -> list[Block] | None:
        """Return all rows of each of these parents, marked; None if they must be handled one by one."""


Plan: TypeAlias = tuple[Indices, list[int], list[int], tuple[int, int], int, int]
"""The result of `take_turns`: the order of the rows, the lane of each slot, the rows taken from each lane, the current
turn and what it has given, how many lanes have had a slot, and which lane needs more rows.
"""


class Lane(NamedTuple):
    """A live child: the mark of its parent, and its rows."""

    parent: Mark
    rows: RowBuffer


@dataclass(slots=True)
class TurnsMark(OwnMark):
    """The current slot, what it has given in its turn, and how many parents were read since the oldest live one.

    `live` are the slots that hold a dataset: the slot, the ordinal of the parent, and the position in the dataset.
    """

    turn: int
    given: int
    read: int
    live: tuple[tuple[int, int, Marked], ...]


class InterleaveStream(Stream):
    """Visit the slots in turn. A resume re-reads the input from the oldest live parent.

    Each slot holds a lane. The numbers of ready rows determine which rows come next: many turns are planned at a time,
    and one gather makes their block. Failures, and rows that must not be made before they are requested, are taken turn
    by turn.
    """

    def __init__(
        self,
        node: TurnTaker,
        ctx: Context,
        at: At,
        merge: Callable[..., Block] = merge_rows,
        many: ManyChildren | None = None,
    ) -> None:
        self._node = node
        self._ctx = ctx
        self._merge = merge
        self._many = many
        self._rows_each = 1
        self._alone = 0  # how many parents are opened one by one before many are tried again
        self._ordered = ctx.keeps_order(node.deterministic)
        self._unseen = node.pure and self._ordered
        self._plans = merge is merge_rows  # rows of workers elsewhere are waited for in their turn
        self._slots: list[Lane | None] = [None] * (node.cycle_length or 1)
        self._waiting: deque[Lane] = deque()  # opened, for the slots that come free next
        # Records that become objects are read by reference: then one call makes the objects of a merged block.
        self._boxes: bool = self._unseen and self._plans and ctx.objects and not ctx.late
        try:
            self._begin(at)
        except CorruptRecordsError as error:
            self._begin_eagerly(at, error)

    def _begin(self, at: At) -> None:
        """Open the input and the datasets that are live at this position."""
        node, ctx = self._node, self._ctx
        readers = ctx._replace(late=True) if self._boxes else ctx
        self._ahead = ReadersAhead(readers, node.num_parallel_calls, most=len(self._slots))
        self._pace = self._ahead.pace(ctx)
        own = at.own or TurnsMark(0, 0, 0, ())
        self._turn: int = own.turn
        self._given: int = own.given
        self._pinned = at.own is not None  # rows that follow a mark come from the slot it names
        self._parents = RowBuffer(ctx.with_row_ids().open(node.input, at.inputs), in_blocks=False)
        self._changed: set[int] = set()
        self._entries: dict[int, tuple[int, int, Mark]] = {}
        self._oldest: Mark | None = None
        self._over = False
        base = self._parents.mark().ordinal
        for index, number, inner in sorted(own.live, key=lambda entry: entry[1]):
            self._pass_parents(number)
            if not self._open(index, mark=inner):
                raise StateError("the input of interleave ended before the element at which the state was taken")
            self._fill(index)
        self._pass_parents(base + own.read)

    def _begin_eagerly(self, at: At, corrupt: CorruptRecordsError) -> None:
        """Begin again at this position, after records proved corrupt, with datasets that verify what they read."""
        self._boxes = False
        for lane in (*self._slots, *self._waiting):
            if lane is not None:
                lane.rows.close()
        self._parents.close()
        self._slots = [None] * len(self._slots)
        self._waiting.clear()
        try:
            self._begin(at)
        except StateError as error:  # an input changed, and there is no way to continue
            raise StateError(f"the input was changed while it was being read{corrupt.where()}: {error}") from error

    def _pass_parents(self, until: int) -> None:
        self._parents.skip(until - self._parents.mark().ordinal, replay=True)

    def _fill(self, index: int) -> bool:
        """Put the next parent's dataset into this slot; False if there is none."""
        if not self._waiting and not self._open(index):
            return False
        self._slots[index] = self._waiting.popleft()
        self._changed.add(index)
        self._oldest = None
        return True

    def _open(self, index: int, want: int = 1, mark: Marked | None = None) -> bool:
        """Open the next parent's dataset for this slot, or those of several for which rows are wanted."""
        many = self._many if self._unseen and mark is None and self._alone <= 0 else None
        count = 1 if many is None else min(many.most, max(len(self._slots), want // self._rows_each))
        rows = END if self._over else self._parents.pull(count)
        if rows is END:
            self._over = True
            return False
        made = many.fill_each(self._ctx, rows) if many is not None and isinstance(rows, Block) else None
        if made is not None:
            lanes = (Lane(rows.mark.later(i), RowBuffer.of_block(block)) for i, block in enumerate(made))
            self._waiting.extend(lanes)
            self._rows_each = max(1, sum(block.rows for block in made) // rows.rows)
            return True
        if many is not None:  # one of them must be looked at by itself
            self._alone = rows.rows
            self._parents.put_back(rows)
            rows = self._parents.pull(1)
            assert rows is not END
        self._alone -= 1
        self._waiting.append(Lane(rows.mark, self._open_one(index, rows, mark)))
        return True

    def _open_one(self, index: int, row: Item, mark: Marked | None) -> RowBuffer:
        pure = brief = False

        def ahead(child: Node) -> Node:
            nonlocal pure, brief
            pure = child.pure
            brief = pure and is_brief(child)
            self._ahead.expect(child)
            threaded = self._ahead.needs_thread(index) and not brief
            if not threaded:
                return child
            scan = self._ctx.run.prepare(child).plan
            return child if scan.ahead else Prefetch(child, None)

        ctx = self._ctx.one_of(len(self._slots))
        child = open_child(self._node, ctx, row, mark, ahead=ahead, late=self._boxes)
        buffer = RowBuffer(child, in_blocks=pure, brief=brief, pace=self._pace)
        self._ahead.begin(index, buffer)
        return buffer

    def _place(self) -> tuple[Mark, TurnsMark]:
        """Return the marks of the next rows. Slot entries are rebuilt only if one has changed."""
        for index in self._changed:
            lane = self._slots[index]
            self._entries.pop(index, None)
            if lane is not None:
                self._entries[index] = (index, lane.parent.ordinal, lane.rows.mark())
        self._changed.clear()
        following = self._waiting[0].parent if self._waiting else self._parents.mark()
        if self._oldest is None:
            live = [lane.parent for lane in self._slots if lane is not None]
            self._oldest = min(live, key=attrgetter("ordinal"), default=None)
        oldest = following if self._oldest is None else self._oldest
        read = following.ordinal - oldest.ordinal
        return oldest, TurnsMark(self._turn, self._given, read, tuple(self._entries.values()))

    def _place_of(self, item: Item, lane: Lane) -> tuple[Mark, TurnsMark]:
        """Return the marks of rows of the current slot: they are more precise than those of the slot."""
        self._changed.discard(self._turn)
        self._entries[self._turn] = (self._turn, lane.parent.ordinal, item.mark)
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
        """Return the next item: rows of one turn, or of many."""
        return self._ahead.pull(self._next, want, self._buffers) or END

    def _buffers(self) -> list[RowBuffer | None]:
        return [None if lane is None else lane.rows for lane in self._slots]

    def _next(self, want: int) -> Item | None:
        if not self._boxes:
            return self._some_turns(want)
        oldest, own = self._place()
        try:
            return self._some_turns(want)
        except CorruptRecordsError as error:
            self._begin_eagerly(At(own, oldest.marks()), error)
            return self._some_turns(want)

    def _some_turns(self, want: int) -> Item | None:
        return (self._many_turns(want) if self._unseen and self._plans else None) or self._turn_by_turn(want)

    def _many_turns(self, want: int) -> Block | None:
        """Return the rows of many turns, if possible as many as are wanted; None if the next turn must be taken by
        itself.
        """
        start, length = (self._turn, self._given), self._node.block_length
        if want < 2 * length:  # within a turn the mark of each row is exact, which long turns are there for
            return None
        lanes = [lane.rows for lane in self._slots if lane is not None]
        numbers = iter(range(len(lanes)))
        slots = [-1 if lane is None else next(numbers) for lane in self._slots]
        lanes += [lane.rows for lane in self._waiting]
        ready = ReadyRows(lanes, boxes=self._boxes)
        while True:
            most = ready.most_rows(want)
            plan = _native.take_turns(slots, *ready.arrays(), self._over, start, length, most)
            wanted, rows_found = plan[-1], len(plan[0])
            if rows_found >= want or wanted == NO_LANE:
                break
            if wanted == ANOTHER_LANE:
                opened = len(self._waiting)
                for _ in range(ready.lanes_for(want - rows_found)):
                    if not self._open(plan[3][0], want - rows_found):
                        break
                for lane in islice(self._waiting, opened, None):
                    lane.rows.read_more()
                    ready.add(lane.rows)
            elif not ready.read_more(wanted):
                break
        if rows_found > want and rows_found % want:  # what is left over would have to be joined with the next
            most = rows_found - rows_found % want
            plan = _native.take_turns(slots, *ready.arrays(), self._over, start, length, most)
        return self._merged(lanes, plan) if rows_found else None

    def _merged(self, lanes: list[RowBuffer], plan: Plan) -> Block:
        """Return the rows of a plan, taken from the lanes."""
        order, numbers, used, (turn, given), seated, _ = plan
        place = self._place()
        live = [lane for lane in self._slots if lane is not None]
        live += [self._waiting.popleft() for _ in range(seated - len(live))]
        parts = [block for rows, count in zip(lanes, used, strict=True) for block in rows.take_blocks(count)]
        whole = self._merge(parts, order)
        if self._boxes and isinstance(whole, Selection):
            whole = whole.boxed()
        whole.mark, whole.own = place
        self._slots = [None if number < 0 else live[number] for number in numbers]
        for number in set(range(seated)).difference(numbers):
            live[number].rows.close()
        self._turn, self._given, self._pinned = turn, given, False
        self._changed.update(range(len(self._slots)))
        self._oldest = None
        return whole

    def _turn_by_turn(self, want: int) -> Item | None:
        idle = 0
        while idle <= len(self._slots):
            if not (self._ordered or self._pinned or self._given):
                self._turn = self._ahead.next_ready(self._buffers(), self._turn, fill=not self._over)
            lane = self._slots[self._turn]
            if lane is None:
                if not self._fill(self._turn):
                    idle += 1
                    self._advance()
                continue
            idle = 0
            item = lane.rows.pull(min(want, self._node.block_length - self._given))
            if item is not END:
                if self._boxes:
                    look_at(item)
                item.mark, item.own = self._place_of(item, lane)
                self._given += item.rows
                if self._given == self._node.block_length:
                    self._advance()
                return item
            lane.rows.close()
            self._slots[self._turn] = None
            self._changed.add(self._turn)
            self._oldest = None
            self._advance()
        return None


opens(Interleave, own=TurnsMark)(InterleaveStream)
