"""The meaning of `ds[i:j]`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from headrace.ops.shared.select import Select, SelectNumbers
from headrace.plan.node import Node
from headrace.reference.base import Place, Row, fold_id, rows


def _numbered(node: Node, at: Place, count: int) -> list[Row]:
    """Return the first `count` rows by number; what others dropped is left out with them."""
    return list(islice(rows(node, replace(at, dropped=[], by_number=True)), count))


@rows.register
def _(node: Select, at: Place) -> Iterator[Row]:
    everything = _numbered(node.input, at, max(node.start, node.start + node.count * node.step) + 1)
    return iter([everything[node.start + i * node.step] for i in range(node.count)])


@rows.register
def _(node: SelectNumbers, at: Place) -> Iterator[Row]:
    everything = _numbered(node.input, at, max(node.numbers, default=-1) + 1)
    for place, number in enumerate(node.numbers):
        row, again = everything[number], node.numbers[:place].count(number)
        yield Row(fold_id(row.id, again) if again else row.id, row.value)
