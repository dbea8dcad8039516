"""The prefetch that a user forgot."""

from __future__ import annotations

from headrace.ops.prefetch import Prefetch
from headrace.ops.with_options import merge_options
from headrace.plan.node import Node

WHY = "a prefetch of its own, whose thread starts if what the consumer waits and computes shows a gain"


def with_final_prefetch(plan: Node) -> Node:
    """The whole plan, which may be read ahead of its consumer: nobody can tell, and it does not do so by itself.

    That is measured while it runs: until it is seen to help, rows are made when they are asked for.
    """
    if not plan.pure or plan.runs_ahead or merge_options(plan).inject_prefetch is False:
        return plan
    return Prefetch(plan, None, if_it_helps=True, final=True)
