"""Structures and specs as JSON, and which classes a file may refer to.

A file may name a class, but that has no effect by itself: no module is imported, and no constructor runs that the
program has not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headrace.core.extended import dtype_code, dtype_of
from headrace.core.types import JsonValue
from headrace.errors import NONSENSE, StorageError
from headrace.plan.spec import DatasetSpec, Spec, TensorSpec
from headrace.plan.structure import LEAF, NONE, Structure, in_order, record_fields

_KINDS: dict[str, type] = {"tuple": tuple, "dict": dict}


class Types:
    """The classes that elements may have, besides tuples and dicts.

    Elements of others are rejected, or, with `plainly`, become tuples and dicts; `unknown` are the names of those.
    """

    def __init__(self, known: Iterable[type] = (), *, plainly: bool = False) -> None:
        self._known = {type_name(kind): kind for kind in known}
        self._plainly = plainly
        self.unknown: set[str] = set()

    def check(self, structure: Structure) -> None:
        """Raise for elements that could not be read again."""
        for kind in kinds(structure):
            if not self._plainly and self._known.get(type_name(kind)) is not kind:
                raise StorageError(
                    f"elements of class {kind.__name__} cannot be stored: the functions of this pipeline do not name "
                    f"it, so that a later run would not know it; say types=[{kind.__name__}], or map to a tuple or dict"
                )

    def find(self, name: str, form: str, keys: list[Any]) -> type:
        """Return the class that a file names."""
        kind = self._known.get(name)
        if kind is None:
            if not self._plainly:
                raise StorageError(
                    f"the stored elements are of class {name}, which the functions of this pipeline do not name: "
                    f"say types=[{name.rpartition(':')[2]}]"
                )
            self.unknown.add(name)
            return _KINDS[form]
        fields = getattr(kind, "_fields", None) or record_fields(kind)
        if _form(kind) != form or (fields is not None and list(fields) != keys):
            raise StorageError(f"the stored elements are of class {name} with {keys}, which now has {fields}")
        return kind


def type_name(kind: type) -> str:
    """Return how files name a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def kinds(structure: Structure) -> Iterator[type]:
    """Yield the classes in a structure, beside tuples and dicts."""
    if structure.kind not in (None, type(None), tuple, dict):
        yield structure.kind
    for child in structure.children:
        yield from kinds(child)


def _form(kind: type) -> str:
    return "tuple" if issubclass(kind, tuple) else "dict"


def plain_structure(structure: Structure) -> JsonValue:
    """Return the structure as JSON values."""
    kind = structure.kind
    if kind is None:
        return "leaf"
    if kind is type(None):
        return "none"
    keys = [_plain_key(key) for key in structure.keys]
    written = [structure.keys.index(key) for key in structure.written]
    named = next((name for name, known in _KINDS.items() if kind is known), None)
    return [named or [type_name(kind), _form(kind)], keys, [plain_structure(c) for c in structure.children], written]


class StoredLayout(NamedTuple):
    """A structure, and which of the stored columns its leaves are; None: all in order."""

    structure: Structure
    order: list[int] | None


def structure_of(plain: object, types: Types) -> StoredLayout:
    """Return the structure in a JSON value. Raise StorageError if it holds none."""
    before = len(types.unknown)
    try:
        made = _structure(plain, types)
    except NONSENSE as error:
        raise StorageError(f"it describes no structure of elements: {type(error).__name__}: {error}") from None
    if len(types.unknown) == before:
        return StoredLayout(made, None)
    return StoredLayout(*_in_order(made, 0))


def _in_order(structure: Structure, first: int) -> tuple[Structure, list[int]]:
    """Return the structure with dicts in the order of keys, and the numbers that its leaves had, from `first` on."""
    parts = []
    for child in structure.children:
        parts.append(_in_order(child, first))
        first += child.leaves
    keys = structure.keys
    if structure.kind is None:
        return structure, [first]
    if structure.kind is dict:
        keys = tuple(in_order(keys))
        parts = [parts[structure.keys.index(key)] for key in keys]
    made = Structure(structure.kind, keys, tuple(part for part, _ in parts), structure.written)
    return made, [number for _, numbers in parts for number in numbers]


def _structure(plain: JsonValue, types: Types) -> Structure:
    if plain == "leaf":
        return LEAF
    if plain == "none":
        return NONE
    kind_name, keys, children, written = plain
    named = all(type(key) in (str, int, bool) for key in keys) and len(set(keys)) == len(keys)
    if not named or len(keys) != len(children):
        raise ValueError(f"{len(children)} components called {keys}")
    if sorted(written) not in ([], list(range(len(keys)))):
        raise ValueError(f"components in the order {written}")
    if isinstance(kind_name, str):
        kind = _KINDS[kind_name]
    else:
        name, form = kind_name
        if type(name) is not str or form not in _KINDS:
            raise ValueError(f"a class {kind_name}")
        kind = types.find(name, form, keys)
    parts = tuple(_structure(child, types) for child in children)
    if issubclass(kind, Mapping):
        written = written or range(len(keys))
        return Structure(kind, tuple(keys), parts, tuple(keys[i] for i in written))
    if kind is tuple:
        keys = range(len(parts))
    return Structure(kind, tuple(keys), parts)


def plain_spec(spec: Spec) -> JsonValue:
    """Return the spec as JSON values."""
    if spec.structure is None:
        return None
    if any(isinstance(s, DatasetSpec) for s in spec.leaves):
        raise StorageError(f"datasets inside of elements cannot be stored: {spec}; flat_map or batch them first")
    leaves = [[s.shape, None if s.dtype is None else dtype_code(s.dtype)] for s in spec.leaves]
    return [plain_structure(spec.structure), leaves]


def stored_spec(plain: JsonValue, types: Types) -> Spec:
    """Return the spec in a JSON value. Raise StorageError if it holds none."""
    if plain is None:
        return Spec.UNKNOWN
    try:
        structure, order = structure_of(plain[0], types)
        leaves = [TensorSpec(shape, None if d is None else dtype_of(d)) for shape, d in plain[1]]
        if len(leaves) != structure.leaves:
            raise ValueError(f"{len(leaves)} specs for {structure.leaves} components")
    except NONSENSE as error:
        raise StorageError(f"it describes no spec of elements: {type(error).__name__}: {error}") from None
    return Spec(structure, tuple(leaves if order is None else [leaves[i] for i in order]))


def _plain_key(key: object) -> JsonValue:
    if isinstance(key, str | int):
        return key
    raise StorageError(f"elements with the key {key!r} cannot be stored: keys must be str or int")
