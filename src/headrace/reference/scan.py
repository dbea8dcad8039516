"""The meaning of `scan`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.scan import Scan
from headrace.reference.base import Place, Row, private_copy, rows, value_of


@rows.register
def _(node: Scan, at: Place) -> Iterator[Row]:
    state = node.initial
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            try:
                result = node.fn(state.value, private_copy(made))
                if not isinstance(result, tuple | list) or len(result) != 2:
                    raise TypeError(f"scan's function must return the next state and an output, not {result!r}")
                after, made = state.next(result[0]), value_of(result[1])
                state = after
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)
