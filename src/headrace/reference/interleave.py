"""The meaning of `interleave`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.ops.interleave import Interleave
from headrace.reference.base import Place, Row, rows
from headrace.reference.flat_map import children_of


@rows.register
def _(node: Interleave, at: Place) -> Iterator[Row]:
    parents = children_of(node, at)
    slots: list[Iterator[Row] | None] = [None] * node.cycle_length
    idle = turn = 0
    while idle < node.cycle_length:
        if slots[turn] is None:
            slots[turn] = next(parents, None)
        slot = slots[turn]
        if slot is None:
            idle += 1
        else:
            idle = 0
            group = 0
            for row in islice(slot, node.block_length):
                group += 1
                yield row
            if group < node.block_length:
                slots[turn] = None
        turn = (turn + 1) % node.cycle_length
