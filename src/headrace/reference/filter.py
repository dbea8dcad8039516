"""The meaning of `filter`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.filter import Filter, truth
from headrace.reference.base import Place, Row, call, check_text, private_copy, rows


@rows.register
def _(node: Filter, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        check_text(node.function, row.value)
        try:
            if isinstance(row.value, ElementError) or truth(call(node.predicate, private_copy(row.value))):
                yield row
        except Exception as error:
            yield Row(row.id, node.error(error, number))
