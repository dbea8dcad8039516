"""The meaning of `group_by_window`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.keys import keyed_seeds, mix_key
from headrace.execute.state import with_keyed_seeds
from headrace.ops.group_by_window import GroupByWindow
from headrace.plan.node import Node, called_for
from headrace.reference.base import Place, Row, flushed, rows
from headrace.reference.groups import groups_of, window_of


@rows.register
def _(node: GroupByWindow, at: Place) -> Iterator[Row]:
    def reduced(key: int, group: list[Row]) -> Iterator[Row]:
        path, number = group[0].id
        try:
            key_of_seeds = mix_key(node.seed.key(at.path), path, number)
            with keyed_seeds(key_of_seeds), called_for(node.site):
                made = node.reduce_func(np.int64(key), window_of(group, node.input.spec))
            if not isinstance(getattr(made, "_node", None), Node):
                raise TypeError(f"the function must return a Dataset, not {made!r}")
        except Exception as error:
            return iter([Row(group[0].id, node.error(error, numbers[group[0].id]))])
        return flushed(with_keyed_seeds(made._node, key_of_seeds), at.branch(path, number))

    numbers: dict[tuple[int, int], int] = {}
    return groups_of(node, at, reduced, numbers)
