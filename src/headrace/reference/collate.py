"""What `batch` with a `collate_fn` means, before the function is called."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.errors import ElementError
from headrace.ops.shared.collate import ElementList, ListBatch
from headrace.reference.base import Place, Row, fold_id, rows


@rows.register
def _(node: ListBatch, at: Place) -> Iterator[Row]:
    source = rows(node.input, at)
    while group := list(islice(source, node.batch_size)):
        if len(group) < node.batch_size and node.drop_remainder:
            return at.drop(group)
        failed = next((row.value for row in group if isinstance(row.value, ElementError)), None)
        yield Row(fold_id(group[0].id, 3), failed or ElementList([row.value for row in group]))
