"""What `ignore_errors` means."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ElementError
from headrace.ops.ignore_errors import IgnoreErrors
from headrace.reference.base import Place, Row, Unmade, rows


@rows.register
def _(node: IgnoreErrors, at: Place) -> Iterator[Row]:
    return (row for row in rows(node.input, at) if not isinstance(row.value, ElementError | Unmade))
