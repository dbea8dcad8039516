"""The meaning of `repeat`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ops.repeat import Repeat
from headrace.reference.base import Place, Row, flushed, rows


@rows.register
def _(node: Repeat, at: Place) -> Iterator[Row]:
    epoch = 0
    while epoch != node.count:
        empty = True
        for row in flushed(node.input, at.epoch(epoch)):
            empty = False
            yield row
        if empty and node.count is None:
            return
        epoch += 1
