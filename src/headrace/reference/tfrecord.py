"""The meaning of `TFRecordDataset`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace import _native
from headrace.formats.shared.packed import PROBE_BYTES
from headrace.formats.tfrecord.format import TFRecords
from headrace.reference.records import NaiveRecord, Wrong, read_records

WRONG_LENGTH, WRONG_DATA = "the checksum of the length is wrong", "the checksum of the data is wrong"


@read_records.register
def _(form: TFRecords, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:
    offset = 0
    while offset < len(data):
        wrong, length = _problem(data, offset)
        if wrong is None:
            yield data[offset + 12 : offset + 12 + length], offset, 0
        else:
            lost = not offset and wrong != WRONG_DATA
            yield Wrong(wrong + form.doubt(data[:PROBE_BYTES]) if lost else wrong), offset, 0
            if not go_on:
                return
        if wrong not in (None, WRONG_DATA):
            whole = (at for at in range(offset + 1, len(data)) if _problem(data, at)[0] is None)
            offset = next(whole, len(data))
        else:
            offset += length + 16


def _problem(data: bytes, offset: int) -> tuple[str | None, int]:
    """Return what is wrong with a record that begins here, and how long it says that it is."""
    header, length = data[offset : offset + 12], int.from_bytes(data[offset : offset + 8], "little")
    left = len(data) - offset
    if left < 12:
        return f"the file ends {left} bytes into a record", 0
    if _masked_checksum(header[:8]) != header[8:]:
        return WRONG_LENGTH, 0
    if left < length + 16:
        return f"the file ends {left} bytes into a record of {length + 16}", 0
    record = data[offset + 12 : offset + 12 + length]
    return None if _masked_checksum(record) == data[offset + 12 + length : offset + 16 + length] else WRONG_DATA, length


def _masked_checksum(data: bytes) -> bytes:
    crc = _native.crc32c(data, portable=True)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
