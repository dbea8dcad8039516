"""Run a pipeline on the workers of a cluster, in an order that depends only on the number of splits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Literal

from headrace.cluster.members import Cluster
from headrace.cluster.split_turns import DistributeOverStream
from headrace.cluster.splits import Cut, Fragment, find_cut, with_fixed_seeds
from headrace.core.override import override
from headrace.execute.registry import opens
from headrace.execute.state import require_seeds
from headrace.indexed.range import Range
from headrace.ops.interleave import TurnsMark
from headrace.ops.shared.arguments import one_of, positive
from headrace.plan.capabilities import share_of_process
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.node import TUNING, Ahead, Node, walk
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Epochs = Literal["distributed_epoch", "parallel_epochs"]
DEFAULT_SPLITS = 16
"""The default number of splits: never the number of workers, because the order depends on it."""


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
    """Make the elements on the workers of a cluster, in `splits` shares (default: 16).

    A split is a share of the files, partitions, ranges or rows of the sources, with all operations after them to
    itself. Splits take turns, `block_length` elements each; `cycle_length` of them at a time, else all. So the order
    depends on the plan and these numbers alone, whichever workers there are, come, die or fall behind; if only maps and
    batches follow a source that can be indexed, it is the order of one process. The state is the iterator's, as always:
    it can be restored with another cluster.

    `num_parallel_calls=n` of an operation before it is a total of the cluster: each split that runs at a time makes its
    part of the calls, and at least one. A function that is not traced is called once for each element, unless a worker
    fails: so a split that has begun stays with its worker, and workers that join later get those that have not begun.

    With `mode="parallel_epochs"` every split is a pass over everything, in an order of its own.

    Trainers that each take their share (`distribute` or `shard` right after it) receive only that, and workers skip the
    other elements if they can be skipped without being made.

    With `shared=True` workers make each element once for all trainers that read the same dataset at about the same
    position, whichever of them asks first. The elements are the same with and without.

    Args:
        cluster: The workers.
        splits: Number of shares the plan is cut into. Default: 16.
        mode: "distributed_epoch", or "parallel_epochs" for one pass per split.
        cycle_length: Number of inputs that take turns.
        block_length: Number of elements that each input gives per turn.
        shared: Whether several trainers share one pass.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> with hr.cluster.local(2) as workers:
    ...     ds = hr.Dataset.range(6).map(lambda x: x * x).batch(2).distribute_over(workers, splits=3)
    ...     list(ds)
    [array([0, 1]), array([4, 9]), array([16, 25])]
    """
    if not isinstance(cluster, Cluster):
        raise TypeError(f"distribute_over takes a cluster, such as hr.cluster.local(4), not {cluster!r}")
    one_of("mode", mode, Epochs)
    count = DEFAULT_SPLITS if splits is None else positive("splits", splits)
    _check_plan(self._node)
    if shared:
        require_seeds(self._node, "several trainers share these elements")
    cut = find_cut(self._node, count if mode == "distributed_epoch" else 1)
    turns = count if cycle_length is None else min(count, positive("cycle_length", cycle_length))
    rows = 1 if block_length is None else positive("block_length", block_length)
    numbers = SplitNumbers(0, count)
    how = (mode, turns, rows, cluster, bool(shared))
    return self._then(DistributeOver, numbers, count, cut.kind, cut.lot, *how, name=name)


def _check_plan(plan: Node) -> None:
    for node in walk(plan):
        if node.outlives:
            raise ValueError(
                f"distribute_over: what {node.operation} ({node.site}) keeps beyond a pass would be kept, and lost, on "
                f"each worker: put {node.operation} after it"
            )
        if share_of_process(node) is not None:
            raise ValueError(
                f"distribute_over: {node.operation} ({node.site}) takes the share of one trainer; put it after "
                "distribute_over, so that all of them share one order"
            )


@dataclass(frozen=True, eq=False)
class SplitNumbers(Range):
    """The numbers of the splits."""

    @override
    def label(self, *, for_state: bool = False) -> str:
        return f"distribute_over(splits={self.stop})"


@dataclass(frozen=True, eq=False)
class DistributeOver(Node):
    """`splits` interleaved plans, each run by a worker. `numbers` are those of the splits."""

    plan: Node
    numbers: Node
    splits: int
    by: str
    lot: int
    mode: str = "distributed_epoch"
    cycle_length: int = 1
    block_length: int = 1
    cluster: Cluster = field(default_factory=Cluster, repr=False, metadata=TUNING)
    shared: bool = field(default=False, repr=False, metadata=TUNING)

    pure = True  # rows are made ahead, elsewhere, and made again: that is what was requested
    ahead = Ahead.READY

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
    def fallible(self) -> bool:
        return self.plan.fallible

    @cached_property
    def cut(self) -> Cut:
        """Return where the plan is cut."""
        return self._cut_of(self.plan)

    def _cut_of(self, plan: Node) -> Cut:
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

    @cached_property
    def lengths(self) -> list[int] | None:
        """Return how many rows each split has, if the plan determines it."""
        if self.mode == "parallel_epochs":
            found = [self.plan.cardinality] * self.splits
        else:
            found = [self.fragment.split(i).cardinality for i in range(self.splits)]
        return [int(length) for length in found] if all(length.known for length in found) else None

    def remark(self) -> str | None:
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


opens(DistributeOver, own=TurnsMark)(DistributeOverStream)
