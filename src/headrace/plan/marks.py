"""Marks: where a row lies, in words of the plan as written.

A `Mark` is made for every block and links to the marks of the rows it was made of. As a table (`Marks`) it has one
`Position` for each node of the plan that needs one, by the node's number: that is what a stream is opened with, and
what a state holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import index
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, Union, get_args, get_origin, get_type_hints

from headrace.errors import StateError


@dataclass(slots=True)
class OwnMark:
    """What an operation must know, besides where its inputs stand, to go on: a subclass has the fields.

    They are numbers, text, None, tuples of these, marks of nested plans, or values that know their `to_json`.
    """

    rereads: ClassVar[bool] = True
    """Whether rows of its inputs that made rows before are read again, behind the mark, to go on."""

    def advance(self, rows: int) -> OwnMark | None:  # noqa: ARG002
        """The own mark of the row that comes `rows` later; None where it is found by reading them again alone."""
        return None

    def witness(self) -> OwnMark:
        """The same, with what tells whether rows that are read again are those of before, where that can be asked."""
        return self

    def to_json(self) -> list[Any]:
        """As JSON holds it."""
        return [_plain(getattr(self, name)) for name in _names(type(self))]  # type: ignore[arg-type]  # a class can be hashed

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """What `to_json` gave; raises StateError for anything else."""
        readers = _readers(cls)  # type: ignore[arg-type]  # a class can be hashed
        if not isinstance(data, list) or len(data) != len(readers):
            raise StateError(f"the state is damaged: {data!r:.80} is no {cls.__name__}")
        return cls(*(read(value) for read, value in zip(readers, data, strict=True)))


@cache
def _names(kind: type[OwnMark]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


Own: TypeAlias = OwnMark | list[Any]
"""An own mark, or what a state says of one whose node nobody has opened yet."""


class Position(NamedTuple):
    """Where one node stands: the row `offset` rows after the one that `own` and its inputs' positions lead to.

    One that is not `rooted` counts from the node's first row. As JSON an own mark stays so until its node is opened.
    """

    ordinal: int
    offset: int
    own: Own | None = None
    rooted: bool = True


Marks: TypeAlias = Mapping[int, Position]
START: Marks = {}
"""Where every plan begins."""


class Marked(Protocol):
    """A mark, or what a state says of one."""

    def marks(self, *, again: bool = False) -> Marks:
        """The positions of all nodes of its plan; `again` where rows behind them were used, and are to be once more."""
        ...


class Mark:
    """Where a row lies: the ordinal it has in its node, and how to get there.

    Each row after it `takes` so many rows of the input, one after another, where that is known.
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
        self.number = number
        self.ordinal = ordinal
        self.offset = offset
        self.own = own
        self.inputs = inputs
        self.takes = takes

    def later(self, rows: int) -> Mark:
        """The mark of the row that comes `rows` after this one."""
        if not rows:
            return self
        return Mark(self.number, self.ordinal + rows, self.offset + rows, self.own, self.inputs, self.takes)

    def marks(self, *, again: bool = False) -> Marks:
        """The positions of all nodes that lead to this row.

        Rows that are read again to pass them over may be others by then: where it can be said how to do without, that
        is what is said, else whoever can is asked for a witness.
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
        """The same place without an offset, None where it is found by reading rows again alone."""
        if not self.offset:
            return self
        own, inputs = self.own, self.inputs
        if isinstance(own, OwnMark):
            later = own.advance(self.offset)
            return None if later is None else Mark(self.number, self.ordinal, 0, later, inputs, self.takes)
        if own is not None or self.takes is None or not inputs or type(inputs[0]) is not Mark:
            return None
        below = inputs[0].later(self.offset * self.takes)._exact()
        return None if below is None else Mark(self.number, self.ordinal, 0, None, (below,), self.takes)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return Mark, (self.number, self.ordinal, self.offset, self.own, self.inputs, self.takes)

    def __repr__(self) -> str:
        return f"Mark({to_json(self.marks())})"


class SavedMark:
    """Positions that were saved, as a mark."""

    __slots__ = ("_marks",)

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def marks(self, *, again: bool = False) -> Marks:  # noqa: ARG002 - a witness is theirs already, if they need one
        """These."""
        return self._marks


class Joint(Mark):
    """The marks of several inputs together, where an operation reads them side by side."""

    __slots__ = ()

    def __init__(self, inputs: Iterable[Marked]) -> None:
        super().__init__(-1, 0, 0, None, tuple(inputs))

    def marks(self, *, again: bool = False) -> Marks:
        """The positions of all of them.

        A mark that is still the one of a restored state knows where all others stood then: of each only what belongs to
        its own input counts. Numbers of inputs follow one another.
        """
        table: dict[int, Position] = {}
        before = -1
        for mark in self.inputs:
            last = mark.number if isinstance(mark, Mark) and mark.number >= 0 else None
            found = mark.marks(again=again).items()
            table.update((n, p) for n, p in found if n > before and (last is None or n <= last))
            before = before if last is None else last
        return table

    def __reduce__(self) -> tuple[Any, ...]:
        return Joint, (self.inputs,)


class Nowhere(Mark):
    """The mark of rows that are made of no other rows."""

    __slots__ = ()

    def later(self, rows: int) -> Mark:  # noqa: ARG002
        """Nowhere, still."""
        return self

    def marks(self, *, again: bool = False) -> Marks:  # noqa: ARG002
        """None."""
        return START

    def __reduce__(self) -> str:
        return "NOWHERE"


NOWHERE: Mark = Nowhere(-1, 0, 0)


class At(NamedTuple):
    """Where a node is opened: with its own mark, its inputs at these positions."""

    own: Any = None
    inputs: Marks = START


def to_json(marks: Marks) -> dict[str, Any]:
    """Positions as JSON holds them: an ordinal where that is all, else the ordinal, the offset and the own mark."""
    return {str(number): _position_json(position) for number, position in sorted(marks.items())}


def _position_json(position: Position) -> int | list[Any]:
    own = position.own.to_json() if isinstance(position.own, OwnMark) else position.own
    if own is None:
        return [position.ordinal, position.offset] if position.rooted else position.ordinal
    return [position.ordinal, position.offset, own, position.rooted]


def from_json(data: Any) -> Marks:
    """What `to_json` gave; raises StateError for anything else."""
    if not isinstance(data, dict):
        raise StateError(f"the state is damaged: {data!r:.80} are no positions")
    return {_number(name): _position(entry) for name, entry in data.items()}


def _number(name: Any) -> int:
    if not isinstance(name, str) or not name.isdecimal():
        raise StateError(f"the state is damaged: {name!r:.80} is no number of an operation")
    return int(name)


def _position(entry: Any) -> Position:
    if is_count(entry):
        return Position(entry, entry, None, rooted=False)
    if isinstance(entry, list) and len(entry) in (2, 4) and is_count(entry[0]) and is_count(entry[1]):
        own, rooted = entry[2:] or (None, True)
        if isinstance(own, list | None) and isinstance(rooted, bool):
            return Position(entry[0], entry[1], own, rooted)
    raise StateError(f"the state is damaged: {entry!r:.80} is no position")


def is_count(value: Any) -> bool:
    """Whether this can be a number of rows, as JSON holds it."""
    return type(value) is int and 0 <= value < 1 << 63


def _plain(value: Any) -> Any:
    """A field of an own mark as JSON holds it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, Mark | SavedMark):
        return to_json(value.marks())
    if isinstance(value, float):
        return float(value).hex()  # every bit, and what JSON has no word for
    return value.to_json() if hasattr(value, "to_json") else index(value)


class OwnValue(Protocol):
    """What may stand in an own mark besides numbers, text and tuples."""

    def to_json(self) -> Any:
        """As JSON holds it."""
        ...

    @classmethod
    @abstractmethod
    def from_json(cls, data: Any) -> Self:
        """What `to_json` gave."""
        ...


_Reader: TypeAlias = Callable[[Any], Any]


@cache
def _readers(kind: Any) -> list[_Reader]:
    hints = get_type_hints(kind)
    return [_reader(hints[f.name]) for f in fields(kind)]


def _reader(hint: Any) -> _Reader:
    """What reads a field of this type from JSON."""
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


def _float(data: Any) -> float:
    try:
        return float.fromhex(_check_kind(data, str))
    except (ValueError, OverflowError):
        raise StateError(f"the state is damaged: {data!r:.80} where a number belongs") from None


def _check_kind(data: Any, kind: type) -> Any:
    if type(data) is not kind:
        raise StateError(f"the state is damaged: {data!r:.80} where a {kind.__name__} belongs")
    return data


def _check_size(data: Any, size: int) -> list[Any]:
    found: list[Any] = _check_kind(data, list)
    if len(found) != size:
        raise StateError(f"the state is damaged: {len(found)} values where {size} belong")
    return found
