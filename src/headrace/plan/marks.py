"""Marks: positions of rows, in terms of the plan as written.

A `Mark` is made for every block and links to the marks of the rows it was made of. As a table (`Marks`) it has one
`Position` for each node of the plan that needs one, by the node's number: that is what a stream is opened with, and
what a state holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import index
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, Union, get_args, get_origin, get_type_hints

from headrace.core.override import override
from headrace.core.types import Component, JsonObject, JsonValue, Reduced
from headrace.errors import StateError


@dataclass(slots=True)
class OwnMark:
    """What an operation needs, besides the positions of its inputs, to continue. Subclasses have the fields.

    They are numbers, text, None, tuples of these, marks of nested plans, or values with a `to_json` method.
    """

    rereads: ClassVar[bool] = True
    """Whether input rows after the mark that were used before are re-read to continue."""

    def advance(self, rows: int) -> OwnMark | None:  # noqa: ARG002
        """Return the own mark of the row that comes `rows` later; None if it can only be found by re-reading them."""
        return None

    def moved(self, rows: int, inputs: tuple[Marked, ...]) -> tuple[OwnMark, tuple[Marked, ...]] | None:
        """The own mark of the row that comes `rows` later and the marks of the inputs there, if these are known."""
        later = self.advance(rows)
        return None if later is None else (later, inputs)

    def witness(self) -> OwnMark:
        """Return this mark with what is needed to check that re-read rows are the same, if that is possible."""
        return self

    def to_json(self) -> list[JsonValue]:
        """Return the mark as JSON values."""
        return [_plain(getattr(self, name)) for name in _names(type(self))]  # type: ignore[arg-type]  # a class can be hashed

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return what `to_json` gave; raises StateError for anything else."""
        readers = _readers(cls)  # type: ignore[arg-type]  # a class can be hashed
        if not isinstance(data, list) or len(data) != len(readers):
            raise StateError(f"the state is damaged: {data!r:.80} is no {cls.__name__}")
        return cls(*(read(value) for read, value in zip(readers, data, strict=True)))


@cache
def _names(kind: type[OwnMark]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


Own: TypeAlias = OwnMark | list[Component]
"""An own mark, or its JSON form if its node has not been opened yet."""


class Position(NamedTuple):
    """The position of one node: the row `offset` rows after the one at `own` and its inputs' positions.

    One that is not `rooted` counts from the node's first row. An own mark stays in its JSON form until its node is
    opened.
    """

    ordinal: int
    offset: int
    own: Own | None = None
    rooted: bool = True


Marks: TypeAlias = Mapping[int, Position]
START: Marks = {}
"""The start of every plan."""


class Marked(Protocol):
    """A mark, or its form in a state."""

    def marks(self, *, again: bool = False) -> Marks:
        """Return the positions of all nodes of its plan; `again` if rows after them were used, and will be re-read."""
        ...


class Mark:
    """The position of a row: its ordinal in its node, and how to get there.

    Each row after it `takes` this many consecutive rows of the input, if known.
    """

    __slots__ = ("inputs", "number", "offset", "ordinal", "own", "takes")

    def __init__(
        self,
        number: int,
        ordinal: int,
        offset: int,
        own: Own | None = None,
        inputs: tuple[Marked, ...] = (),
        takes: int | None = None,
    ) -> None:
        self.number: int = number
        self.ordinal: int = ordinal
        self.offset: int = offset
        self.own: Own | None = own
        self.inputs: tuple[Marked, ...] = inputs
        self.takes: int | None = takes

    def later(self, rows: int) -> Mark:
        """Return the mark of the row that comes `rows` after this one."""
        if not rows:
            return self
        return Mark(self.number, self.ordinal + rows, self.offset + rows, self.own, self.inputs, self.takes)

    def marks(self, *, again: bool = False) -> Marks:
        """Return the positions of all nodes that lead to this row.

        Rows that are re-read to skip them may have changed by then. If possible, the position needs no re-reading;
        otherwise it includes a witness, if the operation can give one.
        """
        exact = (self._exact() or self) if self.offset else self
        own, again = exact.own, again or exact.offset > 0
        if again and isinstance(own, OwnMark):
            own = own.witness()
        below = again or (own.rereads if isinstance(own, OwnMark) else own is not None)
        table: dict[int, Position] = {}
        for mark in exact.inputs:
            table.update(mark.marks(again=below))
        table[self.number] = Position(self.ordinal, exact.offset, own, bool(exact.inputs))
        return table

    def _exact(self) -> Mark | None:
        """Return the same position without an offset, None if it can only be found by re-reading rows."""
        if not self.offset:
            return self
        own, inputs = self.own, self.inputs
        if isinstance(own, OwnMark):
            moved = own.moved(self.offset, inputs)
            return None if moved is None else Mark(self.number, self.ordinal, 0, *moved, self.takes)
        if own is not None or self.takes is None or not inputs or type(inputs[0]) is not Mark:
            return None
        below = inputs[0].later(self.offset * self.takes)._exact()
        return None if below is None else Mark(self.number, self.ordinal, 0, None, (below,), self.takes)

    def __reduce__(self) -> Reduced:
        return Mark, (self.number, self.ordinal, self.offset, self.own, self.inputs, self.takes)

    def __repr__(self) -> str:
        return f"Mark({to_json(self.marks())})"


class SavedMark:
    """Positions that were saved, as a mark."""

    __slots__ = ("_marks",)

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def marks(self, *, again: bool = False) -> Marks:  # noqa: ARG002 - a witness is theirs already, if they need one
        """Return these."""
        return self._marks


class Joint(Mark):
    """The marks of several inputs together, for an operation that reads them side by side."""

    __slots__ = ()

    def __init__(self, inputs: Iterable[Marked]) -> None:
        super().__init__(-1, 0, 0, None, tuple(inputs))

    def marks(self, *, again: bool = False) -> Marks:
        """Return the positions of all of them.

        A mark that is still the one of a restored state contains the positions of all others at that time: of each only
        what belongs to its own input counts. Numbers of inputs follow one another.
        """
        table: dict[int, Position] = {}
        before = -1
        for mark in self.inputs:
            last = mark.number if isinstance(mark, Mark) and mark.number >= 0 else None
            found = mark.marks(again=again).items()
            table.update((n, p) for n, p in found if n > before and (last is None or n <= last))
            before = before if last is None else last
        return table

    def __reduce__(self) -> Reduced:
        return Joint, (self.inputs,)


class Nowhere(Mark):
    """The mark of rows that are made of no other rows."""

    __slots__ = ()

    @override
    def later(self, rows: int) -> Mark:
        """Nowhere, still."""
        return self

    @override
    def marks(self, *, again: bool = False) -> Marks:
        """None."""
        return START

    def __reduce__(self) -> str:
        return "NOWHERE"


NOWHERE: Mark = Nowhere(-1, 0, 0)


class At(NamedTuple):
    """Where a node is opened: its own mark, and the positions of its inputs."""

    own: JsonValue = None
    inputs: Marks = START


def to_json(marks: Marks) -> JsonObject:
    """Return positions as JSON values: the ordinal if that is all, else the ordinal, the offset and the own mark."""
    return {str(number): _position_json(position) for number, position in sorted(marks.items())}


def _position_json(position: Position) -> int | list[Component]:
    own = position.own.to_json() if isinstance(position.own, OwnMark) else position.own
    if own is None:
        return [position.ordinal, position.offset] if position.rooted else position.ordinal
    return [position.ordinal, position.offset, own, position.rooted]


def from_json(data: object) -> Marks:
    """Return what `to_json` gave; raises StateError for anything else."""
    if not isinstance(data, dict):
        raise StateError(f"the state is damaged: {data!r:.80} are no positions")
    return {_number(name): _position(entry) for name, entry in data.items()}


def _number(name: object) -> int:
    if not isinstance(name, str) or not name.isdecimal():
        raise StateError(f"the state is damaged: {name!r:.80} is no number of an operation")
    return int(name)


def _position(entry: JsonValue) -> Position:
    if is_count(entry):
        return Position(entry, entry, None, rooted=False)
    if isinstance(entry, list) and len(entry) in (2, 4) and is_count(entry[0]) and is_count(entry[1]):
        own, rooted = entry[2:] or (None, True)
        if isinstance(own, list | None) and isinstance(rooted, bool):
            return Position(entry[0], entry[1], own, rooted)
    raise StateError(f"the state is damaged: {entry!r:.80} is no position")


def is_count(value: object) -> bool:
    """Return whether this can be a number of rows, as JSON values."""
    return type(value) is int and 0 <= value < 1 << 63


def _plain(value: Any) -> JsonValue:
    """Return a field of an own mark as JSON values."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, Mark | SavedMark):
        return to_json(value.marks())
    if isinstance(value, float):
        return float(value).hex()  # hexadecimal keeps every bit, and values that JSON lacks, such as infinity
    return value.to_json() if hasattr(value, "to_json") else index(value)


_Reader: TypeAlias = Callable[[Any], Any]


@cache
def _readers(kind: type) -> list[_Reader]:
    hints = get_type_hints(kind)
    return [_reader(hints[f.name]) for f in fields(kind)]


def _reader(hint: object) -> _Reader:
    """Return a function that reads a field of this type from JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = [_reader(a) for a in arguments if a is not NoneType]
        if len(inner) == 1 and NoneType in arguments:
            return lambda data: None if data is None else inner[0](data)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        each = _reader(arguments[0])
        return lambda data: tuple(each(item) for item in _check_kind(data, list))
    if origin is tuple:
        several = [_reader(a) for a in arguments]
        return lambda data: tuple(
            read(item) for read, item in zip(several, _check_size(data, len(several)), strict=True)
        )
    if hint in (int, bool, str):
        return lambda data: _check_kind(data, hint)
    if hint is float:
        return _float
    if hint is Marked:
        return lambda data: SavedMark(from_json(data))
    if hasattr(hint, "from_json"):
        read: _Reader = hint.from_json
        return read
    raise TypeError(f"an own mark cannot hold a {hint}")


def _float(data: object) -> float:
    try:
        return float.fromhex(_check_kind(data, str))
    except (ValueError, OverflowError):
        raise StateError(f"the state is damaged: {data!r:.80} in place of a number") from None


def _check_kind(data: object, kind: type) -> JsonValue:
    if type(data) is not kind:
        raise StateError(f"the state is damaged: {data!r:.80} in place of a {kind.__name__}")
    return data


def _check_size(data: object, size: int) -> list[Component]:
    found: list[Component] = _check_kind(data, list)
    if len(found) != size:
        raise StateError(f"the state is damaged: {len(found)} values in place of {size}")
    return found
