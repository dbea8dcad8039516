"""The meaning of `range`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.indexed.range import Range
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: Range, at: Place) -> Iterator[Row]:
    for i, number in enumerate(range(node.start, node.stop, node.step)):
        yield Row((at.path, i), np.array(number).astype(node.dtype)[()])
