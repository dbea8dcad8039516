"""The meaning of `ignore_errors`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.ignore_errors import IgnoreErrors, warn_of_dropped_file
from headrace.reference.base import Place, Row, Unmade, flushed, rows


@rows.register
def _(node: IgnoreErrors, at: Place) -> Iterator[Row]:
    for row in flushed(node.input, at):
        if isinstance(row.value, ElementError):
            warn_of_dropped_file(node, row.value)
        elif not isinstance(row.value, Unmade):
            yield row
