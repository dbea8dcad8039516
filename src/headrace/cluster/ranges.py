"""Ranges of a plan's rows as plans of their own: what workers do to them, put together, is what one process does."""

from __future__ import annotations

from headrace.cluster.splits import find_ordered_cut, goes_in_step, with_base, with_fixed_seeds
from headrace.ops.select import Select
from headrace.plan.capabilities import share_of_process
from headrace.plan.node import Node, walk

RANGES = 64
"""Into so many a plan is cut, if it has as many rows."""


class PlanRanges:
    """A plan that is cut by the numbers of the rows of one of its sources.

    Raises ValueError, with the operation that looks beyond a range, where it cannot be; `any_order` as for
    `find_ordered_cut`.
    """

    def __init__(self, plan: Node, *, any_order: bool = False) -> None:
        check_sendable(plan)
        self.plan = with_fixed_seeds(plan)
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

    def parts(self, most: int = RANGES) -> list[Node]:
        """All rows of the plan in up to `most` ranges, whose rows one after another are those of the plan."""
        lots = -(-int(self._cut.base.cardinality) // self._cut.lot)
        count = max(1, min(most, lots))
        return [self._range(lots * i // count, lots * (i + 1) // count) for i in range(count)]

    def rows(self, start: int, stop: int) -> Node:
        """The rows from `start` to `stop` of a plan that is `in_step`."""
        return self._range(start, stop)

    def _range(self, first: int, last: int) -> Node:
        base, lot = self._cut.base, self._cut.lot
        start, stop = (min(int(base.cardinality), number * lot) for number in (first, last))
        dealt = Select(base, start, stop - start, 1, site=base.site)
        return with_base(self.plan, base, dealt, first)


def check_sendable(plan: Node) -> None:
    """Raise where what an operation keeps, or whose share it takes, would be lost on workers."""
    for node in walk(plan):
        if node.outlives or share_of_process(node) is not None:
            why = "keeps rows beyond a pass" if node.outlives else "takes the share of one trainer"
            raise ValueError(f"{node.operation} ({node.site}) {why}, which workers cannot: leave it out, or cluster=")
