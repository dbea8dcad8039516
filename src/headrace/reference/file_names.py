"""What `list_files` means."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.reference.base import Place, Row, rows
from headrace.sources.file_names import FileNames


@rows.register
def _(node: FileNames, at: Place) -> Iterator[Row]:
    for number, name in enumerate(node.names):
        yield Row((at.path, number), name)
