"""JSON lines: an object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.columns import Column, text_column
from headrace.core.override import override
from headrace.core.types import JsonObject
from headrace.errors import SpecError
from headrace.formats.jsonl.text import BOM, NotAnObjectError, ObjectLines, TwiceError, load_line
from headrace.formats.jsonl.types import misfits, unexpected_fields, unexpected_types
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
from headrace.formats.tables.choice import EVERYTHING, OBJECT, Choice, as_objects, no_value
from headrace.formats.tables.tables import Path, table_columns, table_spec
from headrace.formats.text.format import LF
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    import pyarrow as pa


MAX_BRACKETS = 1000
"""In lines with more brackets Arrow must not infer types: 20,000 lists in each other end the process."""


MAX_TRUSTED_ERRORS = 4
"""After this many rejected lines in one scan, halving the rest finds the others sooner."""
ROW = re.compile(r" in row (\d+)$")
"""The end of an error of Arrow's parser, which counts objects from 0."""


def rejected_line(error: Exception) -> int:
    """Return which line an error is about, as far as it says so; -1 if it does not. It may be another one."""
    if isinstance(error, NotAnObjectError):
        return error.line
    found = ROW.search(str(error))
    return int(found[1]) if found else -1


@dataclass(frozen=True)
class JsonLines(Format):
    """A row a line; lines of nothing but spaces are skipped.

    A column that is null in the schema, and cast, is made of what Python reads.
    """

    schema: pa.Schema = None
    choice: Choice = EVERYTHING

    is_text = True
    counts_lines = True
    divisible = prefers_rows = True

    def __str__(self) -> str:
        kinds = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return ", ".join(filter(None, [f"{{{kinds}}}", str(self.choice), self.compression]))

    @cached_property
    def spec(self) -> Spec:
        return table_spec(self.schema, self.choice)

    @property
    def structure(self) -> Structure:
        found = self.spec.structure
        assert found is not None
        return found

    @cached_property
    def _pythons(self) -> tuple[str, ...]:
        """The columns that Python makes."""
        import pyarrow as pa

        targets = self.choice.targets
        return tuple(f.name for f in self.schema if f.name in targets and pa.types.is_null(f.type))

    @cached_property
    def _typed(self) -> pa.Schema:
        """The columns that Arrow's reader makes."""
        import pyarrow as pa

        return pa.schema([field for field in self.schema if field.name not in self._pythons])

    @cached_property
    def _struct(self) -> pa.DataType:
        import pyarrow as pa

        return pa.struct(list(self.schema))

    def scan(self, data: Bytes, hints: ScanHints) -> ScanResult:
        ends = np.flatnonzero(data == LF) + 1
        more = len(ends) > hints.most
        ends = ends[: hints.most]
        used = len(data) if hints.final and not more else int(ends[-1]) if len(ends) else 0
        if not used:
            return ScanResult([], 0)
        start = len(BOM) if hints.first and data[: len(BOM)].tobytes() == BOM else 0
        if start == used:
            return ScanResult([], used)
        stops = ends if len(ends) and ends[-1] == used else np.append(ends, used)
        lines = ObjectLines.of(data[:used], np.append(start, stops))
        return ScanResult(self._all_parts(lines), used, len(ends), more)

    @override
    def cut(self, data: Bytes, target: int, *, first: bool, final: bool, prefer: PreferredRows = ANY_ROW) -> CutPoints:
        lead = len(BOM) if first and data[: len(BOM)].tobytes() == BOM else 0
        return CutPoints(*_native.cut_json_lines(data, lead, target, prefer=prefer))

    def _all_parts(self, lines: ObjectLines) -> list[ScanPart]:
        """Return the rows of all lines. Errors that say which line was rejected save the search for it."""
        parts: list[ScanPart] = []
        low, high, trusted = 0, len(lines), MAX_TRUSTED_ERRORS
        while low < high and trusted:
            try:
                return [*parts, self._rows(lines, low, high)]
            except (ValueError, SpecError) as error:
                bad = low + rejected_line(error)
            if not low <= bad < high:
                break
            parts += [*self._parts(lines, low, bad), *self._parts(lines, bad, bad + 1)]
            low, trusted = bad + 1, trusted - 1
        return [*parts, *self._parts(lines, low, high)]

    def _rows(self, lines: ObjectLines, low: int, high: int) -> ScannedRows:
        """Return the rows of some lines. Raise ValueError or SpecError if one of them is rejected."""
        return ScannedRows(self._columns(lines, low, high), high - low, lines.start(low), lines.number(low))

    def _parts(self, lines: ObjectLines, low: int, high: int) -> list[ScanPart]:
        """Return the rows of the lines from `low` to `high`. If one of them is rejected, split in halves."""
        if low == high:
            return []
        try:
            return [self._rows(lines, low, high)]
        except (ValueError, SpecError) as error:
            if high - low > 1:
                middle = (low + high) // 2
                return [*self._parts(lines, low, middle), *self._parts(lines, middle, high)]
            reason = self._why(lines.text(low, high).rstrip(), error)
            return [Bad(reason, lines.start(low), lines.stop(low), line=lines.number(low))]

    def _columns(self, lines: ObjectLines, low: int, high: int) -> list[Column]:
        """Return the columns of some lines. Raise ValueError if one of them is wrong."""
        lines.check(low, high)
        content = lines.view(low, high)
        objects: list[Any] | None = None
        if self._pythons:
            objects = self._loaded(lines, low, high)
            table = parse_lines(content, self._typed, "ignore")
        elif self.choice.columns is not None:
            table = parse_lines(content, self._typed, "ignore")
        elif self.choice.exclude:
            table = self._without(lines, low, high)
        else:
            table = parse_lines(content, self._typed, "error")
        if table.num_rows != high - low:
            raise ValueError("there is more than one object on a line")
        ready: dict[Path, Column] = {(n,): self._python_column(n, objects or ()) for n in self._pythons}
        return table_columns(table, self.structure, self.choice, ready, decoded=True)

    def _without(self, lines: ObjectLines, low: int, high: int) -> pa.Table:
        """Return what is left when some fields are left out: they may be of any type, but no others may be there."""
        import pyarrow as pa

        content = lines.view(low, high)
        try:
            if lines.brackets(low, high) <= MAX_BRACKETS:
                table = parse_lines(content, self._typed, "infer")
                if not any(unexpected_types(pa.struct(list(table.schema)), self._struct, "", self.choice)):
                    return table.select(self._typed.names)
        except pa.ArrowInvalid:  # what is left out may be of one type here, of another there
            pass
        self._loaded(lines, low, high)
        return parse_lines(content, self._typed, "ignore")

    def _loaded(self, lines: ObjectLines, low: int, high: int) -> list[Any]:
        """Return the objects. Raise if one has a field that is neither known nor excluded."""
        objects = [load_line(lines.text(i, i + 1)) for i in range(low, high)]
        if self.choice.columns is None:
            for each in objects:
                for name in unexpected_fields(each, self._struct, "", self.choice):
                    raise ValueError(_why_unexpected(name))
        return objects

    def _python_column(self, name: str, objects: Iterable[JsonObject]) -> Column:
        values = [each.get(name) for each in objects]
        if self.choice.targets[name] is OBJECT:
            return as_objects(name, values, self.choice)
        filler = self.choice.fillers.get(name)
        values = [filler if value is None else value for value in values]
        if None in values:
            raise SpecError(no_value(name))
        return text_column([v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values])

    def _why(self, line: bytes, error: Exception) -> str:
        """Say what is wrong with a line, by column if possible."""
        if isinstance(error, SpecError):
            return str(error)
        try:
            value = load_line(line)
        except TwiceError as wrong:
            return str(wrong)
        except ValueError as wrong:
            return f"not JSON: {wrong}"
        if not isinstance(value, dict):
            return "not an object of JSON's"
        said = list(misfits(value, self._struct, ""))
        if self.choice.columns is None:
            said += [_why_unexpected(name) for name in unexpected_fields(value, self._struct, "", self.choice)]
        return said[0] if said else str(error)


def _why_unexpected(name: str) -> str:
    ways = f"cast={{{name!r}: …}} says its dtype, exclude=[{name!r}] leaves it out"
    return f"field {name!r} was not in the first lines; {ways}"


def parse_lines(lines: Bytes, schema: pa.Schema, other_fields: str) -> pa.Table:
    """Return a table of whole lines. Raise ValueError if one of them is wrong."""
    import pyarrow as pa
    import pyarrow.json as pj

    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=other_fields)
    reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    return pj.read_json(pa.BufferReader(pa.py_buffer(lines)), reading, options)
