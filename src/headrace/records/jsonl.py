"""JSON lines: an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.block import Column, text
from headrace.errors import SpecError
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.records.choice import EVERYTHING, OBJECT, Choice, as_objects, no_value
from headrace.records.files import Bytes
from headrace.records.format import Bad, Format, Look, Offsets, Part, Rows, Scan
from headrace.records.json_types import misfits, unexpected, unexpected_types
from headrace.records.tables import Path, rows_of, spec_of
from headrace.records.text import CR, LF

if TYPE_CHECKING:
    import pyarrow as pa

BOM = b"\xef\xbb\xbf"


class TwiceError(ValueError):
    """An object has two fields of one name."""


@dataclass(frozen=True)
class JsonLines(Format):
    """A row a line; lines of nothing but spaces are passed over.

    A column that is null in the schema, and cast, is made of what Python reads.
    """

    schema: pa.Schema = None
    choice: Choice = EVERYTHING

    counts_lines = True

    def __str__(self) -> str:
        kinds = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return ", ".join(filter(None, [f"{{{kinds}}}", str(self.choice), self.compression]))

    @cached_property
    def spec(self) -> Spec:
        return spec_of(self.schema, self.choice)

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

    def scan(self, data: Bytes, look: Look) -> Scan:
        ends = np.flatnonzero(data == LF) + 1
        used = len(data) if look.final else int(ends[-1]) if len(ends) else 0
        if not used:
            return Scan([], 0)
        start = len(BOM) if look.first and data[: len(BOM)].tobytes() == BOM else 0
        if start == used:
            return Scan([], used)
        stops = ends if len(ends) and ends[-1] == used else np.append(ends, used)
        lines = Lines.of(data[:used].tobytes(), np.append(start, stops))
        return Scan(self._parts(lines, 0, len(lines)), used, len(ends))

    def _parts(self, lines: Lines, low: int, high: int) -> list[Part]:
        """Rows of the lines from `low` to `high`; where one of them is refused, by halves."""
        if low == high:
            return []
        try:
            columns = self._columns(lines, low, high)
            return [Rows(columns, high - low, lines.start(low), lines.number(low))]
        except (ValueError, SpecError) as error:
            if high - low > 1:
                middle = (low + high) // 2
                return [*self._parts(lines, low, middle), *self._parts(lines, middle, high)]
            reason = self._why(lines.text(low, high).rstrip(), error)
            return [Bad(reason, lines.start(low), lines.stop(low), line=lines.number(low))]

    def _columns(self, lines: Lines, low: int, high: int) -> list[Column]:
        """The columns of some lines; raises ValueError where one of them is wrong."""
        lines.check(low, high)
        content = lines.text(low, high)
        objects: list[Any] | None = None
        if self._pythons:
            objects = self._loaded(lines, low, high)
            table = parsed(content, self._typed, "ignore")
        elif self.choice.columns is not None:
            table = parsed(content, self._typed, "ignore")
        elif self.choice.exclude:
            table = self._without(lines, low, high)
        else:
            table = parsed(content, self._typed, "error")
        if table.num_rows != high - low:
            raise ValueError("there is more than one object on a line")
        ready: dict[Path, Column] = {(n,): self._python_column(n, objects or ()) for n in self._pythons}
        return rows_of(table, self.structure, self.choice, ready)

    def _without(self, lines: Lines, low: int, high: int) -> pa.Table:
        """What is left when some fields are left out: they may be of any type, but no others may be there."""
        import pyarrow as pa

        content = lines.text(low, high)
        try:
            table = parsed(content, self._typed, "infer")
            if not any(unexpected_types(pa.struct(list(table.schema)), self._struct, "", self.choice)):
                return table.select(self._typed.names)
        except pa.ArrowInvalid:  # what is left out may be of one type here, of another there
            pass
        self._loaded(lines, low, high)
        return parsed(content, self._typed, "ignore")

    def _loaded(self, lines: Lines, low: int, high: int) -> list[Any]:
        """The objects themselves; raises where one has a field that is neither known nor left out."""
        objects = [loaded(lines.text(i, i + 1)) for i in range(low, high)]
        if self.choice.columns is None:
            for each in objects:
                for name in unexpected(each, self._struct, "", self.choice):
                    raise ValueError(_unexpected(name))
        return objects

    def _python_column(self, name: str, objects: Iterable[dict[str, Any]]) -> Column:
        values = [each.get(name) for each in objects]
        if self.choice.targets[name] is OBJECT:
            return as_objects(name, values, self.choice)
        filler = self.choice.fillers.get(name)
        values = [filler if value is None else value for value in values]
        if None in values:
            raise SpecError(no_value(name))
        return text([v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values])

    def _why(self, line: bytes, error: Exception) -> str:
        """What is wrong with a line, by column where that can be told."""
        if isinstance(error, SpecError):
            return str(error)
        try:
            value = loaded(line)
        except TwiceError as wrong:
            return str(wrong)
        except ValueError as wrong:
            return f"not JSON: {wrong}"
        if not isinstance(value, dict):
            return "not an object of JSON's"
        said = list(misfits(value, self._struct, ""))
        if self.choice.columns is None:
            said += [_unexpected(name) for name in unexpected(value, self._struct, "", self.choice)]
        return said[0] if said else str(error)


def _unexpected(name: str) -> str:
    ways = f"cast={{{name!r}: …}} says its dtype, exclude=[{name!r}] leaves it out"
    return f"field {name!r} was not in the first lines; {ways}"


class Lines:
    """The lines of some bytes that are not blank: where each begins and ends, and its number among all."""

    def __init__(self, raw: bytes, starts: Offsets, stops: Offsets, numbers: Offsets) -> None:
        self._raw = raw
        self._starts, self._stops, self._numbers = starts, stops, numbers
        self._whole = self._braced()

    @classmethod
    def of(cls, raw: bytes, cuts: Offsets) -> Lines:
        """Lines between these cuts."""
        starts, stops = cuts[:-1], cuts[1:]
        doubtful = np.flatnonzero(np.frombuffer(raw, np.uint8)[starts] <= ord(" "))
        blank = [i for i in doubtful.tolist() if not raw[starts[i] : stops[i]].strip()]
        kept = np.delete(np.arange(len(starts)), blank)
        return cls(raw, starts[kept], stops[kept], kept)

    def _braced(self) -> NDArray[np.bool_]:
        """Which lines begin and end as an object does."""
        content = np.frombuffer(self._raw, np.uint8)
        last = self._stops - 1
        for end in (LF, CR):
            last = last - (content[last] == end)  # a line that is not blank has something before its end
        whole: NDArray[np.bool_] = (content[self._starts] == ord("{")) & (content[last] == ord("}"))
        for i in np.flatnonzero(~whole).tolist():
            line = self.text(i, i + 1).strip()
            whole[i] = line.startswith(b"{") and line.endswith(b"}")
        return whole

    def __len__(self) -> int:
        return len(self._starts)

    def start(self, line: int) -> int:
        """Where a line begins."""
        return int(self._starts[line])

    def stop(self, line: int) -> int:
        """Where a line ends, its end included."""
        return int(self._stops[line])

    def number(self, line: int) -> int:
        """The number of a line among all, blank ones included."""
        return int(self._numbers[line])

    def text(self, low: int, high: int) -> bytes:
        """The bytes of some lines, and of blank ones between them."""
        return self._raw[self.start(low) : self.stop(high - 1)]

    def check(self, low: int, high: int) -> None:
        """Raise unless each line begins and ends as an object does: then none of them goes on in the next."""
        if not self._whole[low:high].all():
            raise ValueError("not an object of JSON's on one line")


def loaded(line: bytes) -> Any:
    """What Python makes of a line; raises ValueError where it is no JSON, or a field comes twice."""
    return json.loads(line, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({repr(name) for name in names if names.count(name) > 1})
        raise TwiceError(f"more than one field is called {', '.join(twice)}")
    return made


def parsed(lines: bytes, schema: pa.Schema, other_fields: str) -> pa.Table:
    """A table of whole lines; raises ValueError where one of them is wrong."""
    import pyarrow as pa
    import pyarrow.json as pj

    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=other_fields)
    reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    return pj.read_json(pa.BufferReader(lines), reading, options)


def first_objects(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of the first lines, each with its line; those that are wrong are told when they are read."""
    for number, line in enumerate(data.removeprefix(BOM).split(b"\n")):
        if line.strip():
            try:
                made = loaded(line)
            except ValueError:
                continue
            if isinstance(made, dict):
                yield number, made
