"""Shuffles that need not wait for a map."""

from __future__ import annotations

from operator import is_

from headrace.columns.lazy_block import MIN_REFERENCED_ROW_BYTES
from headrace.ops.cache import Cache
from headrace.ops.map import Map
from headrace.ops.shuffle.draw_first import DrawFirst
from headrace.ops.shuffle.shuffle import Shuffle
from headrace.ops.snapshot import Snapshot
from headrace.plan.access import late_bytes
from headrace.plan.node import Node, rebuild


def draw_first(node: Node) -> Node | None:
    """Buffer references to records in local files, and let threads materialize those that are drawn."""
    if not isinstance(node, Shuffle) or not node.by_place:
        return None
    below = node.input
    if not isinstance(below, Map) or not below.spreads:
        return None
    if late_bytes(below.input) < MIN_REFERENCED_ROW_BYTES or not below.input.pure:
        return None
    drawn = node.with_inputs(below.inputs)
    return DrawFirst(drawn, (below, node), site=below.site, stands_for=below)


def draw_as_written(node: Node) -> Node | None:
    """Keep the plan below a cache as written: it identifies the stored rows. It may be rewritten when it runs."""
    if not isinstance(node, Cache | Snapshot):
        return None
    written = tuple(rebuild(below, _as_written) for below in node.inputs)
    return None if all(map(is_, written, node.inputs)) else node.with_inputs(written)


def _as_written(node: Node) -> Node:
    return node.as_written if isinstance(node, DrawFirst) else node
