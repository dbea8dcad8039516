"""What `chunk` means."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.ragged import Ragged
from headrace.errors import ElementError
from headrace.ops.chunk import Chunk, unequal_sizes
from headrace.plan.spec import Spec
from headrace.reference.base import Place, Row, element_of, fold_id, parts_of, rows


@rows.register
def _(node: Chunk, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield row
            continue
        structure, leaves = parts_of(row.value)
        spec = node.input.spec
        cut = node.cuts(structure, spec if spec.structure == structure else Spec.of_leaves(structure, leaves))
        sizes = [len(v) if isinstance(v, Ragged) or np.ndim(v) else None for v in leaves]
        mine = [size for size, is_cut in zip(sizes, cut, strict=True) if is_cut]
        if not mine or None in mine or len(set(mine)) > 1:
            paths = [path for path, is_cut in zip(structure.paths, cut, strict=True) if is_cut]
            yield Row(row.id, node.error(unequal_sizes(paths, mine), number))
            continue
        for i, start in enumerate(node.starts(mine[0] or 0)):
            parts = [v[start : start + node.length] if is_cut else v for v, is_cut in zip(leaves, cut, strict=True)]
            yield Row((fold_id((row.id[0], 0), row.id[1])[0], i), element_of(structure, parts))
