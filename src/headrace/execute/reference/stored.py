"""What the sources and operations mean that read and write files of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.errors import ElementError
from headrace.execute.reference.base import Place, Row, call, private, rows
from headrace.ops.snapshot import Snapshot, Tag, tag_of
from headrace.sources.stored import Stored


@rows.register
def _(node: Snapshot, at: Place) -> Iterator[Row]:
    for row in rows(node.input, at):
        yield Row(row.id, row.value if isinstance(row.value, ElementError) else row.value[0])


@rows.register
def _(node: Tag, at: Place) -> Iterator[Row]:
    for number, row in enumerate(rows(node.input, at)):
        made = row.value
        if not isinstance(made, ElementError):
            try:
                made = (made, np.int64(tag_of(call(node.shard_func, private(made)))))
            except Exception as error:
                made = node.error(error, number)
        yield Row(row.id, made)


@rows.register
def _(node: Stored, at: Place) -> Iterator[Row]:
    for number in range(node.cardinality):
        yield Row((at.path, number), next(node.rows_between(number, number + 1).elements()))
