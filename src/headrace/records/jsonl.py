"""JSON lines: an object a line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import SpecError
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.records.files import Bytes
from headrace.records.format import Bad, Format, Look, Part, Rows, Scan
from headrace.records.tables import rows_of, spec_of
from headrace.records.text import LF

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class JsonLines(Format):
    """A row a line; lines of nothing but spaces are passed over."""

    schema: pa.Schema = None
    nulls: tuple[tuple[str, Any], ...] = ()

    is_text = True
    counts_lines = True

    @property
    def spec(self) -> Spec:
        return spec_of(self.schema)

    @property
    def structure(self) -> Structure:
        found = self.spec.structure
        assert found is not None
        return found

    def scan(self, data: Bytes, look: Look) -> Scan:
        ends = np.flatnonzero(data == LF) + 1
        used = len(data) if look.final else int(ends[-1]) if len(ends) else 0
        if not used:
            return Scan([], 0)
        starts = [0, *ends.tolist()]
        starts = starts if starts[-1] == used else [*starts, used]
        raw = data[:used].tobytes()
        return Scan(self._parts(raw, starts, 0, len(starts) - 1), used, len(ends))

    def _parts(self, raw: bytes, starts: list[int], low: int, high: int) -> list[Part]:
        """Rows of the lines from `low` to `high`; where Arrow's reader refuses them, by halves."""
        part = raw[starts[low] : starts[high]]
        if not part.strip():
            return []
        try:
            table = parsed(part, self.schema)
            if table.num_rows != high - low:  # blank lines, or objects over several lines
                raise ValueError
            return [Rows(rows_of(table, self.structure, dict(self.nulls)), table.num_rows, starts[low], low)]
        except (ValueError, SpecError) as error:
            if high - low > 1:
                middle = (low + high) // 2
                return [*self._parts(raw, starts, low, middle), *self._parts(raw, starts, middle, high)]
            return [Bad(_why(part, error), starts[low], starts[high], line=low)]


def parsed(lines: bytes, schema: pa.Schema | None) -> pa.Table:
    """A table of whole lines; raises ValueError where one of them is wrong."""
    import pyarrow as pa
    import pyarrow.json as pj

    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error" if schema else "infer")
    reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    return pj.read_json(pa.BufferReader(lines), reading, options)


def _why(line: bytes, error: Exception) -> str:
    try:
        json.loads(line)
    except ValueError as wrong:
        return f"not JSON: {wrong}"
    return str(error)
