"""Run a pipeline on the workers of a cluster, in an order that the number of splits alone decides on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal

from headrace.cluster.members import Cluster
from headrace.cluster.parcels import with_own_arrays
from headrace.cluster.session import Session, SplitStart
from headrace.cluster.splits import Cut, Fragment, find_cut, find_ordered_cut, with_fixed_seeds
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.state import require_seeds
from headrace.execute.stream import END, Made, Stream
from headrace.keys import Seed
from headrace.ops.arguments import one_of, positive
from headrace.ops.interleave import InterleaveStream, TurnsMark
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import NOWHERE, START, At, Marked, Marks, OwnMark
from headrace.plan.node import TUNING, Node, walk
from headrace.plan.spec import Spec
from headrace.sources.range import Range

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Epochs = Literal["distributed_epoch", "parallel_epochs"]
SPLITS = 16
"""How many there are where nobody says: never a number of workers, since the order depends on it."""


def distribute_over(
    self: Dataset,
    cluster: Cluster,
    splits: int | None = None,
    mode: Epochs = "distributed_epoch",
    *,
    cycle_length: int | None = None,
    block_length: int | None = None,
    shared: bool = False,
    name: str | None = None,
) -> Dataset:
    """Have the workers of a cluster make the elements, `splits` shares of them at a time (16 unless you say).

    A split is a share of the files, partitions, ranges or rows of the sources, with all operations after them to
    itself. Splits take turns, `block_length` elements each; `cycle_length` of them at a time, else all. So the order
    depends on the plan and these numbers alone, whichever workers there are, come, die or fall behind; where only maps
    and batches follow a source whose elements are found by number, it is the order of one process. The state is the
    iterator's, as ever: it can be restored with another cluster.

    With `mode="parallel_epochs"` every split is a pass over everything, in an order of its own.

    With `shared=True` workers make each element once for all trainers that read the same dataset at about the same
    place, whichever of them asks first. What each gets is the same with and without.

    >>> with hr.cluster.local(2) as workers:
    ...     ds = hr.Dataset.range(6).map(lambda x: x * x).batch(2).distribute_over(workers, splits=3)
    ...     list(ds)
    [array([0, 1]), array([4, 9]), array([16, 25])]
    """
    if not isinstance(cluster, Cluster):
        raise TypeError(f"distribute_over takes a cluster, such as hr.cluster.local(4), not {cluster!r}")
    one_of("mode", mode, Epochs)
    count = SPLITS if splits is None else positive("splits", splits)
    _check_plan(self._node)
    if shared:
        require_seeds(self._node, "several trainers share these elements")
    cut = find_cut(self._node, count if mode == "distributed_epoch" else 1)
    turns = count if cycle_length is None else min(count, positive("cycle_length", cycle_length))
    rows = 1 if block_length is None else positive("block_length", block_length)
    numbers = SplitNumbers(0, count)
    how = (mode, turns, rows, cluster, 0, bool(shared))
    return self._then(DistributeOver, numbers, count, cut.kind, cut.lot, *how, name=name)


RANGES = 64
"""Into so many a plan is cut whose rows are wanted in the order of one process, if there are as many."""


def in_order_over(ds: Dataset, cluster: Cluster | None) -> Dataset:
    """The same elements in the same order, made by the workers of a cluster; the dataset itself where there is none.

    Ranges of the sources' rows follow one another; workers make some of them ahead.
    """
    if cluster is None:
        return ds
    if not isinstance(cluster, Cluster):
        raise TypeError(f"cluster= takes a cluster, such as hr.cluster.local(4), not {cluster!r}")
    _check_plan(ds._node)
    cut = find_ordered_cut(ds._node)
    count = max(1, min(RANGES, -(-int(cut.base.cardinality) // cut.lot)))
    how = ("in_order", 1, EVERY_ROW, cluster, RANGES_AHEAD)
    return ds._then(DistributeOver, SplitNumbers(0, count), count, cut.kind, cut.lot, *how)


RANGES_AHEAD = 15
"""So many ranges are made before their turn has come."""
EVERY_ROW = 1 << 62


def _check_plan(plan: Node) -> None:
    for node in walk(plan):
        if node.outlives:
            raise ValueError(
                f"distribute_over: what {node.operation} ({node.site}) keeps beyond a pass would be kept, and lost, on "
                f"each worker: have {node.operation} after it"
            )
        if node.process is not None:
            raise ValueError(
                f"distribute_over: {node.operation} ({node.site}) takes the share of one trainer; have it after "
                "distribute_over, so that all of them share one order"
            )


@dataclass(frozen=True, eq=False)
class SplitNumbers(Range):
    """The numbers of the splits."""

    def label(self, *, for_state: bool = False) -> str:  # noqa: ARG002
        return f"distribute_over(splits={self.stop})"


@dataclass(frozen=True, eq=False)
class DistributeOver(Node):
    """`splits` plans that take turns, each run by a worker. `numbers` are those of the splits."""

    plan: Node
    numbers: Node
    splits: int
    by: str
    lot: int
    mode: str = "distributed_epoch"
    cycle_length: int = 1
    block_length: int = 1
    cluster: Cluster = field(default_factory=Cluster, repr=False, metadata=TUNING)
    ahead: int = field(default=0, repr=False, metadata=TUNING)
    shared: bool = field(default=False, repr=False, metadata=TUNING)

    pure = True  # rows are made ahead, elsewhere, and made again: that is what was asked for
    ready_made = True
    runs_ahead = True

    @property
    def operation(self) -> str:
        return "distribute_over"

    @property
    def shown_inputs(self) -> tuple[Node, ...]:
        return (self.plan,)

    @property
    def spec(self) -> Spec:
        return self.plan.spec

    @property
    def leading(self) -> int | None:
        return self.plan.leading

    @cached_property
    def cut(self) -> Cut:
        """Where the plan is cut."""
        return self._cut_of(self.plan)

    def _cut_of(self, plan: Node) -> Cut:
        if self.mode == "in_order":
            return find_ordered_cut(plan)
        return find_cut(plan, self.splits if self.mode == "distributed_epoch" else 1)

    @cached_property
    def fragment(self) -> Fragment:
        """What workers run."""
        plan = with_fixed_seeds(self.plan)
        return Fragment(plan, self._cut_of(plan), self.splits)

    @cached_property
    def cardinality(self) -> Cardinality:
        if self.mode == "parallel_epochs":
            return self.plan.cardinality.times(self.splits)
        if self.cut.base.cardinality == UNKNOWN or self.cut.parts is not None:
            return self.plan.cardinality.vague
        return reduce(Cardinality.plus, (self.fragment.split(i).cardinality for i in range(self.splits)))

    def remark(self) -> str | None:
        if self.mode == "in_order":
            return f"{self.splits} ranges of rows of {self.cut.base.operation}, one after another"
        if self.mode == "parallel_epochs":
            return f"{self.splits} passes over everything, each in an order of its own"
        cut = self.cut
        if cut.kind == "elements":
            return (
                f"every worker reads all rows of {cut.base.operation} and keeps those of its splits: they can neither "
                "be found by number nor read by parts"
            )
        what = f"the parts of {cut.parts.operation}" if cut.parts is not None else f"rows of {cut.base.operation}"
        order = ", in the order of one process" if cut.keeps_order and self.in_one_order else ""
        return f"splits are {'ranges of ' if cut.kind == 'ranges' else ''}{what}{order}"

    @property
    def in_one_order(self) -> bool:
        """Whether all splits take turns row by row."""
        return self.block_length == 1 and self.cycle_length == self.splits


class SplitTurns:
    """The splits as InterleaveStream sees them: datasets that are made of their numbers."""

    seed = Seed(0, explicit=True)
    pure = True
    num_parallel_calls = None
    deterministic = None

    def __init__(self, node: DistributeOver, session: Session) -> None:
        self.input = node.numbers
        self.cycle_length: int | None = node.cycle_length
        self.block_length = node.block_length
        self.error = node.error
        self._make = lambda number: RemoteSplit(node.spec, int(number), session, site=node.site)

    @property
    def fn(self) -> Callable[..., Any]:
        """Makes the rows of a split of its number."""
        return self._make


@dataclass(frozen=True, eq=False)
class RemoteSplit(Node):
    """The rows of one split, which a worker makes."""

    elements: Spec = field(repr=False)
    number: int
    session: Session = field(repr=False, metadata=TUNING)

    pure = True

    @property
    def operation(self) -> str:
        return "distribute_over"

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@dataclass(slots=True)
class SplitMark(OwnMark):
    """Where the plan of the split stands, and the number of that row in the split."""

    inner: Marked
    row: int


@opens(RemoteSplit, own=SplitMark)
class RemoteStream(Stream):
    """What the session has of a split."""

    def __init__(self, node: RemoteSplit, ctx: Context, at: At) -> None:  # noqa: ARG002
        self._node = node
        own: SplitMark | None = at.own
        self._start: SplitStart | None = SplitStart(START, 0) if own is None else _start_of(own)
        self._row = self._start.row

    def pull(self, want: int) -> Made:
        session, number = self._node.session, self._node.number
        if self._start is not None:
            session.begin(number, self._start)
            self._start = None
        item = session.take(number, want)
        if item is END:
            return END
        item.own, item.mark = SplitMark(item.mark, self._row), NOWHERE
        self._row += item.rows
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Before the first row, the worker passes over as many; it says so if there are fewer."""
        if self._start is None or not replay:
            return 0
        self._start = self._start._replace(skip=self._start.skip + count)
        self._row += count
        return count


@opens(DistributeOver, own=TurnsMark)
class DistributeOverStream(Stream):
    """The splits in turn. All that take turns are begun at once, on whichever workers there are."""

    def __init__(self, node: DistributeOver, ctx: Context, at: At) -> None:
        written = ctx.prepared.as_written(node)
        assert isinstance(written, DistributeOver)
        at_a_time = node.cycle_length + node.ahead
        how = (written.fragment, written.mode, node.cluster, ctx, node, at_a_time)
        self._session = Session(*how, shared=node.shared)
        own: TurnsMark | None = at.own
        try:
            self._expect(own, node)
            self._rows = InterleaveStream(SplitTurns(node, self._session), ctx, at)
        except BaseException:
            self._session.close()
            raise

    def _expect(self, own: TurnsMark | None, node: DistributeOver) -> None:
        """Begin the splits that were open where the state was taken, and those that come next."""
        live = () if own is None else own.live
        for _, number, mark in live:
            self._session.expect(number, split_start(mark.marks()))
        oldest = min((number for _, number, _ in live), default=0)
        first = 0 if own is None else (oldest + own.read if live else None)
        if first is not None:
            for number in range(first, min(node.splits, first + node.cycle_length - len(live) + node.ahead)):
                self._session.expect(number, SplitStart(START, 0))

    def pull(self, want: int) -> Made:
        made = self._rows.pull(want)  # of several splits at once, which are copied into one
        return made if made is END or isinstance(made, list) else with_own_arrays(made)

    def close(self) -> None:
        self._session.close()


def split_start(marks: Marks) -> SplitStart:
    """Where a split goes on, by what a state says of it."""
    position = marks.get(0)
    if position is None:
        return SplitStart(START, 0)
    own = position.own
    if own is None:
        return SplitStart(START, position.ordinal)
    mark = SplitMark.from_json(own) if isinstance(own, list) else own
    assert isinstance(mark, SplitMark)
    return _start_of(mark)._replace(skip=position.offset)


def _start_of(mark: SplitMark) -> SplitStart:
    return SplitStart(mark.inner.marks(), 0, mark.row)
