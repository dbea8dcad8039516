"""What `ds[i:j]` means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.ops.select import Select
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: Select, at: Place) -> Iterator[Row]:
    everything = list(islice(rows(node.input, at), max(node.start, node.start + node.count * node.step) + 1))
    return iter([everything[node.start + i * node.step] for i in range(node.count)])
