"""The meaning of `snapshot`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.errors import ElementError
from headrace.ops.snapshot import Snapshot, Tag, tag_of
from headrace.reference.base import Place, Row, call, element_of, pair, parts_of, private_copy, rows


@rows.register
def _(node: Snapshot, at: Place) -> Iterator[Row]:
    for row in rows(node.input, at):
        if isinstance(row.value, ElementError):
            yield row
            continue
        structure, leaves = parts_of(row.value)
        yield Row(row.id, element_of(structure.children[0], leaves[:-1]))


@rows.register
def _(node: Tag, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            try:
                made = pair(made, np.int64(tag_of(call(node.shard_func, private_copy(made)))))
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)
