"""CSV files, by the rules of tf.data's CsvDataset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column
from headrace.columns import text_column as as_text
from headrace.columns.arrow_text import binary
from headrace.formats.csv.columns import KINDS, CsvColumn
from headrace.formats.csv.header import QUOTE_INSIDE, UNCLOSED, count_lines, find_header, names_in
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
from headrace.formats.text.format import decode_lines, mark_length
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    import pyarrow as pa

NOT_SPLIT = 5
"""Errors up to this code are of records that could not be split into fields."""
UNESCAPED, TOO_FEW, TOO_MANY, MISSING, NOT_TEXT = 2, 4, 5, 6, 8
MAX_SHOWN_CHARACTERS = 40


@dataclass(frozen=True)
class Csv(Format):
    """One record per row. `select` or `exclude` choose the fields that become columns, `order` arranges them.

    If `heading` is given, a file with another header line is rejected.
    """

    columns: tuple[CsvColumn, ...] = ()
    arranged: Structure = None  # type: ignore[assignment]
    names: tuple[str, ...] | None = None
    header: bool = False
    delimiter: str = ","
    quotes: bool = True
    na: str = ""
    select: tuple[int, ...] | None = None
    exclude: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    heading: tuple[str, ...] | None = None

    is_text = True
    counts_lines = True
    divisible = prefers_rows = True

    @property
    def structure(self) -> Structure:
        return self.arranged

    @property
    def spec(self) -> Spec:
        kinds = [TensorSpec((), c.kind) for c in self.columns]
        return Spec(self.arranged, tuple(kinds[i] for i in self.order or range(len(kinds))))

    @cached_property
    def slots(self) -> list[int]:
        """Return the column of each field of a record: -1 for none, -2 if there is one field too many."""
        if self.select is not None:
            order = {field: column for column, field in enumerate(self.select)}
            return [order.get(field, -1) for field in range(max(self.select) + 1)]
        slots: list[int] = []
        columns = iter(range(len(self.columns)))
        while len(slots) - sum(s < 0 for s in slots) < len(self.columns) or len(slots) <= max(self.exclude, default=-1):
            slots.append(-1 if len(slots) in self.exclude else next(columns, -2))
        return slots

    @cached_property
    def _kinds(self) -> list[tuple[int, Any]]:
        """The kind of each column, as the kernel knows it, and what an empty field means."""
        return [(KINDS[c.kind], c.default) for c in self.columns]

    def _parsed(self, data: Bytes, rows: int, final: bool) -> tuple[list[Any], Offsets, NDArray[np.int64]]:
        return self._cut(data, self._kinds, self.slots, self.select is None, rows, final)

    def records(self, data: Bytes, rows: int, final: bool) -> tuple[Offsets, NDArray[np.int64]]:
        """Return where records begin, however many fields they have, and what is wrong with their quotes."""
        return self._cut(data, [(KINDS["bytes"], b"")], [0], False, rows, final)[1:]

    def _cut(
        self, data: Bytes, columns: list[tuple[int, Any]], slots: list[int], exact: bool, rows: int, final: bool
    ) -> tuple[list[Any], Offsets, NDArray[np.int64]]:
        made = _native.parse_csv(
            data.data, columns, slots, exact, self.delimiter.encode(), self._quote, self.na.encode(), rows, final
        )
        return made[0], made[1], made[2].reshape(-1, 3)

    @property
    def quoted(self) -> bool:
        """Whether quotes mean anything."""
        return self.quotes and self.delimiter != '"'

    @property
    def _quote(self) -> bytes:
        return b'"' if self.quoted else b""

    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        start, final = 0, hints.final
        if hints.first:
            begun = self._begun(data, final)
            if isinstance(begun, ScanResult):
                return begun
            start = begun
        made, starts, problems = self._parsed(data[start:], hints.most, final)
        wrong = self._wrong(problems)
        columns = self._columns(made, len(starts) - 1, wrong)
        found = self._parts(columns, starts + start, wrong, data)
        return found._replace(more=len(starts) - 1 == hints.most and found.used < len(data))

    def _begun(self, data: Bytes, final: bool) -> int | ScanResult:
        """Return where the first row of a file begins, else why it is unknown, or not known yet."""
        start = mark_length(data, final=final)
        if start is None or not self.header:
            return ScanResult([], 0) if start is None else start
        header = find_header(self, data, start, final)
        if header is None:
            return ScanResult([], 0)
        start, stop, reason, lost = header
        if reason is None and self.heading in (None, names_in(data[start:stop], self)):
            return stop
        if self.heading is not None:
            reason, lost = reason or f"its header line names other columns than {', '.join(self.heading)}", True
        # It counts from byte 0, so that a resume at this offset looks for a header again.
        bad = Bad(str(reason), 0, stop, lost, count_lines(data[:start]))
        return ScanResult([bad], 0 if lost else stop, 0 if lost else count_lines(data[:stop]))

    def cut(self, data: Bytes, target: int, *, first: bool, final: bool, prefer: PreferredRows = ANY_ROW) -> CutPoints:
        start, before = 0, 0
        if first:
            begun = self._begun(data, final)
            if isinstance(begun, ScanResult):  # a header that cannot be read is a bad record, and may end the file
                start, before = begun.used, 1
            else:
                start = begun
            if before and not start:
                return CutPoints(*np.empty((3, 0), np.int64))
        lines = count_lines(data[:start])
        made = _native.cut_csv(data, start, target, self.delimiter.encode(), self._quote, before, lines, prefer=prefer)
        return CutPoints(*made)

    def _wrong(self, problems: NDArray[np.int64]) -> dict[int, tuple[int, int]]:
        """For each bad row the error and the field that come first."""
        wrong: dict[int, tuple[int, int]] = {}
        if not len(problems):
            return wrong
        for row, error, field in problems[np.lexsort((problems[:, 2], problems[:, 0]))].tolist():
            wrong.setdefault(row, (error, field))
        return wrong

    def _columns(self, made: list[Any], rows: int, wrong: dict[int, tuple[int, int]]) -> list[Column]:
        columns: list[Column] = []
        for number, (column, values) in enumerate(zip(self.columns, made, strict=True)):
            if column.kind not in ("str", "bytes"):
                columns.append(values)
                continue
            text = binary(*values)
            whole = decode_lines(text, "utf-8") if column.kind == "str" else text
            columns.append(self._some_decoded(text, number, rows, wrong) if whole is None else whole)
        return columns if self.order is None else [columns[i] for i in self.order]

    def _some_decoded(self, text: pa.Array, number: int, rows: int, wrong: dict[int, tuple[int, int]]) -> Column:
        """Return a column in which some fields are no text; their rows are bad."""
        split = [row for row in range(rows) if wrong.get(row, (NOT_SPLIT + 1,))[0] > NOT_SPLIT]
        column = []
        for row, value in zip(split, text.to_pylist(), strict=True):
            try:
                column.append(value.decode())
            except UnicodeDecodeError:
                column.append("")
                if row not in wrong or wrong[row][1] > number:
                    wrong[row] = (NOT_TEXT, number)
        return as_text(column)

    def _parts(
        self, columns: list[Column], starts: Offsets, wrong: dict[int, tuple[int, int]], data: Bytes
    ) -> ScanResult:
        """Runs of good rows, and bad ones between them."""
        rows, used = len(starts) - 1, int(starts[-1])
        parts: list[ScanPart] = []
        row = place = 0  # the number of a row, and its place in the columns
        line = count_lines(data[: int(starts[0])])
        for bad in [*sorted(wrong), rows]:
            if row < bad:
                stop = place + bad - row
                part = columns if stop - place == rows else [c[place:stop] for c in columns]
                parts.append(ScannedRows(part, bad - row, int(starts[row]), line))
                place = stop
            if bad < rows:
                error, field = wrong[bad]
                line += count_lines(data[int(starts[row]) : int(starts[bad])])
                start, stop = int(starts[bad]), int(starts[bad + 1])
                parts.append(Bad(self.reason(error, field, data[start:stop]), start, stop, line=line))
                line += count_lines(data[start:stop])
                place += error > NOT_SPLIT
                row = bad + 1
        line += count_lines(data[int(starts[row]) : used])
        return ScanResult(parts, used, line)

    def reason(self, error: int, field: int, record: Bytes) -> str:
        """Return what is wrong with a record."""
        count = len(self.columns)
        text = record[:MAX_SHOWN_CHARACTERS].tobytes().decode(errors="replace").rstrip("\r\n") + (
            "…" if len(record) > MAX_SHOWN_CHARACTERS else ""
        )
        if error > NOT_SPLIT:
            column = repr(self.names[field]) if self.names else str(field)
            remedy = f"nulls={{{column}: …}} says what stands for it" if self.names else "record_defaults can have one"
            what = {
                MISSING: f"is empty, and has no default ({remedy})",
                NOT_TEXT: "is not utf-8 (dtype bytes reads it as it is)",
            }
            return f"column {column} {what.get(error, f'holds no {self.columns[field].kind}')}: {text!r}"
        what = {
            QUOTE_INSIDE: f"field {field} holds a quote but is not quoted",
            UNESCAPED: f"a quote within field {field} is not doubled",
            UNCLOSED: f"the quotes of field {field} are never closed",
            TOO_FEW: f"{count} fields were expected, there are too few",
            TOO_MANY: f"{count} fields were expected, there are more",
        }
        return f"{what[error]}: {text!r}"
