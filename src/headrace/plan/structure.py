"""The shape of an element: tuples, dicts, namedtuples, dataclasses and None around leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, repeat
from typing import Any

from headrace.core.types import Component, Nested


@dataclass(frozen=True)
class Structure:
    """A tree of components. `kind` is None for a leaf, else the type that is rebuilt around the children.

    Children of a dict stand in the order of its keys (as in tf.data), so that dicts written in another order agree.
    """

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    written: tuple[Any, ...] = field(default=(), compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.keys, self.children))

    @cached_property
    def leaves(self) -> int:
        """Return how many leaves the tree has."""
        return 1 if self.kind is None else sum(child.leaves for child in self.children)

    @cached_property
    def unpacks(self) -> bool:
        """Whether a user function gets the components as separate arguments: plain tuples only."""
        return self.kind is tuple

    @cached_property
    def flat(self) -> bool:
        """Whether there are only leaves below."""
        return all(child.kind is None for child in self.children)

    def leaves_in(self, value: Nested) -> list[Component]:
        """Return the leaves of a value that has this structure."""
        if self.kind is dict and self.flat:
            return [value[key] for key in self.keys]
        return flatten(value)[1]

    @cached_property
    def custom(self) -> bool:
        """Return whether it contains users' classes, whose constructors may raise."""
        return self.kind not in (None, NoneType, tuple, dict) or any(child.custom for child in self.children)

    def pack(self, leaves: Iterable[object]) -> Nested:
        """Return the element of this structure with these leaves."""
        try:
            return self._build(iter(leaves))
        except StopIteration as stop:  # of a user's constructor: it must not end the iteration over elements
            raise RuntimeError(f"the constructor of {self} raised StopIteration") from stop

    def around(self, things: Iterable[object]) -> Nested:
        """Return a value of this structure that holds something else than components: no constructor of a user is
        asked.
        """
        return self._around(iter(things))

    def _around(self, things: Iterator[object]) -> Nested:
        kind = self.kind
        if kind is None or not self.custom:
            return self._build(things)
        parts = [child._around(things) for child in self.children]
        if issubclass(kind, tuple):
            return tuple.__new__(kind, parts)
        if issubclass(kind, Mapping):
            try:
                return self._mapping(kind, parts)
            except Exception:  # a mapping all the same
                return self._mapping(dict, parts)
        made = object.__new__(kind)
        for name, part in zip(self.keys, parts, strict=True):
            object.__setattr__(made, name, part)
        return made

    def _build(self, leaves: Iterator[Any]) -> Nested:
        kind = self.kind
        if kind is None:
            return next(leaves)
        if kind is NoneType:
            return None
        parts = list(islice(leaves, len(self.children))) if self.flat else [c._build(leaves) for c in self.children]
        if kind is tuple:
            return tuple(parts)
        if issubclass(kind, Mapping):
            return self._mapping(kind, parts)
        if issubclass(kind, tuple):
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        return kind(**dict(zip(self.keys, parts, strict=True)))

    def _mapping(self, kind: type, parts: list[Component]) -> Nested:
        items = dict(zip(self.keys, parts, strict=True))
        ordered = {key: items[key] for key in self.written}
        if kind is dict:
            return ordered
        try:
            return kind(ordered)
        except TypeError:  # e.g. a defaultdict, whose constructor takes another argument first
            return ordered

    def rows(self, columns: list[Iterator[Any]], count: int) -> Iterator[Any]:
        """Yield the elements whose leaves the `columns` iterate over."""
        if self.kind is None:
            return columns[0]
        if not columns:
            return map(self.pack, repeat((), count))
        if self.kind is tuple and self.flat:
            return zip(*columns, strict=True)
        if self.kind is dict and self.flat:
            items = dict(zip(self.keys, columns, strict=True))
            return map(dict, map(zip, repeat(self.written), zip(*map(items.get, self.written), strict=True)))
        return map(self.pack, zip(*columns, strict=True))

    @cached_property
    def components(self) -> tuple[tuple[Any, ...] | None, tuple[int, ...]]:
        """Return the keys of a flat dict as written, None for a tuple, and which leaf each component is."""
        if self.kind is not dict:
            return None, tuple(range(len(self.children)))
        number = {key: leaf for leaf, key in enumerate(self.keys)}
        return self.written, tuple(number[key] for key in self.written)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """A name for each leaf, for messages: `[0]`, `['x']`, `.label`."""
        if self.kind is None:
            return ("",)
        steps = [f".{k}" if self._named else f"[{k!r}]" for k in self.keys]
        return tuple(step + path for step, child in zip(steps, self.children, strict=True) for path in child.paths)

    @property
    def names(self) -> list[Component]:
        """The keys of all mappings in it."""
        mapping = self.kind is not None and issubclass(self.kind, Mapping)
        return [*(self.written if mapping else ()), *(name for child in self.children for name in child.names)]

    @property
    def _named(self) -> bool:
        return self.kind is not None and not issubclass(self.kind, Mapping) and self.kind is not tuple

    def text(self, leaves: Iterable[str], *, join: Callable[[list[str]], str] = ", ".join) -> str:
        """Return the structure as text, with these texts at its leaves; users' classes are named, not constructed.

        `join` puts the texts of the outermost components together.
        """
        return self._text(iter(leaves), join)

    def _text(self, leaves: Iterator[str], join: Callable[[list[str]], str] = ", ".join) -> str:
        kind = self.kind
        if kind is None:
            return next(leaves)
        parts = [child._text(leaves) for child in self.children]
        if kind is NoneType:
            return "None"
        if kind is tuple:
            return f"({parts[0]},)" if len(parts) == 1 else f"({join(parts)})"
        if issubclass(kind, Mapping):
            shown = dict(zip(self.keys, parts, strict=True))
            return "{" + join([f"{key!r}: {shown[key]}" for key in self.written]) + "}"
        return f"{kind.__name__}({join([f'{k}={p}' for k, p in zip(self.keys, parts, strict=True)])})"

    def __str__(self) -> str:
        return self.text("*" for _ in range(self.leaves))


NoneType: type[None] = type(None)
LEAF = Structure()
NONE = Structure(NoneType)


def tuple_of(children: Iterable[Structure]) -> Structure:
    """Return the structure of a tuple of these."""
    children = tuple(children)
    return Structure(tuple, tuple(range(len(children))), children)


def flatten(value: object) -> tuple[Structure, list[Component]]:
    """Return the structure of `value` and its leaves."""
    leaves: list[Component] = []
    return _flatten(value, leaves), leaves


def _flatten(value: Nested, leaves: list[Component]) -> Structure:
    kind = type(value)
    if kind is tuple:
        return Structure(tuple, tuple(range(len(value))), tuple(_flatten(v, leaves) for v in value))
    if value is None:
        return NONE
    if isinstance(value, Mapping):
        keys = tuple(in_order(value))
        return Structure(kind, keys, tuple(_flatten(value[k], leaves) for k in keys), tuple(value))
    if isinstance(value, tuple):
        names = tuple(getattr(value, "_fields", range(len(value))))
        return Structure(kind, names, tuple(_flatten(v, leaves) for v in value))
    members = record_fields(kind)
    if members is not None:
        return Structure(kind, members, tuple(_flatten(getattr(value, n), leaves) for n in members))
    leaves.append(value)
    return LEAF


def in_order(keys: Iterable[object]) -> list[Component]:
    """Return the keys of a dict in the order in which its components stand."""
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=lambda k: (type(k).__name__, repr(k)))


def is_record(kind: type) -> bool:
    """Return whether this is a dataclass or attrs class, whose fields are components."""
    return record_fields(kind) is not None


_records: dict[type, tuple[str, ...] | None] = {}


def record_fields(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a dataclass or attrs class, None for any other type."""
    try:
        return _records[kind]
    except KeyError:
        names: tuple[str, ...] | None = None
        if dataclasses.is_dataclass(kind) and not getattr(kind, "_headrace_leaf", False):
            names = tuple(f.name for f in dataclasses.fields(kind) if f.init)
        elif hasattr(kind, "__attrs_attrs__"):
            names = tuple(a.name for a in kind.__attrs_attrs__ if a.init)
        _records[kind] = names
        return names
