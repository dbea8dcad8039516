"""What the rows of one split are."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.distribute.deal_out import DealOut
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: DealOut, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        if number // node.lot % node.count == node.index:
            yield row
