"""Windows that only go through a plain chain of operations, and rows that are only sliced: many at a time."""

from __future__ import annotations

from headrace.ops.flat_map import FlatMap
from headrace.plan.node import Node


def windows_at_once(node: Node) -> Node | None:
    """If the function only builds on its windows, or slices rows, call it once and apply the result to many
    at a time.
    """
    return node.asked_once() if isinstance(node, FlatMap) else None
