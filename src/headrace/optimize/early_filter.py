"""Filters that need not wait for a map."""

from __future__ import annotations

import numpy as np

from headrace.ops.filter import Filter
from headrace.ops.map import Map
from headrace.ops.shared.filter_first import FilterFirst, can_go_first
from headrace.plan.node import Node
from headrace.plan.spec import Spec, TensorSpec


def filter_first(node: Node) -> Node | None:
    """Filter first if the filter uses nothing that the map makes, and the map cannot fail.

    An error has its place: a map that may fail must see every row, and the filter passes its errors on.
    """
    if not isinstance(node, Filter) or node.decides is None:
        return None
    below = node.input
    if not isinstance(below, Map) or below.maps is None or not below.cannot_fail or "raise" in np.geterr().values():
        return None
    if not can_go_first(node.decides, below.maps):
        return None
    if not 0 < _row_bytes(below.inputs[0].spec) <= _row_bytes(below.spec):
        return None  # picking rows out of larger ones may cost more than the map
    return FilterFirst(below.inputs[0], (below, node), site=node.site, stands_for=node)


def _row_bytes(spec: Spec) -> int:
    """Return how many bytes a row of numbers takes; 0 if unknown."""
    sizes = []
    for leaf in spec.leaves:
        if not isinstance(leaf, TensorSpec) or leaf.dtype is None or leaf.shape is None or None in leaf.shape:
            return 0
        sizes.append(leaf.dtype.itemsize * int(np.prod([n or 0 for n in leaf.shape])))
    return sum(sizes)
