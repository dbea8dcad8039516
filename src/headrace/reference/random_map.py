"""The meaning of `random_map`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.random import RowGenerator
from headrace.errors import ElementError
from headrace.ops.random_map import RandomMap
from headrace.ops.shared.calls import check_promise
from headrace.reference.base import Place, Row, call, check_text, element_of, private_copy, rows


@rows.register
def _(node: RandomMap, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        check_text(node.function, row.value)
        made = row.value
        if not isinstance(made, ElementError):
            rng = RowGenerator(node.key, np.array(row.id, np.uint64))
            try:
                made = call(lambda *args, rng=rng: node.fn(*args, rng), private_copy(made))
                made = element_of(*check_promise(node.fn, made, None))
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)
