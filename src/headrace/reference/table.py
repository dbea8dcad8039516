"""What `from_arrow`, `from_pandas`, `from_polars` mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from headrace.columns.block import leaf
from headrace.core.ragged import Ragged
from headrace.core.types import Component, Nested
from headrace.plan.spec import LeafSpec
from headrace.reference.base import Place, Row, element_of, rows
from headrace.sources.table import Table


@rows.register
def _(node: Table, at: Place) -> Iterator[Row]:
    for i in range(node.rows):
        number = i if node.order is None else int(node.order[i])
        for chunk, start, stop in zip(node.chunks, node.starts, node.starts[1:], strict=False):
            if start <= number < stop:
                yield Row((at.path, i), _element(node, chunk, number - start, i))


def _element(node: Table, chunk: list[Component], row: int, number: int) -> Nested:
    structure = node.spec.structure
    assert structure is not None
    leaves = []
    for path, column, spec in zip(structure.paths, chunk, node.spec.leaves, strict=True):
        try:
            leaves.append(_cell(column[row], spec))
        except UnicodeDecodeError:
            return node.unreadable(path, ValueError("holds no UTF-8"), number)
    return element_of(structure, leaves)


def _cell(value: Nested, spec: LeafSpec) -> Component:
    """Return a value of an array as it is; an Arrow scalar by way of Python."""
    if not hasattr(value, "as_py"):
        return value
    plain = value.as_py()
    text = spec.dtype is not None and spec.dtype.kind in "US"
    if not isinstance(plain, list):
        return plain if text else leaf(np.array(plain, dtype=spec.dtype))
    assert spec.shape is not None
    return _array(plain, spec.shape, object if text else spec.dtype)


def _array(values: list[Component], shape: tuple[int | None, ...], dtype: DTypeLike | None) -> Component:
    """Return nested lists as an array, or ragged up to the last axis whose lengths differ."""
    if None not in shape[1:]:
        return np.array(values, dtype=dtype).reshape(len(values), *shape[1:])
    inner = _array([v for part in values for v in part], (None, *shape[2:]), dtype)
    return Ragged(inner, np.cumsum([0, *map(len, values)]))
