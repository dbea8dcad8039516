"""The meaning of `rejection_resample`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.rejection_resample import RejectionResample
from headrace.reference.base import Place, Row, call, pair, private_copy, rows


@rows.register
def _(node: RejectionResample, at: Place) -> Iterator[Row]:
    seen = [0] * len(node.target)
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield row
            continue
        try:
            kind = node.class_of(call(node.class_func, private_copy(row.value)))
        except Exception as error:
            yield Row(row.id, node.error(error, number))
            continue
        seen[int(kind)] += 1
        if node.accepts(node.seed.key(at.path), number, int(kind), seen):
            yield Row(row.id, pair(kind, row.value))
