"""Infer the types of JSON fields from some objects, and say why an object does not match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.core.types import Component, JsonObject
from headrace.errors import SpecError
from headrace.formats.tables.arrow import is_text
from headrace.formats.tables.choice import OBJECT, Choice, unknown_columns

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = {bool: "bool", int: "number", float: "number", str: "text", list: "list", dict: "object"}
"""JSON's names of types; a column holds one of them, and null."""
INT64, UINT64 = 2**63, 2**64


class Seen:
    """What was seen of one field: the kinds of its values with the first line of each, and what they hold."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.whole: bool = True
        self.low: Component = 0
        self.high: Component = 0
        self.far: int = 0
        self.items: Seen | None = None
        self.fields: dict[str, Seen] = {}

    def add(self, value: object, line: int) -> None:
        """Add a value of this line."""
        if value is None:
            return
        self.kinds.setdefault(NAMES[type(value)], line)
        if type(value) is float:
            self.whole = False
        elif type(value) is int and not self.low <= value <= self.high:
            self.low, self.high, self.far = min(self.low, value), max(self.high, value), line
        elif isinstance(value, list):
            self.items = self.items or Seen()
            for item in value:
                self.items.add(item, line)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.fields.setdefault(key, Seen()).add(item, line)

    def kind(self, name: str, choice: Choice) -> pa.DataType:
        """Return the type that holds all values, or the user's choice. Raise ValueError if there is none."""
        import pyarrow as pa

        target = choice.targets.get(name)
        if len(self.kinds) > 1 or not self.kinds:
            if target is None or target is OBJECT:
                raise ValueError(_unclear(name, self.kinds))
            return target
        (kind,) = self.kinds
        if kind == "object":
            kept = {key: f"{name}.{key}" for key in self.fields if f"{name}.{key}" not in choice.exclude}
            return pa.struct([pa.field(key, self.fields[key].kind(path, choice)) for key, path in kept.items()])
        if kind == "list":
            known = target is not None and target is not OBJECT and pa.types.is_nested(target)
            return target if known else pa.list_((self.items or Seen()).kind(name, choice))
        if kind == "number" and self.whole:
            return self._integer(name, target)
        return {"bool": pa.bool_(), "number": pa.float64(), "text": pa.string()}[kind]

    def as_it_is(self, name: str, choice: Choice) -> bool:
        """Return whether a column is read as objects, or as the text of whatever it holds."""
        target = choice.targets.get(name)
        any_kind = len(self.kinds) > 1 or "list" in self.kinds or "object" in self.kinds
        return target is OBJECT or (target is not None and is_text(target) and any_kind)

    def paths(self, outer: str = "") -> Iterator[str]:
        """Yield the names of all fields, and of those in them."""
        for key, field in self.fields.items():
            yield outer + key
            yield from field.paths(f"{outer}{key}.")
        if self.items is not None:
            yield from self.items.paths(outer)

    def _integer(self, name: str, target: object) -> pa.DataType:
        import pyarrow as pa

        if target is not None and target is not OBJECT and pa.types.is_integer(target):
            return target
        if self.low >= -INT64 and self.high < INT64:
            return pa.int64()
        if self.low == 0 and self.high < UINT64:
            return pa.uint64()
        if target is None or target is OBJECT:
            far = self.high if self.high >= INT64 else self.low
            raise ValueError(f"column {name!r}, line {self.far + 1}: {_beyond(name, far, 'int64 and uint64')}")
        return target


def infer(objects: Iterable[tuple[int, JsonObject]], choice: Choice) -> pa.Schema:
    """Return the schema of objects, each with its line; null if a column of arbitrary Python objects is needed.

    A column that the user casts is included even if no object has it.
    """
    import pyarrow as pa

    seen = Seen()
    for line, each in objects:
        seen.add(each, line)
    for name in choice.targets:
        if "." not in name:
            seen.fields.setdefault(name, Seen())
    wanted = [*(choice.columns or ()), *choice.fillers]
    known = list(seen.paths())
    missing = [name for name in wanted if name not in known]
    if missing:
        raise SpecError(unknown_columns(missing, known))
    fields = []
    for name, field in seen.fields.items():
        if name not in choice.exclude and (choice.columns is None or name in choice.columns):
            fields.append(pa.field(name, pa.null() if field.as_it_is(name, choice) else field.kind(name, choice)))
    return pa.schema(fields)


def _unclear(name: str, kinds: dict[str, int]) -> str:
    ways = f"exclude=[{name!r}] leaves it out"
    if not kinds:
        return f"column {name!r} has no value in the first lines; cast={{{name!r}: …}} says its dtype, {ways}"
    found = " and ".join(f"{kind} (line {line + 1})" for kind, line in kinds.items())
    whole = name.partition(".")[0]
    return f"column {name!r} holds {found}; cast={{{whole!r}: str}} gives it as text, {ways}"


def _beyond(name: str, value: int, kinds: str) -> str:
    wide = f"np.uint64}} or {{{name!r}: object" if 0 <= value < UINT64 and "uint64" not in kinds else "object"
    return f"{value} is beyond {kinds}; cast={{{name!r}: {wide}}} reads it"


def misfits(value: object, kind: pa.DataType, name: str) -> Iterator[str]:
    """Yield why a value is not of this type: its columns by name, with what can be done."""
    from pyarrow import types as t

    if value is None:
        return
    if t.is_list(kind) and isinstance(value, list):
        for item in value:
            yield from misfits(item, kind.value_type, name)
    elif t.is_struct(kind) and isinstance(value, dict):
        known = {field.name: field.type for field in kind}
        for key, item in value.items():
            if key in known:
                yield from misfits(item, known[key], f"{name}.{key}" if name else key)
    elif t.is_integer(kind) and type(value) is int:
        signed, bits = t.is_signed_integer(kind), kind.bit_width
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
        if not low <= value < high:
            yield f"column {name!r}: {_beyond(name, value, str(kind))}"
    elif not _fits(value, kind):
        found = NAMES[type(value)]
        yield f"column {name!r} holds {found}, expected {kind}; set its type with cast={{{name!r}: …}}"


def _fits(value: object, kind: pa.DataType) -> bool:
    from pyarrow import types as t

    if t.is_floating(kind):
        return type(value) in (int, float)
    if t.is_boolean(kind):
        return isinstance(value, bool)
    if t.is_integer(kind) or t.is_list(kind) or t.is_struct(kind) or t.is_null(kind):
        return False
    return isinstance(value, str) or t.is_decimal(kind)


def unexpected_fields(value: object, kind: pa.DataType, name: str, choice: Choice) -> Iterator[str]:
    """Yield the names of the fields of a value that are neither in this type nor left out by the user."""
    if isinstance(value, list):
        inner = getattr(kind, "value_type", None)
        for item in value if inner is not None else ():
            yield from unexpected_fields(item, inner, name, choice)
    elif isinstance(value, dict):
        yield from _others(value.items(), kind, name, choice)


def unexpected_types(found: pa.DataType, kind: pa.DataType, name: str, choice: Choice) -> Iterator[str]:
    """Yield the same of values of this type."""
    from pyarrow import types as t

    if t.is_list(found) and t.is_list(kind):
        yield from unexpected_types(found.value_type, kind.value_type, name, choice)
    elif t.is_struct(found):
        yield from _others([(field.name, field.type) for field in found], kind, name, choice)


def _others(pairs: Iterable[tuple[str, object]], kind: pa.DataType, name: str, choice: Choice) -> Iterator[str]:
    from pyarrow import types as t

    if not t.is_struct(kind):
        return
    known = {field.name: field.type for field in kind}
    for key, item in pairs:
        path = f"{name}.{key}" if name else key
        if key not in known:
            if path not in choice.exclude:
                yield path
        elif isinstance(item, list | dict):
            yield from unexpected_fields(item, known[key], path, choice)
        elif hasattr(item, "num_fields"):
            yield from unexpected_types(item, known[key], path, choice)
