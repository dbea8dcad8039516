"""The meaning of `cache`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ops.cache import Cache
from headrace.reference.base import Place, Row, flushed, fold_id, rows


@rows.register
def _(node: Cache, at: Place) -> Iterator[Row]:
    for row in flushed(node.input, Place()):
        yield Row(fold_id(row.id, at.path), row.value)
