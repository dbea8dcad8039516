"""Parallel calls whose results are put together at once."""

from __future__ import annotations

from headrace.plan.node import Node


def hand_over_in_lots(node: Node) -> Node | None:
    """Nobody sees an element before its batch is whole: quick calls are handed over many at a time."""
    if not node.waits_for or node.waits_for == 1:
        return None
    lots = node.inputs[0].in_lots(node.waits_for)
    return None if lots is None else node.with_inputs((lots,))
