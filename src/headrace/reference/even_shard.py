"""What a loader's shards mean."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.distribute.even_shard import EvenShard
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: EvenShard, at: Place) -> Iterator[Row]:
    rest = rows(node.input, at)
    while len(group := list(islice(rest, node.readers))) == node.readers:
        yield group[node.index]
    at.drop(group)
