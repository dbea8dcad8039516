"""Cut a plan into plans over ranges of its rows, whose concatenated results are those of one process."""

from __future__ import annotations

from headrace.cluster.splits import find_ordered_cut, goes_in_step, with_base, with_fixed_seeds
from headrace.ops.shared.select import Select
from headrace.plan.capabilities import share_of_process
from headrace.plan.node import Node, walk

MAX_RANGES = 64
"""How many ranges a plan is cut into, if it has as many rows."""


class PlanRanges:
    """A plan that is cut by the row numbers of one of its sources.

    Raises ValueError, naming the operation that depends on rows outside a range, if it cannot be cut; `any_order` as
    for `find_ordered_cut`.
    """

    def __init__(self, plan: Node, *, any_order: bool = False) -> None:
        check_sendable(plan)
        self.plan: Node = with_fixed_seeds(plan)
        self._cut = find_ordered_cut(self.plan, any_order=any_order)

    @property
    def in_step(self) -> bool:
        """Whether it is known which rows of the source make which row of the plan, before any is made."""
        return self.plan.cardinality.known and all(map(goes_in_step, self._above()))

    def _above(self) -> list[Node]:
        found, node = [], self.plan
        while node is not self._cut.base:
            found.append(node)
            (node,) = node.inputs
        return found

    def parts(self, most: int = MAX_RANGES) -> list[Node]:
        """Return all rows of the plan in up to `most` ranges, which concatenated give the plan's rows."""
        lots = -(-int(self._cut.base.cardinality) // self._cut.lot)
        count = max(1, min(most, lots))
        return [self._range(lots * i // count, lots * (i + 1) // count) for i in range(count)]

    def rows(self, start: int, stop: int) -> Node:
        """Return the rows from `start` to `stop` of a plan that is `in_step`."""
        return self._range(start, stop)

    def _range(self, first: int, last: int) -> Node:
        base, lot = self._cut.base, self._cut.lot
        start, stop = (min(int(base.cardinality), number * lot) for number in (first, last))
        dealt = Select(base, start, stop - start, 1, site=base.site)
        return with_base(self.plan, base, dealt, first)


def check_sendable(plan: Node) -> None:
    """Raise if state that an operation keeps, or its share of rows, would be lost on workers."""
    for node in walk(plan):
        if node.outlives or share_of_process(node) is not None:
            why = "keeps rows beyond a pass" if node.outlives else "takes the share of one trainer"
            raise ValueError(f"{node.operation} ({node.site}) {why}, which workers cannot: leave it out, or cluster=")
