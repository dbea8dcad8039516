"""Late materialization: move row numbers, fetch rows once."""

from __future__ import annotations

from headrace.indexed.range import Range
from headrace.ops.shared.gather import Gather
from headrace.plan.node import Moves, Node


def gather_late(node: Node) -> Node | None:
    """If rows are in memory by number, move the numbers, and fetch each row once, straight into its batch."""
    if not (node.moves is Moves.FAR and node.addressable):
        return None
    moves = [node]
    source = node.inputs[0]
    while source.moves:
        moves.append(source)
        source = source.inputs[0]
    if not source.numbered or not source.cardinality.known or isinstance(source, Range):
        return None
    moved: Node = Range(0, source.cardinality)
    for move in reversed(moves):
        moved = move.with_inputs((moved,))
    return Gather(moved, source, site=node.site, stands_for=node)


def gather_once(node: Node) -> Node | None:
    """Move the numbers if this operation only moves rows too, and fetch the rows after it."""
    if not (node.moves and node.addressable):
        return None
    below = node.inputs[0]
    if not isinstance(below, Gather):
        return None
    return Gather(node.with_inputs((below.numbers,)), below.rows, site=node.site, stands_for=node)
