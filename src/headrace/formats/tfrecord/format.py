"""TFRecord files: each record with its length and two checksums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace import _native
from headrace.columns import Column
from headrace.columns.arrow_text import binary
from headrace.columns.refs import RecordRefs
from headrace.core.override import override
from headrace.formats.shared.files import Bytes
from headrace.formats.shared.format import (
    ALL,
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
    choose_cuts,
)
from headrace.formats.shared.packed import likely_packing, remedy
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF

HEADER, FOOTER = 12, 4
WRONG_LENGTH, WRONG_DATA = 1, 2


@dataclass(frozen=True)
class TFRecords(Format):
    """One row a record."""

    indexed = True
    skimmed = True
    sure = True
    joinable = True
    pointed = True
    boxes = True
    divisible = prefers_rows = True

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), np.bytes_),))

    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        column: Column
        nbytes = -1
        if hints.stays is not None:
            scan = hints.scan or _native.RecordScan(hints.stays)
            bounds, used, problem = scan.bounds(hints.at, hints.at + len(data), hints.most)
            column, rows = RecordRefs([hints.stays], bounds), len(bounds) - 1
        elif hints.objects:
            column, nbytes, used, problem = _native.unframe_objects(data.data, 0, hints.most)
            rows = len(column)
        else:
            values, offsets, used, problem = _native.unframe(data.data, 0, hints.most, ALL)
            column, rows = binary(values, offsets), len(offsets) - 1
        parts: list[ScanPart] = [ScannedRows([column], rows, 0, nbytes=nbytes)] if rows else []
        if rows == hints.most and not problem and used < len(data):
            return ScanResult(parts, used, more=True)
        left = None if hints.left is None else hints.left - used
        what = self._wrong(data[used:], problem, hints.final, left)
        if what is None:
            return ScanResult(parts, used)
        stop = used + _whole(data[used:]) if problem == WRONG_DATA else len(data)
        parts.append(Bad(what, used, stop, lost=problem != WRONG_DATA, ends=True))
        return ScanResult(parts, stop if problem == WRONG_DATA else used)

    def pick(self, parts: list[Bytes], which: Offsets, bounds: Offsets) -> ScannedRows | None:
        found = _native.unframe_at(parts, which, bounds)
        return None if found is None else ScannedRows([binary(*found)], len(which), 0)

    def scan_files(self, data: bytes, ends: Offsets) -> tuple[ScannedRows, Offsets] | None:
        values, offsets, used, problem = _native.unframe(data, 0, ALL, ALL)
        stops = offsets + (HEADER + FOOTER) * np.arange(len(offsets))
        if problem or used < len(data):
            return None
        counts = np.searchsorted(stops, ends)
        if (stops[counts] != ends).any():
            return None
        return ScannedRows([binary(values, offsets)], len(offsets) - 1, 0), counts

    def _wrong(self, data: Bytes, problem: int, final: bool, left: int | None) -> str | None:
        if problem == WRONG_LENGTH:
            return "the checksum of the length is wrong"
        if problem == WRONG_DATA:
            return "the checksum of the data is wrong"
        if final and len(data):
            return f"the file ends {len(data)} bytes into a record" + _claimed_length(data)
        if left is not None and len(data) >= HEADER and _whole(data) > left:
            return f"the file ends {left} bytes into a record" + _claimed_length(data)
        return None

    def first_size(self, head: bytes) -> int:
        return _length(np.frombuffer(head, np.uint8)) if len(head) >= HEADER else 0

    def find_record(self, data: Bytes, start: int, left: int | None) -> tuple[int, int] | None:
        found = _native.resync(data.data, start, -1 if left is None else left)
        if found < 0:
            return None
        needed = _whole(data[found:])
        return found, needed if needed > len(data) - found else 0

    def starts(self, data: Bytes, *, final: bool) -> tuple[Offsets, int, str | None]:
        starts, used, problem = _native.scan_records(data.data, 0, ALL)
        return starts, used, self._wrong(data[used:], problem, final, None)

    @override
    def cut(self, data: Bytes, target: int, *, first: bool, final: bool, prefer: PreferredRows = ANY_ROW) -> CutPoints:
        starts, used, problem = _native.scan_records(data.data, 0, ALL, verify=False)
        if not final and not problem and len(data) - used >= HEADER:  # its header has been verified
            starts = np.append(starts, used)
        rows = choose_cuts(starts, target, prefer)
        return CutPoints(starts[rows], rows, np.zeros_like(rows))

    def doubt(self, head: bytes) -> str:
        if len(head) >= HEADER and _native.scan_records(head, 0, 1)[2] != WRONG_LENGTH:
            return ""  # a record that begins as it should
        packed = likely_packing(head)
        return f"; {remedy(packed)}" if packed else "; is this a TFRecord file at all?"


def _length(data: Bytes) -> int:
    return int.from_bytes(data[:8].tobytes(), "little")


def _whole(data: Bytes) -> int:
    return HEADER + _length(data) + FOOTER


def _claimed_length(data: Bytes) -> str:
    return f" of {_whole(data)}" if len(data) >= HEADER else ""
