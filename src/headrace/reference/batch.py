"""The meaning of `batch`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from headrace.core.ragged import Ragged
from headrace.core.types import Component, Nested
from headrace.errors import ElementError, SpecError
from headrace.ops.batch import Batch
from headrace.plan import mismatch
from headrace.plan.node import Node
from headrace.plan.spec import Spec, leaf_spec
from headrace.reference.base import Place, Row, as_array, element_of, fold_id, parts_of, rows


@rows.register
def _(node: Batch, at: Place) -> Iterator[Row]:
    source = rows(node.input, at)
    number = 0
    while group := list(islice(source, node.batch_size)):
        if len(group) < node.batch_size and node.drop_remainder:
            return at.drop(group)
        path, first = group[0].id
        failed = next((row.value for row in group if isinstance(row.value, ElementError)), None)
        made = failed or stack_elements(node, [row.value for row in group], number)
        yield Row(fold_id((path, first), 3), made)
        number += 1


def stack_elements(node: Node, values: list[Component], number: int) -> Nested:
    """Return the elements as one, or the error that they cannot be."""
    flat = [parts_of(v) for v in values]
    structure = flat[0][0]
    other = next((i for i, (s, _) in enumerate(flat) if s != structure), None)
    if other is not None:
        why = mismatch.why_structures_differ(Spec.of(values[0]), Spec.of(values[other]), other)
        return node.error(SpecError(why), number)
    leaves: list[Component] = []
    for i, path in enumerate(structure.paths):
        column = [row[i] for _, row in flat]
        if any(isinstance(v, Ragged) for v in column):
            kinds = {(type(v), v.dtype, v.shape[1:]) for v in column}
            if len(kinds) > 1:
                return node.error(SpecError(mismatch.why_ragged_rows_differ(path, column)), number)
            leaves.append(Ragged.from_rows(column))
            continue
        arrays = [as_array(v) for v in column]
        for row, array in enumerate(arrays):
            if (array.shape, array.dtype) != (arrays[0].shape, arrays[0].dtype):
                why = mismatch.why_components_differ(path, leaf_spec(column[0]), leaf_spec(column[row]), row)
                return node.error(SpecError(why), number)
        leaves.append(np.stack(arrays))
    return element_of(structure, leaves)
