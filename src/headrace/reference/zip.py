"""The meaning of `zip`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.zip import Zip
from headrace.reference.base import Place, Row, join_elements, rows


@rows.register
def _(node: Zip, at: Place) -> Iterator[Row]:
    inputs = [rows(n, at.branch(p) if p else at) for n, p in zip(node.branches, node.places, strict=True)]
    while True:
        heads = [next(source, None) for source in inputs]
        group = [row for row in heads if row is not None]
        if len(group) < len(inputs):
            return
        failed = next((row.value for row in group if isinstance(row.value, ElementError)), None)
        yield Row(group[0].id, failed or join_elements(node.structure, [row.value for row in group]))
