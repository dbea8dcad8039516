"""What the reference executor's functions share: places, rows, the dispatch, the draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, singledispatch
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np

from headrace.columns.block import element
from headrace.core.keys import ROOT, mix_key
from headrace.core.types import Component, Nested, UserFunction
from headrace.errors import ElementError
from headrace.plan.node import Node
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF, Structure, flatten, tuple_of
from headrace.trace.function import Function

_MASK = 2**64 - 1


@dataclass(frozen=True)
class Place:
    """The path a node is run on."""

    path: int = ROOT
    level: int = 0
    dropped: list[ElementError] = field(default_factory=list, compare=False)
    """The failures that operations dropped because they were in an incomplete group."""
    by_number: bool = False
    """Whether rows are found by number, which such failures do not have."""

    def epoch(self, number: int) -> Place:
        """In another epoch."""
        return replace(self, path=mix_key(self.path, self.level, number) if number else self.path, level=self.level + 1)

    def branch(self, *values: int) -> Place:
        """Under a parent row, or in a second place."""
        return replace(self, path=mix_key(self.path, *values))

    def drop(self, group: Iterable[Row]) -> None:
        """Leave these rows out, because they do not fill a group."""
        self.dropped.extend([row.value for row in group if isinstance(row.value, ElementError)][:1])


@dataclass
class Row:
    """An element or the error in its place, with its id."""

    id: tuple[int, int]
    value: Nested


@singledispatch
def rows(node: Node, at: Place) -> Iterator[Row]:
    """Return the rows of one node, which pulls those of its inputs."""
    raise NotImplementedError(f"the reference executor does not know {type(node).__name__}")


def flushed(node: Node, at: Place) -> Iterator[Row]:
    """Yield the rows of one node, and after them the first failure that was dropped with an incomplete group."""
    apart = at if at.by_number else replace(at, dropped=[])
    yield from rows(node, apart)
    if not at.by_number:
        yield from [Row((at.path, 0), error) for error in apart.dropped[:1]]


def fold_id(id: tuple[int, int], value: int) -> tuple[int, int]:
    """Return the id of a row that has become another."""
    return ((id[0] * 0x9E3779B97F4A7C15 + value) & _MASK, id[1])


@dataclass
class Unmade:
    """The components of an element whose class rejects them: an error when the element is used."""

    structure: Structure
    leaves: list[Component]
    error: Exception


def element_of(structure: Structure, leaves: Iterable[object]) -> Nested:
    """Return the element with these components."""
    leaves = list(leaves)
    try:
        return structure.pack(leaves)
    except Exception as error:
        return Unmade(structure, leaves, error)


def parts_of(value: object) -> tuple[Structure, list[Component]]:
    """Return the structure and the components of an element."""
    return (value.structure, value.leaves) if isinstance(value, Unmade) else flatten(value)


def join_elements(structure: Structure, values: Iterable[object]) -> Nested:
    """Return elements as the components of another one."""
    flat = [parts_of(value) for value in values]
    inner = iter([s for s, _ in flat])
    return element_of(_fill_structure(structure, inner), [leaf for _, leaves in flat for leaf in leaves])


def _fill_structure(structure: Structure, inner: Iterator[Structure]) -> Structure:
    if structure.kind is None:
        return next(inner)
    return replace(structure, children=tuple(_fill_structure(child, inner) for child in structure.children))


def pair(first: object, second: object) -> Nested:
    """Return the tuple of two elements."""
    return join_elements(tuple_of([LEAF, LEAF]), [first, second])


def value_of(value: object) -> Nested:
    """Return a user's value as headrace keeps it."""
    return element_of(*element(value))


def call(fn: UserFunction, value: Nested) -> Nested:
    """Return the user's function on one element."""
    return fn(*value) if type(value) is tuple else fn(value)


def check_text(function: Function, value: object) -> None:
    """Raise if a function that is traced compares bytes with str."""
    if not isinstance(value, ElementError | Unmade):
        function.check_first_rows(Spec.of_leaves(*parts_of(value)))


def as_array(value: object) -> Component:
    """Return a component as an array; what is none becomes an array of one object."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    box = np.empty((), object)
    box[()] = value
    return box


def private_copy(value: object) -> Nested:
    """Return an element with its own arrays."""
    structure, leaves = parts_of(value)
    return structure.pack(v.copy() if isinstance(v, np.ndarray) else v for v in leaves)


@cache
def load_meanings() -> None:
    """Import the files beside this one, each of which says what one operation or source means."""
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"headrace.reference.{module.name}")


def rows_of(plan: Node, epoch: int = 0) -> Iterator[Row]:
    """Return the rows of a plan, as an operation after it sees them."""
    load_meanings()
    return flushed(plan, Place().epoch(epoch))


def run(plan: Node, epoch: int = 0) -> Iterator[Row]:
    """Yield the rows of a plan, as its consumer sees them."""
    for number, row in enumerate(rows_of(plan, epoch)):
        failed = isinstance(row.value, Unmade)
        yield Row(row.id, plan.error(row.value.error, number)) if failed else row


def draw(key: int, n: int, bound: int) -> int:
    """Return the n-th number of a Philox4x32-10 stream, in [0, bound)."""
    counter = [(n >> 1) & 0xFFFFFFFF, n >> 33, 0, 0]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ counter[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    half = counter[2 * (n & 1)] | counter[2 * (n & 1) + 1] << 32
    return (half * bound) >> 64
