"""The meaning of `JsonLinesDataset`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.columns.block import Block
from headrace.formats.jsonl.format import JsonLines
from headrace.formats.shared.format import Bad, ScanHints
from headrace.reference.records import NaiveRecord, Wrong, read_records


@read_records.register
def _(form: JsonLines, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:  # noqa: ARG001
    offset = 0
    for number, line in enumerate(data.split(b"\n")):
        for part in form.scan(np.frombuffer(line, np.uint8), ScanHints(first=not number)).parts:
            if isinstance(part, Bad):
                yield Wrong(part.reason), offset + part.start, number
            else:
                yield next(Block(form.structure, part.columns, 1).elements()), offset + part.start, number
        offset += len(line) + 1
