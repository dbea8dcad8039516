"""What `from_tensors`, `from_tensor_slices` mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.ragged import Ragged
from headrace.indexed.memory import Memory
from headrace.reference.base import Place, Row, element_of, rows


@rows.register
def _(node: Memory, at: Place) -> Iterator[Row]:
    for i in range(node.rows):
        leaves = [c[i] if isinstance(c, np.ndarray | Ragged | list) else c[i].as_py() for c in node.columns]
        yield Row((at.path, i), element_of(node.structure, leaves))
