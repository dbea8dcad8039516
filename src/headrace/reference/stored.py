"""The meaning of `load`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.indexed.stored import Stored
from headrace.reference.base import Place, Row, element_of, rows


@rows.register
def _(node: Stored, at: Place) -> Iterator[Row]:
    for number in range(node.cardinality):
        row = node.rows_between(number, number + 1)
        yield Row((at.path, number), element_of(row.structure, next(row.leaves())))
