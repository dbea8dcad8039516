"""Parallel calls whose results are batched at once."""

from __future__ import annotations

from headrace.ops.shared.batching import Batching
from headrace.ops.shared.calls import MappingCalls
from headrace.plan.node import Node


def hand_over_in_lots(node: Node) -> Node | None:
    """If elements are only used in whole batches, hand over quick calls many at a time."""
    if not isinstance(node, Batching) or node.batch_size == 1 or not isinstance(node.input, MappingCalls):
        return None
    lots = node.input.in_lots(node.batch_size)
    return None if lots is None else node.with_inputs((lots,))
