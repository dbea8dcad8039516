"""Cut a plan into a fixed number of splits, each an independent plan that can run anywhere.

The cut is searched from the plan's end down to its sources: below it rows are dealt out, above it every split has its
own operations. Only the plan and the number of splits determine it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from headrace.core.keys import Seed, mix_key
from headrace.core.types import JsonObject
from headrace.distribute.deal_out import DealOut
from headrace.ops.shared.batching import Batching
from headrace.ops.shared.select import Select
from headrace.plan.access import is_coarse
from headrace.plan.capabilities import file_names_of
from headrace.plan.node import Divides, Moves, Node, fields_of, rebuild, walk

SPLIT = 0x73706C6974
"""Folded into the seeds of operations that draw an order for the rows of one split."""


class Cut(NamedTuple):
    """The position of a cut: above `base`, whose rows are dealt out in lots of `lot`, or in ranges of these.

    `kind` says how: "rows" in turn, "ranges", "elements" (in turn, by reading them all), or "whole" (one split).
    If only maps and batches come after the base it is `in_step`: a lot makes one row at the plan's end. `parts` is the
    source whose files or partitions the rows stand for, if they do.
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
    """Return whether it is known which rows of its input make which of its rows, before any is made."""
    return bool(node.divides) and (node.one_to_one or node.transparent or isinstance(node, Batching))


def find_cut(plan: Node, splits: int) -> Cut:
    """Return where to cut a plan. Raise ValueError if that would run a user's code several times."""
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
    """Return where to cut a plan so that its splits, one after another, are its rows in the order of one process.

    With `any_order`, operations that only move rows are allowed: the order does not matter. Raises ValueError, naming
    the operation that depends on rows outside one split, if there is no such cut.
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
    """Return a cut in ranges if rows are consecutive in files, and the plan keeps their order."""
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
        f"distribute_over cannot split what comes before {node.operation}{where}, which needs all rows together: "
        "every worker would call the functions before it on all of them. Put it after distribute_over"
    )


class Fragment(NamedTuple):
    """The unit of work for workers: a plan, its cut, and the number of splits. Pickling keeps the cut."""

    plan: Node
    cut: Cut
    splits: int

    def split(self, index: int) -> Node:
        """Return the plan of one split."""
        return split_plan(self.plan, self.cut, self.splits, index)


def split_plan(plan: Node, cut: Cut, splits: int, index: int) -> Node:
    """Return the plan of one split."""
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
    """Return the plan with `dealt` in the place of `base`, below what belongs to split `index` alone."""
    if node is base:
        return dealt
    (below,) = node.inputs
    made = node.with_inputs((with_base(below, base, dealt, index),))
    new: JsonObject = {"stands_for": None}
    if node.moves is Moves.FAR:  # two splits with one seed would move their rows alike
        for name in fields_of(type(node), "Seed"):
            seed: Seed = getattr(node, name)
            new[name] = Seed(mix_key(seed.value, SPLIT, index) >> 1, explicit=True)
    return replace(made, **new)


def part_of_calls(plan: Node, splits_at_a_time: int) -> Node:
    """The plan of a split, with its part of the calls that the operations of the whole plan make at a time.

    What AUTOTUNE chooses is chosen by each worker, within its own CPUs.
    """

    def change(node: Node) -> Node:
        calls = getattr(node, "num_parallel_calls", None)
        if calls is None or calls <= 1:
            return node
        new: Any = {"num_parallel_calls": max(1, calls // splits_at_a_time)}
        return replace(node, **new)

    return rebuild(plan, change)


def with_fixed_seeds(plan: Node) -> Node:
    """Return the plan with every seed fixed as if a user had set it, so that all processes draw the same."""

    def change(node: Node) -> Node:
        new: JsonObject = {
            name: Seed(seed.value, explicit=True)
            for name in fields_of(type(node), "Seed")
            if isinstance(seed := getattr(node, name), Seed) and not seed.explicit
        }
        return replace(node, **new) if new else node

    return rebuild(plan, change)
