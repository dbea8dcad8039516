"""What the order is in which `distribute` deals balanced rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.distribute.balance import Balance
from headrace.errors import ElementError
from headrace.ops.shared.row_sizes import checked_size, leaf_number, size_of_component
from headrace.reference.base import Place, Row, call, parts_of, private_copy, rows


@rows.register
def _(node: Balance, at: Place) -> Iterator[Row]:
    source = enumerate(rows(node.input, at))
    while window := list(islice(source, node.deal.rows)):
        sized = [_sized(node, number, row) for number, row in window]
        for place in node.order([size for size, _ in sized], node.deal).tolist():
            yield sized[place][1]


def _sized(node: Balance, number: int, row: Row) -> tuple[float, Row]:
    """How large a row is; one whose size is not known becomes an error."""
    if isinstance(row.value, ElementError):
        return 0.0, row
    try:
        if node.function is not None:
            found = call(node.function.fn, private_copy(row.value))
        else:
            structure, leaves = parts_of(row.value)
            found = size_of_component(leaves[leaf_number(node.operation, structure, node.key)])
        return float(checked_size(found, "iuf")), row
    except Exception as error:
        return 0.0, Row(row.id, node.error(error, number))
