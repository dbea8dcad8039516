"""Shuffles that need not wait for a map."""

from __future__ import annotations

from headrace.late_block import MOVED
from headrace.ops.draw_first import DrawFirst
from headrace.plan.node import Node


def draw_first(node: Node) -> Node | None:
    """Records lie in files of this machine: the buffer holds only where, and threads make those it gives out."""
    if not (node.scatters and node.by_place) or node.addressable:
        return None
    below = node.inputs[0]
    if not below.spreads or below.inputs[0].late_bytes < MOVED or not below.inputs[0].pure:
        return None
    drawn = node.with_inputs(below.inputs)
    return DrawFirst(drawn, (below, node), site=below.site, stands_for=below)
