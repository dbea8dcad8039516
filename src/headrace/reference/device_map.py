"""The meaning of `map` and `random_map` with `device=`: that of the same functions without it, within stated bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.random import RowGenerator
from headrace.errors import ElementError
from headrace.ops.device_map import DeviceRandomMap, OnDevice
from headrace.ops.shared.calls import check_promise
from headrace.reference.base import Place, Row, call, element_of, private_copy, rows


@rows.register
def _(node: OnDevice, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            fn = node.fn
            if isinstance(node, DeviceRandomMap):
                rng = RowGenerator(node.key, np.array(row.id, np.uint64))
                fn = lambda *args, rng=rng: node.fn(*args, rng)  # noqa: E731
            try:
                made = element_of(*check_promise(node.fn, call(fn, private_copy(made)), None))
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)
