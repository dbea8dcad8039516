"""The meaning of `distribute_over`: the splits' plans in turn, wherever they run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.cluster.distribute_over import DistributeOver
from headrace.reference.base import Place, Row, flushed, rows


@rows.register
def _(node: DistributeOver, at: Place) -> Iterator[Row]:
    def split(number: int) -> Iterator[Row]:
        if node.mode == "parallel_epochs":
            return flushed(node.fragment.split(0), at.epoch(number))
        return flushed(node.fragment.split(number), at)

    numbers = iter(range(node.splits))
    slots: list[Iterator[Row] | None] = [None] * node.cycle_length
    idle = turn = 0
    while idle < node.cycle_length:
        number = next(numbers, None) if slots[turn] is None else None
        if number is not None:
            slots[turn] = split(number)
        slot = slots[turn]
        given = 0
        for row in islice(slot or (), node.block_length):
            given += 1
            yield row
        idle = idle + 1 if slot is None else 0
        if given < node.block_length:
            slots[turn] = None
        turn = (turn + 1) % node.cycle_length
