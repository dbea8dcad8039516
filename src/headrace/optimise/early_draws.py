"""Shuffles that need not wait for a map."""

from __future__ import annotations

from operator import is_

from headrace.late_block import MOVED
from headrace.ops.cache import Cache
from headrace.ops.draw_first import DrawFirst
from headrace.ops.map import Map
from headrace.ops.shuffle import Shuffle
from headrace.ops.snapshot import Snapshot
from headrace.plan.access import late_bytes
from headrace.plan.node import Node, rebuild


def draw_first(node: Node) -> Node | None:
    """Records lie in files of this machine: the buffer holds only where, and threads make those it gives out."""
    if not isinstance(node, Shuffle) or not node.by_place:
        return None
    below = node.input
    if not isinstance(below, Map) or not below.spreads:
        return None
    if late_bytes(below.input) < MOVED or not below.input.pure:
        return None
    drawn = node.with_inputs(below.inputs)
    return DrawFirst(drawn, (below, node), site=below.site, stands_for=below)


def draw_as_written(node: Node) -> Node | None:
    """What it keeps is known by the plan below it, which is described as written; it may be rewritten where it runs."""
    if not isinstance(node, Cache | Snapshot):
        return None
    written = tuple(rebuild(below, _as_written) for below in node.inputs)
    return None if all(map(is_, written, node.inputs)) else node.with_inputs(written)


def _as_written(node: Node) -> Node:
    return node.as_written if isinstance(node, DrawFirst) else node
