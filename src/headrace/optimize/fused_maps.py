"""Maps that follow one another."""

from __future__ import annotations

from headrace.ops.map import Map
from headrace.ops.shared.map_chain import MapChain
from headrace.plan.node import Node


def fuse_maps(node: Node) -> Node | None:
    """Fuse functions that run on whole blocks: a block goes through all of them at once."""
    if not isinstance(node, Map) or node.maps is None:
        return None
    below = node.input
    if not isinstance(below, Map | MapChain) or below.maps is None:
        return None
    return MapChain(below.inputs[0], (*(below.combines or (below,)), node), site=node.site, stands_for=node)
