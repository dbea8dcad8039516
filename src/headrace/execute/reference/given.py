"""What the sources mean that read tables and datasets of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.block import leaf
from headrace.execute.reference.base import Place, Row, element_of, rows
from headrace.plan.spec import LeafSpec
from headrace.ragged import Ragged
from headrace.sources.map_style import MapStyle, row
from headrace.sources.table import Table


@rows.register
def _(node: Table, at: Place) -> Iterator[Row]:
    structure = node.spec.structure
    assert structure is not None
    for i in range(node.rows):
        number = i if node.order is None else int(node.order[i])
        for chunk, start, stop in zip(node.chunks, node.starts, node.starts[1:], strict=False):
            if start <= number < stop:
                leaves = [_cell(c[number - start], s) for c, s in zip(chunk, node.spec.leaves, strict=True)]
                yield Row((at.path, i), element_of(structure, leaves))


def _cell(value: Any, spec: LeafSpec) -> Any:
    """A value of an array as it is; an Arrow scalar by way of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value
    plain = value.as_py()
    text = spec.dtype is not None and spec.dtype.kind in "US"
    if not isinstance(plain, list):
        return plain if text else leaf(np.array(plain, dtype=spec.dtype))
    assert spec.shape is not None
    if None in spec.shape[1:]:
        return Ragged.from_rows(plain, spec.dtype)
    return np.array(plain, dtype=object if text else spec.dtype).reshape(len(plain), *spec.shape[1:])


@rows.register
def _(node: MapStyle, at: Place) -> Iterator[Row]:
    for i in range(node.rows):
        try:
            yield Row((at.path, i), element_of(*row(node.dataset[i])))
        except Exception as error:
            yield Row((at.path, i), node.error(error, i))
