"""The meaning of `take_while`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.filter import truth
from headrace.ops.take_while import TakeWhile
from headrace.reference.base import Place, Row, call, check_text, private_copy, rows


@rows.register
def _(node: TakeWhile, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        check_text(node.function, row.value)
        made = row.value
        if not isinstance(made, ElementError):
            try:
                if not truth(call(node.predicate, private_copy(made))):
                    return
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)
