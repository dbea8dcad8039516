"""The meaning of `unbatch`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.columns.block import leaf
from headrace.core.ragged import Ragged
from headrace.errors import ElementError
from headrace.ops.unbatch import Unbatch, unequal
from headrace.reference.base import Place, Row, element_of, parts_of, rows

_MASK = 2**64 - 1


@rows.register
def _(node: Unbatch, at: Place) -> Iterator[Row]:
    size = node.input.leading
    places = 1 if size is None else size
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield from [row] * places
            continue
        structure, leaves = parts_of(row.value)
        counts = [len(v) if isinstance(v, Ragged) or np.ndim(v) else None for v in leaves]
        if None in counts or len(set(counts)) != 1:
            yield from [Row(row.id, node.error(unequal(structure, counts), number))] * places
            continue
        path = (row.id[0] * 0x9E3779B97F4A7C15 + row.id[1]) & _MASK
        for i in range(counts[0] or 0):
            yield Row((path, i), element_of(structure, [leaf(v[i]) for v in leaves]))
