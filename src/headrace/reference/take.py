"""The meaning of `take`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.ops.take import Take
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: Take, at: Place) -> Iterator[Row]:
    return islice(rows(node.input, at), node.count) if node.count >= 0 else rows(node.input, at)
