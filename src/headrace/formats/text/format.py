"""Lines of text, ended by LF or CRLF; the last one may do without."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.columns import Column, text_column
from headrace.columns.arrow_text import binary, parts
from headrace.formats.shared.files import Bytes
from headrace.formats.shared.format import (
    ANY_ROW,
    Bad,
    CutPoints,
    Format,
    Offsets,
    PreferredRows,
    ScanHints,
    ScannedRows,
    ScanPart,
    ScanResult,
)
from headrace.formats.shared.packed import MAGIC_BYTES, packing
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF

if TYPE_CHECKING:
    import pyarrow as pa

LF, CR = 10, 13
MARK = codecs.BOM_UTF8
"""What some programs put before text: no part of its first line, whatever the encoding."""


def encoding_name(encoding: str | None) -> str | None:
    """Return a codec that Python knows and whose text can be split at the byte LF."""
    if encoding is None:
        return None
    try:
        name = codecs.lookup(encoding).name
        fits = "\n\rA".encode(name) == b"\n\rA"
    except LookupError:
        raise ValueError(f"encoding must be the name of a codec, or None for bytes, not {encoding!r}") from None
    if not fits:
        raise ValueError(f"encoding {encoding!r} does not keep line ends as single bytes; convert the file to UTF-8")
    return name


@dataclass(frozen=True)
class Lines(Format):
    """One row a line, as tf.data cuts them: every CR is left out, wherever it stands."""

    encoding: str | None = "utf-8"

    is_text = True
    indexed = True
    skimmed = True
    terminated = True
    joinable = True
    divisible = prefers_rows = True

    @property
    def sure(self) -> bool:  # type: ignore[override]
        return self.encoding is None

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), np.bytes_ if self.encoding is None else np.str_),))

    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        lead = mark_length(data, final=hints.final) if hints.first else 0
        if lead is None:
            return ScanResult([], 0)
        if not lead:
            return self._scan(data, hints)
        scan = self._scan(data[lead:], hints)
        parts = [_move_part(part, lead) for part in scan.parts]
        return scan._replace(parts=parts, used=scan.used + lead) if scan.used or hints.final else scan

    def _scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        values, offsets, starts, used, more = _native.cut_lines(np.ascontiguousarray(data), hints.most, hints.final)
        if len(offsets) == 1:
            return ScanResult([], used)
        return ScanResult(self._parts(binary(values, offsets), starts), used, more=more)

    def scan_files(self, data: bytes, ends: Offsets) -> tuple[ScannedRows, Offsets] | None:
        start = 0
        counts = []
        for end in ends.tolist():
            head = data[start : min(end, start + MAGIC_BYTES)]
            if head and (data[end - 1] != LF or head.startswith(MARK) or packing(head)):
                return None
            counts.append(data.count(b"\n", start, end))
            start = end
        found = self._scan(np.frombuffer(data, np.uint8), ScanHints()).parts
        whole = found[0] if found else ScannedRows([], 0, 0)
        if not isinstance(whole, ScannedRows) or len(found) > 1:
            return None
        return whole, np.cumsum(counts, dtype=np.int64)

    def _parts(self, lines: pa.Array, starts: Offsets) -> list[ScanPart]:
        if self.encoding is None:
            return [ScannedRows([lines], len(lines), 0)]
        whole = decode_lines(lines, self.encoding)
        if whole is not None:
            return [ScannedRows([whole], len(lines), 0)]
        parts: list[ScanPart] = []
        good = 0
        for i, line in enumerate(lines.to_pylist()):
            try:
                line.decode(self.encoding)
            except UnicodeDecodeError as error:
                parts += self._run(lines, starts, good, i)
                reason = f"not {self.encoding}: {error.reason} (encoding=None gives the bytes)"
                parts.append(Bad(reason, int(starts[i]), int(starts[i + 1])))
                good = i + 1
        return parts + self._run(lines, starts, good, len(lines))

    def _run(self, lines: pa.Array, starts: Offsets, start: int, stop: int) -> list[ScanPart]:
        if start == stop:
            return []
        assert self.encoding is not None
        column = decode_lines(lines[start:stop], self.encoding)
        assert column is not None
        return [ScannedRows([column], stop - start, int(starts[start]))]

    def lead(self, data: Bytes) -> int:
        return mark_length(data, final=True) or 0

    def starts(self, data: Bytes, *, final: bool) -> tuple[Offsets, int, str | None]:
        ends = np.flatnonzero(data == LF) + 1
        lines = int(ends[-1]) if len(ends) else 0
        if final and data[lines:].tobytes().strip(b"\r"):
            lines = len(data)
            ends = np.append(ends, lines)
        return np.concatenate([[0], ends[:-1]]).astype(np.int64) if lines else ends, lines, None

    def cut(self, data: Bytes, target: int, *, first: bool, final: bool, prefer: PreferredRows = ANY_ROW) -> CutPoints:
        lead = mark_length(data, final=final) if first else 0
        return CutPoints(*_native.cut_text(data, lead or 0, target, prefer=prefer))


def mark_length(data: Bytes, *, final: bool) -> int | None:
    """Return the length of a byte order mark at the start; None if more bytes are needed."""
    head = data[: len(MARK)].tobytes()
    if head == MARK:
        return len(MARK)
    return None if MARK.startswith(head) and not final else 0


def decode_lines(lines: pa.Array, encoding: str) -> Column | None:
    """Decode bytes as text; None if one of them is invalid."""
    import pyarrow as pa

    try:
        if encoding == "utf-8":
            content, cuts = parts(lines)
            if content[cuts[0] : cuts[-1]].max(initial=0) < 128:  # which is text however it is cut
                return binary(content, cuts, pa.large_string())
            return lines.cast(pa.large_string())
        return text_column([line.decode(encoding) for line in lines.to_pylist()])
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None


def _move_part(part: ScanPart, by: int) -> ScanPart:
    if isinstance(part, Bad):
        return part._replace(start=part.start + by, stop=part.stop + by)
    return part._replace(start=part.start + by)
