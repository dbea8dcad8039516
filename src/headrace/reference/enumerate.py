"""The meaning of `enumerate`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.errors import ElementError
from headrace.ops.enumerate import Enumerate
from headrace.reference.base import Place, Row, pair, rows


@rows.register
def _(node: Enumerate, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at), node.start):
        yield row if isinstance(row.value, ElementError) else Row(row.id, pair(np.int64(number), row.value))
