"""What `counter` and `random` mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.indexed.counter import RANDOM_BOUND, Counter, Random
from headrace.reference.base import Place, Row, draw, rows


@rows.register
def _(node: Counter, at: Place) -> Iterator[Row]:
    number = 0
    while True:
        yield Row((at.path, number), np.asarray(node.start + number * node.step).astype(node.dtype)[()])
        number += 1


@rows.register
def _(node: Random, at: Place) -> Iterator[Row]:
    number = 0
    while True:
        yield Row((at.path, number), np.int64(draw(node.key(at.path), number, RANDOM_BOUND)))
        number += 1
