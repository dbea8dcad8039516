"""The meaning of `FixedLengthRecordDataset`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.formats.fixed.format import FixedLength
from headrace.formats.shared.packed import packing, remedy
from headrace.reference.records import NaiveRecord, Wrong, read_records


@read_records.register
def _(form: FixedLength, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:  # noqa: ARG001
    refused = form.refusal(len(data))
    if refused is not None:
        packed = "" if form.compression else packing(data)
        yield Wrong(f"{refused}; {remedy(packed)}" if packed else refused), 0, 0
        return
    for offset in range(form.header_bytes, len(data) - form.footer_bytes, form.record_bytes):
        yield data[offset : offset + form.record_bytes], offset, 0
