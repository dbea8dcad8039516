"""Ranges of a plan's rows as plans of their own: what workers do to them, put together, is what one process does."""

from __future__ import annotations

from headrace.cluster.splits import Cut, _with_base, find_ordered_cut, with_fixed_seeds
from headrace.ops.select import Select
from headrace.plan.node import Node, walk

RANGES = 64
"""Into so many a plan is cut, if it has as many rows."""


class PlanRanges:
    """A plan that is cut by the numbers of the rows of one of its sources.

    Raises ValueError, with the operation that looks beyond a range, where it cannot be. With `any_order` operations
    that only move rows are no hindrance: who asks for it does not mind in which order rows come.
    """

    def __init__(self, plan: Node, *, any_order: bool = False) -> None:
        check_sendable(plan)
        self.plan = with_fixed_seeds(plan)
        self._cut = _find_row_cut(self.plan) if any_order else find_ordered_cut(self.plan)

    @property
    def in_step(self) -> bool:
        """Whether it is known which rows of the source make which row of the plan, before any is made."""
        return self.plan.cardinality.known and all(_steps(node) for node in self._above())

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
        return _with_base(self.plan, base, dealt, first)


def check_sendable(plan: Node) -> None:
    """Raise where what an operation keeps, or whose share it takes, would be lost on workers."""
    for node in walk(plan):
        if node.outlives or node.process is not None:
            why = "keeps rows beyond a pass" if node.outlives else "takes the share of one trainer"
            raise ValueError(f"{node.operation} ({node.site}) {why}, which workers cannot: leave it out, or cluster=")


def _steps(node: Node) -> bool:
    return node.divides and (node.one_to_one or node.transparent or node.waits_for is not None)


def _find_row_cut(plan: Node) -> Cut:
    """As `find_ordered_cut`, past operations that give the rows of shares in another order."""
    node, lot, batched = plan, 1, False
    while True:
        steps = _steps(node)
        if not steps and node.addressable and node.cardinality.known:
            return Cut(node, "ranges", lot)
        if len(node.inputs) != 1 or not (steps or ((node.keeps_runs or node.keeps_rows) and not batched)):
            where = f" ({node.site})" if node.site else ""
            raise ValueError(
                f"{node.operation}{where} cannot be done to one range of rows after another: leave out cluster=, or "
                "write what comes before it first"
            )
        if node.waits_for is not None:
            lot, batched = lot * node.waits_for, True
        (node,) = node.inputs
