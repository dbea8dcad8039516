"""The meaning of `bucket_by_sequence_length`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ops.bucket_by_sequence_length import Bucket
from headrace.reference.base import Place, Row, rows
from headrace.reference.groups import groups_of, window_of


@rows.register
def _(node: Bucket, at: Place) -> Iterator[Row]:
    def reduced(key: int, group: list[Row]) -> Iterator[Row]:
        if node.drop_remainder and len(group) < node.sizes[key]:
            return iter(())
        memory = window_of(group, node.input.spec)._node
        return rows(node._batch(memory, key, len(group)), at.branch(*group[0].id))

    return groups_of(node, at, reduced, {})
