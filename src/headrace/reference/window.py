"""The meaning of `window`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ops.window import Window
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF
from headrace.reference.base import Place, Row, element_of, fold_id, parts_of, rows
from headrace.reference.groups import first_error, window_of


@rows.register
def _(node: Window, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, at))
    start = 0
    given: set[int] = set()
    while start < len(everything):
        places = range(start, min(start + node.span, len(everything)), node.stride)
        if node.drop_remainder and start + node.span > len(everything):
            starts = range(start, len(everything), node.shift)
            held = {place for first in starts for place in range(first, first + node.span, node.stride)}
            return at.drop(everything[place] for place in sorted(held - given) if place < len(everything))
        given.update(places)
        group = everything[start : start + node.span : node.stride]
        made = first_error(group)
        first = fold_id(everything[start].id, 5)
        if made is None:
            structure, leaves = parts_of(group[0].value)
            known = node.input.spec
            if known.structure != structure:
                known = Spec.of_leaves(structure, leaves).without_sizes()
            windows = []
            for i in range(len(leaves)):
                column = [Row(row.id, parts_of(row.value)[1][i]) for row in group]
                windows.append(window_of(column, Spec(LEAF, known.leaves[i : i + 1])))
            made = element_of(structure, windows)
        yield Row(first, made)
        start += node.shift
