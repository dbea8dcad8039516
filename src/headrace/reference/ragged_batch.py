"""The meaning of `ragged_batch`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.ragged import Ragged
from headrace.core.types import Component, Nested
from headrace.ops.ragged_batch import RaggedBatch, ragged_axes
from headrace.plan.node import Node
from headrace.reference.base import Place, Row, as_array, element_of, parts_of, rows
from headrace.reference.groups import batches_of


@rows.register
def _(node: RaggedBatch, at: Place) -> Iterator[Row]:
    return batches_of(node, at, lambda values: stack_ragged(node.input, values))


def stack_ragged(source: Node, values: list[Component]) -> Nested:
    """Return the elements, which `source` gave, as one."""
    structure = parts_of(values[0])[0]
    leaves: list[Component] = []
    for i, axes in enumerate(ragged_axes(source, structure)):
        column = [parts_of(v)[1][i] for v in values]
        if isinstance(column[0], Ragged):
            leaves.append(Ragged.from_rows(column))
        elif axes == 0 or not np.ndim(column[0]):
            leaves.append(np.stack([as_array(v) for v in column]))
        else:
            leaves.append(_ragged(column, axes or 1))
    return element_of(structure, leaves)


def _ragged(arrays: list[Component], axes: int) -> Ragged:
    """Return arrays with their first `axes` axes ragged, or as many as they need."""
    if axes == 1 and len({a.shape[1:] for a in arrays}) == 1:
        return Ragged.from_rows(arrays)
    parts = [part for array in arrays for part in array]
    inner = _ragged(parts or [np.empty(arrays[0].shape[1:], arrays[0].dtype)], max(1, axes - 1))[: len(parts)]
    return Ragged(inner, np.cumsum([0, *map(len, arrays)]))
