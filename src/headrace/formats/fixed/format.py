"""Records that all have the same number of bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headrace.columns.arrow_text import binary
from headrace.core.override import override
from headrace.formats.shared.files import Bytes
from headrace.formats.shared.format import (
    ANY_ROW,
    Bad,
    CutPoints,
    Format,
    PreferredRows,
    ScanHints,
    ScannedRows,
    ScanPart,
    ScanResult,
)
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF


@dataclass(frozen=True)
class FixedLength(Format):
    """A header, rows of `record_bytes`, a footer."""

    record_bytes: int = 1
    header_bytes: int = 0
    footer_bytes: int = 0

    indexed = True
    divisible = prefers_rows = True

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), np.bytes_),))

    @property
    def bare(self) -> Format:
        return replace(self, header_bytes=0, footer_bytes=0)

    def refusal(self, size: int) -> str | None:
        body = size - self.header_bytes - self.footer_bytes
        if body < 0:
            return (
                f"the file has {size} bytes, fewer than its header ({self.header_bytes}) and footer "
                f"({self.footer_bytes}) together"
            )
        if body % self.record_bytes:
            return f"its body of {body} bytes is not a multiple of the record size, {self.record_bytes} bytes"
        return None

    def count(self, size: int) -> int:
        """Return how many records a file of this size holds."""
        return (size - self.header_bytes - self.footer_bytes) // self.record_bytes

    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        final = hints.final
        start = self.header_bytes if hints.first else 0
        body = len(data) - start - (0 if hints.cut else self.footer_bytes)
        if body < 0:
            if not final:
                return ScanResult([], 0)
            return ScanResult([Bad("the file ends within its header or footer", 0, len(data), lost=True)], len(data))
        rows = min(hints.most, body // self.record_bytes)
        stop = start + rows * self.record_bytes
        parts: list[ScanPart] = []
        if rows:
            offsets = np.arange(rows + 1, dtype=np.int64) * self.record_bytes
            parts.append(ScannedRows([binary(data[start:stop].copy(), offsets)], rows, start))
        if rows == hints.most:
            return ScanResult(parts, stop, more=True)
        if not final:
            return ScanResult(parts, stop if rows else 0)
        if stop - start < body:
            reason = f"its body ends {body - (stop - start)} bytes into a record of {self.record_bytes}"
            parts.append(Bad(reason, stop, start + body, lost=True))
        return ScanResult(parts, len(data))

    @override
    def cut(self, data: Bytes, target: int, *, first: bool, final: bool, prefer: PreferredRows = ANY_ROW) -> CutPoints:
        start = self.header_bytes if first else 0
        count = (len(data) - start - self.footer_bytes) // self.record_bytes
        number, step = max(1, -(-(target - start) // self.record_bytes)), max(1, -(-target // self.record_bytes))
        if prefer.group <= step:
            number, step = prefer.at_or_after(number), -(-step // prefer.group) * prefer.group
        rows = np.arange(number, max(number, count), step, dtype=np.int64)
        return CutPoints(start + rows * self.record_bytes, rows, np.zeros_like(rows))
