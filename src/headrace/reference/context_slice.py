"""What the part of a sequence is that a context-parallel process gets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.distribute.context_slice import ContextSlice
from headrace.errors import ElementError, SpecError
from headrace.plan.spec import Spec
from headrace.reference.base import Place, Row, element_of, parts_of, rows


@rows.register
def _(node: ContextSlice, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield row
            continue
        structure, leaves = parts_of(row.value)
        spec = node.input.spec
        cut = node.cuts(structure, spec if spec.structure == structure else Spec.of_leaves(structure, leaves))
        try:
            parts = [node.part(np.asarray(v), node.axis) if c else v for v, c in zip(leaves, cut, strict=True)]
        except SpecError as error:
            yield Row(row.id, node.error(error, number))
        else:
            yield Row(row.id, element_of(structure, parts))
