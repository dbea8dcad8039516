"""Scan a TFRecord file past damage: report good records and bad ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.formats.shared.files import file_size
from headrace.formats.shared.reader import BadRecord, GoodRows, Reader
from headrace.formats.tfrecord.format import TFRecords

PROGRESS_BYTES = 64 << 20
"""About how many bytes are checked between two progress updates."""


@dataclass
class BadBytes:
    """Bytes without a good record; of the decompressed file, if it is compressed. `stop` may be unknown."""

    start: int
    stop: int | None
    record: int
    reason: str


@dataclass
class Report:
    """The result of a pass."""

    file: str
    records: int = 0
    size: int = 0
    bad: list[BadBytes] = field(default_factory=list)


def scan_records(
    path: str,
    compression: str,
    advance: Callable[[int], None] = lambda _: None,
    rows: Callable[[Any], None] | None = None,
) -> Report:
    """Check every record; `rows` gets the good ones. Without it nothing is made of them, which is much faster."""
    size = file_size(path)
    report = Report(path, size=size or 0)
    reader = Reader(path, TFRecords(compression), go_on=True)
    known = 0

    def moved(offset: int) -> None:
        nonlocal known
        if not compression:
            advance(offset - known)
            known = offset

    try:
        step = 4096
        while True:
            if rows is None:
                report.records += reader.pass_over(step)
            found = reader.read()
            if not found:
                break
            for part in found:
                offset = part.at.offset
                if report.bad and report.bad[-1].stop is None:
                    report.bad[-1].stop = offset
                if isinstance(part, BadRecord):
                    report.bad.append(BadBytes(offset, None, part.at.number, part.reason))
                elif isinstance(part, GoodRows):
                    report.records += part.rows
                    if rows is not None:
                        rows(part.columns[0])
                moved(offset)
            step = max(1, int(PROGRESS_BYTES * max(1, found[-1].at.number) / max(1, found[-1].at.offset)))
    finally:
        reader.close()
    if report.bad and report.bad[-1].stop is None and not compression:
        report.bad[-1].stop = size
    if size is not None:
        advance(size - known)
    return report
