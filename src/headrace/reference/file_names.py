"""The meaning of `list_files`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.formats.shared.file_names import FileNames
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: FileNames, at: Place) -> Iterator[Row]:
    for number, name in enumerate(node.names):
        yield Row((at.path, number), name)
