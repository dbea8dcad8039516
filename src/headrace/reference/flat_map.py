"""The meaning of `flat_map`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.keys import keyed_seeds, mix_key
from headrace.errors import ElementError
from headrace.execute.state import with_keyed_seeds
from headrace.ops.flat_map import FlatMap
from headrace.ops.interleave import Interleave
from headrace.plan.node import Node, called_for
from headrace.reference.base import Place, Row, call, flushed, private_copy, rows


def children_of(node: FlatMap | Interleave, at: Place) -> Iterator[Iterator[Row]]:
    """For each parent row, the rows of its dataset; what cannot be made is a single failure."""
    for number, row in enumerate(rows(node.input, at)):
        if isinstance(row.value, ElementError):
            yield iter([row])
            continue
        try:
            key = mix_key(node.seed.key(at.path), *row.id)
            with keyed_seeds(key), called_for(node.site):
                made = call(node.fn, private_copy(row.value))
            if not isinstance(getattr(made, "_node", None), Node):
                raise TypeError(f"the function must return a Dataset, not {made!r}")
        except Exception as error:
            yield iter([Row(row.id, node.error(error, number))])
        else:
            yield flushed(with_keyed_seeds(made._node, key), at.branch(*row.id))


@rows.register
def _(node: FlatMap, at: Place) -> Iterator[Row]:
    for child in children_of(node, at):
        yield from child
