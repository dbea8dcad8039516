"""How the rows of a node can be read; queried when a plan is about to be opened.

Sources say so in attributes of these names: `brief`, `at_hand`, `comes_late`, `late_bytes`, `coarse`. A query may cost
a system call, so the answers are not part of a plan.
"""

from __future__ import annotations

from headrace.plan.node import Node


def is_brief(node: Node) -> bool:
    """Return whether making all rows takes less time than starting a thread for them."""
    return bool(getattr(node, "brief", False))


def is_at_hand(node: Node) -> bool:
    """Return whether rows are on this machine and are made by little more than copying."""
    return bool(getattr(node, "at_hand", False))


def comes_late(node: Node) -> bool:
    """Return whether rows can be given as references to records in files, which takes no time."""
    return bool(getattr(node, "comes_late", False))


def late_bytes(node: Node) -> int:
    """Return the size of a row that can be given as a reference, judging by the first one; 0 if none can be."""
    return int(getattr(node, "late_bytes", 0))


def is_coarse(node: Node) -> bool:
    """Return whether fetching one row reads many, so that scattered ones should be fetched many at a time."""
    said: bool | None = getattr(node, "coarse", None)
    return any(map(is_coarse, node.inputs)) if said is None else said
