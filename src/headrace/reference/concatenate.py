"""The meaning of `concatenate`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ops.concatenate import Concatenate
from headrace.reference.base import Place, Row, flushed, fold_id, rows


@rows.register
def _(node: Concatenate, at: Place) -> Iterator[Row]:
    for branch, place in enumerate(node.places):
        for row in flushed(node.branches[branch], at.branch(place) if place else at):
            yield Row(fold_id(row.id, branch + 1), row.value)
