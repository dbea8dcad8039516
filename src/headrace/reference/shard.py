"""The meaning of `shard`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.ops.shard import Shard
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: Shard, at: Place) -> Iterator[Row]:
    return islice(rows(node.input, at), node.index, None, node.num_shards)
