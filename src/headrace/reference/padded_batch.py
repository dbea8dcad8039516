"""The meaning of `padded_batch`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.columns.text import is_of_bytes
from headrace.core.types import Component, Nested
from headrace.errors import SpecError
from headrace.ops.padded_batch import PaddedBatch
from headrace.reference.base import Place, Row, element_of, parts_of, rows
from headrace.reference.groups import batches_of


@rows.register
def _(node: PaddedBatch, at: Place) -> Iterator[Row]:
    return batches_of(node, at, lambda values: _pad(node, values))


def _pad(node: PaddedBatch, values: list[Component]) -> Nested:
    structure = parts_of(values[0])[0]
    targets = node.padding.targets(structure)
    dtypes = [getattr(v, "dtype", np.dtype(type(v))) for v in parts_of(values[0])[1]]
    fillers = node.padding.fillers(structure, dtypes)
    leaves = []
    for i, (target, filler) in enumerate(zip(targets, fillers, strict=True)):
        column = [np.asarray(parts_of(v)[1][i]) for v in values]
        if column[0].dtype.kind in "US":
            leaves.append(np.array([parts_of(v)[1][i] for v in values], object))
            continue
        sizes = [max(axis) for axis in zip(*(c.shape for c in column), strict=True)]
        if target is not None:
            wanted = [n if t is None else t for n, t in zip(sizes, target, strict=True)]
            if any(n > w for n, w in zip(sizes, wanted, strict=True)):
                raise SpecError(f"an element of length {sizes[0]} does not fit into {wanted[0]}")
            sizes = wanted
        zero: Component = 0
        if column[0].dtype == object:
            kinds = {type(v) for c in column for v in c.flat} or {bytes for c in column if is_of_bytes(c.dtype)}
            zero = b"" if bytes in kinds else ""
        out = np.full((len(column), *sizes), zero if filler is None else filler, column[0].dtype)
        for number, row in enumerate(column):
            place: Component = (number, *map(slice, row.shape))
            out[place] = row
        leaves.append(out)
    return element_of(structure, leaves)
