"""The meaning of `unique`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.unique import Unique, element_key
from headrace.reference.base import Place, Row, parts_of, rows


@rows.register
def _(node: Unique, at: Place) -> Iterator[Row]:
    seen = set()
    for row in rows(node.input, at):
        if isinstance(row.value, ElementError):
            yield row
        elif (key := element_key(*parts_of(row.value))) not in seen:
            seen.add(key)
            yield row
