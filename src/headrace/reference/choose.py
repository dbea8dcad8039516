"""What `choose_from_datasets`, `sample_from_datasets` mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.errors import ElementError
from headrace.indexed.counter import RANDOM_BOUND
from headrace.ops.choose import Choose, Pick
from headrace.reference.base import Place, Row, fold_id, rows


@rows.register
def _(node: Pick, at: Place) -> Iterator[Row]:
    for row in rows(node.input, at):
        share = int(row.value) / RANDOM_BOUND
        yield Row(row.id, np.int64(sum(step <= share for step in node.steps)))


@rows.register
def _(node: Choose, at: Place) -> Iterator[Row]:
    inputs = [rows(n, at.branch(p) if p else at) for n, p in zip(node.branches, node.places, strict=True)]
    *sources, choices = inputs
    ended: set[int] = set()
    for number, choice in enumerate(choices):
        if isinstance(choice.value, ElementError):
            yield choice
            continue
        index = int(choice.value)
        if not 0 <= index < len(sources):
            yield Row(choice.id, node.error(IndexError(f"choice {index} of {len(sources)} datasets"), number))
            continue
        row = None if index in ended else next(sources[index], None)
        if row is not None:
            yield Row(fold_id(row.id, index + 1), row.value)
            continue
        ended.add(index)
        if node.stop_on_empty or len(ended) == len(sources):
            return
