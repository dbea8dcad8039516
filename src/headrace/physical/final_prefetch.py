"""The prefetch at the end of a plan that the user did not write."""

from __future__ import annotations

from headrace.ops.prefetch import Prefetch
from headrace.ops.with_options import merge_options
from headrace.plan.node import Node

REASON = "a prefetch of its own, whose thread starts if what the consumer waits and computes shows a gain"


def with_final_prefetch(plan: Node) -> Node:
    """Return the plan read ahead of its consumer, if that is unobservable and it does not run ahead by itself.

    The gain is measured while the plan runs: until there is one, rows are made on request.
    """
    if not plan.pure or plan.ahead or merge_options(plan).inject_prefetch is False:
        return plan
    return Prefetch(plan, None, if_it_helps=True, final=True)
