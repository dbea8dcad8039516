"""What `from_torch`, `from_huggingface` mean."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.reference.base import Place, Row, element_of, rows
from headrace.sources.map_style import MapStyle, row


@rows.register
def _(node: MapStyle, at: Place) -> Iterator[Row]:
    for i in range(node.rows):
        try:
            yield Row((at.path, i), element_of(*row(node.dataset[i])))
        except Exception as error:
            yield Row((at.path, i), node.error(error, i))
