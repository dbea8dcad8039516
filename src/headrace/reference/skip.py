"""The meaning of `skip`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.ops.skip import Skip
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: Skip, at: Place) -> Iterator[Row]:
    return islice(rows(node.input, at), node.count, None) if node.count >= 0 else iter(())
