"""The meaning of `map`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.map import Map
from headrace.ops.shared.calls import check_promise
from headrace.reference.base import Place, Row, call, check_text, element_of, private_copy, rows


@rows.register
def _(node: Map, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        check_text(node.function, row.value)
        made = row.value
        if not isinstance(made, ElementError):
            try:
                made = element_of(*check_promise(node.fn, call(node.fn, private_copy(made)), node.signature))
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)
