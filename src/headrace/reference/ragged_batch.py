"""What `ragged_batch` means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.ops.ragged_batch import RaggedBatch, has_fixed_shape
from headrace.ragged import Ragged
from headrace.reference.base import Place, Row, as_array, element_of, parts_of, rows
from headrace.reference.groups import batches_of


@rows.register
def _(node: RaggedBatch, at: Place) -> Iterator[Row]:
    return batches_of(node, at, lambda values: _stack_ragged(node, values))


def _stack_ragged(node: RaggedBatch, values: list[Any]) -> Any:
    structure = parts_of(values[0])[0]
    known = node.input.spec.leaves if node.input.spec.structure == structure else [None] * structure.leaves
    leaves: list[Any] = []
    for i, spec in enumerate(known):
        column = [parts_of(v)[1][i] for v in values]
        if (spec is not None and has_fixed_shape(spec)) or not (isinstance(column[0], Ragged) or np.ndim(column[0])):
            leaves.append(np.stack([as_array(v) for v in column]))
        else:
            leaves.append(Ragged.from_rows(column))
    return element_of(structure, leaves)
