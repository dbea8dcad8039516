"""How a plan is cut into a fixed number of splits, each a plan of its own that can run anywhere.

The cut is looked for from the plan's end down to its sources: below it rows are dealt out, above it every split has the
operations to itself. Nothing but the plan and the number of splits decides on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from headrace.keys import Seed, mix_key
from headrace.ops.batching import Batching
from headrace.ops.deal_out import DealOut
from headrace.ops.select import Select
from headrace.plan.access import is_coarse
from headrace.plan.capabilities import file_names_of
from headrace.plan.node import Divides, Moves, Node, fields_of, rebuild, walk

SPLIT = 0x73706C6974
"""Folded into the seeds of operations that draw an order for the rows of one split."""


class Cut(NamedTuple):
    """Where a plan is cut: above `base`, whose rows are dealt out in lots of `lot`, or in ranges of these.

    `kind` says how: "rows" in turn, "ranges", "elements" (in turn, by reading them all), or "whole" (one split).
    Where only maps and batches come after the base it is `in_step`: a lot makes one row at the plan's end. `parts` is
    the source whose files or partitions the rows stand for, where they do.
    """

    base: Node
    kind: str
    lot: int = 1
    in_step: bool = True
    parts: Node | None = None

    @property
    def keeps_order(self) -> bool:
        """Whether splits that take turns give the rows in the order that one process would."""
        return self.kind != "ranges" and self.in_step


def goes_in_step(node: Node) -> bool:
    """Whether it is known which rows of its input make which of its rows, before any is made."""
    return bool(node.divides) and (node.one_to_one or node.transparent or isinstance(node, Batching))


def find_cut(plan: Node, splits: int) -> Cut:
    """Where to cut a plan; raises ValueError where that cannot be without running a user's code several times."""
    if splits == 1:
        return Cut(plan, "whole")
    node, lot, in_step, parts = plan, 1, True, None
    while True:
        steps = goes_in_step(node)
        if not steps and node.addressable:
            return _by_number(Cut(node, "rows", lot, in_step, parts))
        if not node.divides or len(node.inputs) != 1:
            break
        if isinstance(node, Batching):
            lot *= node.batch_size
        elif not steps:
            lot, in_step = 1, False
        parts = node if node.tells_inputs else parts
        (node,) = node.inputs
    if not node.pure:
        raise ValueError(_refusal(node))
    return Cut(node, "elements", lot, in_step)


def find_ordered_cut(plan: Node, *, any_order: bool = False) -> Cut:
    """Where to cut a plan so that its splits, one after another, are its rows in the order of one process.

    With `any_order` operations that only move rows are no hindrance: it is the rows that count, not their order.
    Raises ValueError, with the operation that looks beyond the rows of one split, where there is no such place.
    """
    node, lot, parts, batched = plan, 1, None, False
    while True:
        steps = goes_in_step(node)
        if not steps and node.addressable and node.cardinality.known:
            return Cut(node, "ranges", lot, True, parts)
        splittable = node.divides is Divides.RUNS or (any_order and node.divides is Divides.ROWS)
        if len(node.inputs) != 1 or not (steps or (splittable and not batched)):
            where = f" ({node.site})" if node.site else ""
            raise ValueError(
                f"{node.operation}{where} cannot be done to one range of rows after another: leave out cluster=, or "
                "write what comes before it first"
            )
        if isinstance(node, Batching):
            lot, batched = lot * node.batch_size, True
        parts = node if node.tells_inputs else parts
        (node,) = node.inputs


def _by_number(cut: Cut) -> Cut:
    """In ranges where rows lie one after another in files, and the order of the plan is theirs."""
    inside = list(walk(cut.base))
    in_files = any(is_coarse(n) or file_names_of(n) is not None for n in inside)
    in_order = not any(n.moves is Moves.FAR for n in inside)
    return cut._replace(kind="ranges", parts=None) if in_files and in_order and cut.base.cardinality.known else cut


def _refusal(node: Node) -> str:
    where = f" ({node.site})" if node.site else ""
    if not node.inputs:
        return (
            f"distribute_over cannot split {node.operation}{where}: its rows can neither be found by number nor read "
            "by parts, and every worker would run it whole. Read files, use from_batches with parts, or save() it and "
            'load() that; or take splits=1, or mode="parallel_epochs"'
        )
    return (
        f"distribute_over cannot split what comes before {node.operation}{where}, which looks at all rows together: "
        "every worker would call the functions before it on all of them. Put it after distribute_over"
    )


class Fragment(NamedTuple):
    """What workers run: a plan, where it is cut, and into how many splits. Pickled, the cut stays where it is."""

    plan: Node
    cut: Cut
    splits: int

    def split(self, index: int) -> Node:
        """The plan of one split."""
        return split_plan(self.plan, self.cut, self.splits, index)


def split_plan(plan: Node, cut: Cut, splits: int, index: int) -> Node:
    """The plan of one split."""
    if cut.kind == "whole":
        return plan
    dealt: Node
    if cut.kind == "ranges":
        lots = -(-int(cut.base.cardinality) // cut.lot)
        start, stop = (min(int(cut.base.cardinality), lots * i // splits * cut.lot) for i in (index, index + 1))
        dealt = Select(cut.base, start, stop - start, 1, site=cut.base.site)
    else:
        dealt = DealOut(cut.base, splits, index, cut.lot, site=cut.base.site)
    return with_base(plan, cut.base, dealt, index)


def with_base(node: Node, base: Node, dealt: Node, index: int) -> Node:
    """The plan with `dealt` in the place of `base`, below what belongs to split `index` alone."""
    if node is base:
        return dealt
    (below,) = node.inputs
    made = node.with_inputs((with_base(below, base, dealt, index),))
    new: dict[str, Any] = {"stands_for": None}
    if node.moves is Moves.FAR:  # two splits with one seed would move their rows alike
        for name in fields_of(type(node), "Seed"):
            seed: Seed = getattr(node, name)
            new[name] = Seed(mix_key(seed.value, SPLIT, index) >> 1, explicit=True)
    return replace(made, **new)


def with_fixed_seeds(plan: Node) -> Node:
    """The plan with every seed as if a user had chosen it, so that whoever runs it draws the same."""

    def change(node: Node) -> Node:
        new: dict[str, Any] = {
            name: Seed(seed.value, explicit=True)
            for name in fields_of(type(node), "Seed")
            if isinstance(seed := getattr(node, name), Seed) and not seed.explicit
        }
        return replace(node, **new) if new else node

    return rebuild(plan, change)
