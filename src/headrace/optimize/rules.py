"""The optimiser: an ordered list of rules, each `node -> node | None`, applied to every node, inputs first.

A rule uses traits if several operations qualify, and the class of a node only if it rewrites that one operation. An
operation without a rule runs as it is. Marks describe the logical plan. If a node is addressable its mark is an
ordinal, so a rule may replace it by anything that gives the same rows; otherwise a rewritten node must give and take
the marks of the one it replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.optimize.early_draws import draw_as_written, draw_first
from headrace.optimize.early_filter import filter_first
from headrace.optimize.fused_maps import fuse_maps
from headrace.optimize.late_rows import gather_late, gather_once
from headrace.optimize.whole_batches import hand_over_in_lots
from headrace.optimize.whole_windows import windows_at_once
from headrace.plan.node import Node, rebuild
from headrace.plan.prepared import Prepared

PlanRule = Callable[[Node], Node | None]

RULES: list[PlanRule] = [
    gather_late,  # shuffle and shard row numbers instead of rows …
    gather_once,  # … and fetch the rows after the last operation that only moves them
    fuse_maps,  # send a block through functions that follow one another …
    filter_first,  # … and not at all if a filter after them drops it anyway
    draw_as_written,  # keep what is kept under the name of the plan as written
    draw_first,  # shuffle before a threaded map: threads then make only rows that were drawn, in their order
    hand_over_in_lots,  # hand over quick calls by the batch that waits for them
    windows_at_once,  # make the batches of many windows at once
]


@dataclass(frozen=True)
class Choice:
    """A choice that made the plan that runs what it is: what was chosen, at which operation, and why."""

    chosen: str
    operation: str
    reason: str

    def __str__(self) -> str:
        return f"{self.chosen} at {self.operation}: {self.reason}"


Check = Callable[[PlanRule, Node, Node], None]
"""Called with a rule, the node that it was given and the one that it put there instead."""


def apply_rules(plan: Node, choices: list[Choice] | None = None, check: Check | None = None) -> Node:
    """Return the plan after all rules.

    Args:
        plan: The plan as written.
        choices: Gets one entry for each change.
        check: Called after each change; tests use it to compare what the two nodes promise.
    """

    def change(node: Node) -> Node:
        for rule in RULES:
            made = rule(node)
            if made is not None:
                if check is not None:
                    check(rule, node, made)
                if choices is not None:
                    reason = (rule.__doc__ or "").partition("\n")[0]
                    choices.append(Choice(rule.__name__, node.operation, reason))
                node = made
        return node

    return rebuild(plan, change)


def prepare(plan: Node) -> Prepared:
    """Return the plan ready to run, after all rules; a source by itself is not rewritten."""
    return Prepared.of(plan, apply_rules if plan.inputs else None)
