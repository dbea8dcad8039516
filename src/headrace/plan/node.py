"""Nodes: the frozen description of one source or operation, and its traits."""

from __future__ import annotations

import os
import re
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from headrace.core.types import Component, KeywordArguments
from headrace.errors import ElementError, what_there_is
from headrace.plan.bound import PickledByReference
from headrace.plan.cardinality import Cardinality
from headrace.plan.display import parameter_text
from headrace.plan.once import cached_property
from headrace.plan.spec import Probe, Spec
from headrace.plan.tensor_habits import tensor_hint

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


AnyNode: TypeAlias = Any
"""A node of the class that a function is registered for."""

Written: TypeAlias = "Node"
"""A node that is referenced but is not an input."""

TUNING = {"tuning": True}
"""Metadata of a field that does not change what a node yields: a state may be restored under another value."""
FOUND_WHILE_RUNNING = {"absent": "AUTOTUNE"}
"""Metadata of a field that is None if the number is found while running."""


class Moves(IntEnum):
    """Whether an operation returns rows of its one input unchanged: some, all, repeated, or reordered."""

    NO = 0
    ROWS = 1
    FAR = 2
    """Neighboring rows come from far apart: worth doing on row numbers."""


class Ahead(IntEnum):
    """Whether a node's own threads make the next rows while the consumer computes."""

    NO = 0
    RUNS = 1
    READY = 2
    """It takes rows by itself, as many as are sensible: a larger request gets only what is ready."""


class Divides(IntEnum):
    """What an operation yields if it is applied to shares of its input one by one."""

    NO = 0
    """Other rows."""
    SHARES = 1
    """The same result for each row as among all others."""
    RUNS = 2
    """Also, for consecutive runs of its input, the same rows as for all of it, in order."""
    ROWS = 3
    """Also, for any shares, the same rows as for all of it, in any order."""


@dataclass(frozen=True, eq=False)
class Node(PickledByReference, ABC):
    """One source or operation. Subclasses are final; their fields are inputs (nodes) and parameters.

    Rules and the executor use these traits instead of class names:

    - `pure`: it is unobservable when, how often or whether its rows are made.
    - `indexable`: its rows can be fetched by number.
    - `addressable`: `pure` and `indexable`, and not `has_extra_failures`.
    - `moves`: whether it returns rows of its one input unchanged, and from how far apart.
    - `one_to_one`: row i comes from row i of its one input.
    - `positional`: a row is found again by its ordinal alone, so that is its whole mark.
    - `takes`: each row is made of this many consecutive rows of its one input.
    - `live`: a user's code runs for each row, and may block.
    - `ahead`: whether its own threads make the next rows, and whether these are taken as they are ready.
    - `outlives`: its rows are kept beyond a pass.
    - `transparent`: leaves no trace in marks and states; it may come and go between a save and a restore.
    - `numbered`: row i has the id (path, i).
    - `tentative`: its spec may come from the first element, and is known only once it was requested.
    - `leading`: the size of every row's first axis, as far as the plan determines it, regardless of earlier requests.
    - `divides`: what it yields if it is applied to shares of its input one by one.
    - `tells_inputs`: what its inputs hold follows from its own parameters.
    - `fallible`: one of its rows may be a failure.
    - `drops_rows`: it leaves out rows at its end that do not fill a group.
    - `has_extra_failures`: besides its rows it may yield failures that have no number, those of dropped rows.
    - `combines`: the operations of the plan as written whose work it does at once.
    """

    site: str | None = field(default=None, kw_only=True, repr=False)
    name: str | None = field(default=None, kw_only=True, repr=False, metadata=TUNING)
    stands_for: Written | None = field(default=None, kw_only=True, repr=False, metadata=TUNING)
    """The node that this one replaced in a plan, and whose marks it has."""

    one_to_one = False
    moves: ClassVar[Moves] = Moves.NO
    divides: ClassVar[Divides] = Divides.NO
    live = False
    outlives = False
    transparent = False
    tells_inputs = False
    combines: ClassVar[tuple[Any, ...]] = ()

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """What the elements look like, as far as it is known without running anything."""

    @property
    @abstractmethod
    def cardinality(self) -> Cardinality:
        """Return how many elements there are."""

    @property
    def operation(self) -> str:
        """What the user called to get this node."""
        return type(self).__name__.lower()

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes this one reads."""
        found: list[Node] = []
        for name in fields_of(type(self), "Node"):
            value = getattr(self, name)
            found += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Node)]
        return tuple(found)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Self:
        """Return the same operation on other inputs."""
        rest = iter(inputs)
        changed: KeywordArguments = {"stands_for": self}
        for name in fields_of(type(self), "Node"):
            value = getattr(self, name)
            if isinstance(value, Node):
                changed[name] = next(rest)
            elif isinstance(value, tuple) and value and isinstance(value[0], Node):
                changed[name] = tuple(next(rest) for _ in value)
        return replace(self, **changed)

    @cached_property
    def pure(self) -> bool:
        """See the class."""
        return all(node.pure for node in self.inputs)

    @cached_property
    def numbered(self) -> bool:
        """See the class."""
        return self.one_to_one and all(node.numbered for node in self.inputs)

    @property
    def indexable(self) -> bool:
        """See the class."""
        return False

    @cached_property
    def fallible(self) -> bool:
        """See the class."""
        passes = self.moves or self.transparent
        return not (passes and self.inputs) or any(node.fallible for node in self.inputs)

    @property
    def drops_rows(self) -> bool:
        """See the class."""
        return False

    @cached_property
    def has_extra_failures(self) -> bool:
        """See the class."""
        return any(node.has_extra_failures or (self.drops_rows and node.fallible) for node in self.inputs)

    @property
    def ahead(self) -> Ahead:
        """See the class."""
        return Ahead.NO

    @cached_property
    def addressable(self) -> bool:
        """Indexable and pure, and all its rows have numbers: they may be fetched instead of read in turn."""
        return self.indexable and self.pure and not self.has_extra_failures

    @property
    def takes(self) -> int | None:
        """See the class."""
        return None

    @property
    def positional(self) -> bool:
        """See the class."""
        return self.addressable

    @cached_property
    def tentative(self) -> bool:
        """See the class."""
        probe: Probe | None = getattr(self, "probe", None)
        return (probe is not None and not probe.promised) or any(node.tentative for node in self.inputs)

    @property
    def leading(self) -> int | None:
        """See the class."""
        sizes = [] if self.tentative else [s.shape[0] for s in self.spec.leaves if s.shape]
        return next((n for n in sizes if n is not None), None)

    def remark(self) -> str | None:
        """Return how this node runs, for `explain`."""
        return None

    def error(self, cause: BaseException | str, ordinal: int) -> ElementError:
        """Return the error of one element of this node."""
        if isinstance(cause, KeyError) and cause.args:
            hint = _known_keys(self, cause.args[0])
        else:
            hint = tensor_hint(self, cause)
        return ElementError(cause, operation=self.operation, ordinal=ordinal, site=self.site, hint=hint)

    def label(self, *, for_state: bool = False) -> str:
        """Return a short text of the operation with its parameters; for a state, exactly those that change the rows."""
        if for_state:
            shown = [exact_text(f.name, value) for f, value in shown_values(self)]
        else:
            shown = [_brief(f.name, value, f.metadata) for f, value in shown_values(self, tuning=True)]
            shown.sort(key=lambda text: "=" in text)  # what needs no name first
        return f"{self.operation}({', '.join(filter(None, shown))})"


def shown_values(node: Node, *, tuning: bool = False) -> Iterator[tuple[Field[Component], Component]]:
    """Yield the parameters that change a node's rows, as far as they differ from the default.

    With `tuning`, also those that change how fast it runs.
    """
    for f in fields(node):
        value = getattr(node, f.name)
        tuned = f.metadata.get("tuning", False)
        if not f.repr or isinstance(value, Node) or (tuned and (not tuning or value is None)):
            continue
        if isinstance(value, tuple) and value and isinstance(value[0], Node):
            continue
        if value != f.default:
            yield f, value


@cache
def fields_of(kind: type[Node], what: str) -> tuple[str, ...]:
    """Return the fields of a kind of node that are declared as `what`, or as a tuple of these.

    Looked up once, and no value is looked at: nested plans are made by the row.
    """
    return tuple(f.name for f in fields(kind) if what in re.findall(r"\w+", str(f.type)))


def _known_keys(node: Node, key: object) -> str | None:
    """Return a description of the elements, for the error of a function that looked for something else in them."""
    known = [name for below in node.inputs for name in below.spec.keys]
    return f"in an element, {what_there_is(key, known)}" if known and key not in known else None


def exact_text(name: str, value: object) -> str:
    """Return a parameter as a state describes it."""
    return "fn" if callable(value) else f"{name}={value}"


def _brief(name: str, value: object, metadata: Mapping[str, object]) -> str:
    if callable(value):
        return function_name(value)
    if value is None and "absent" in metadata:
        return f"{name}={metadata['absent']}"
    return parameter_text(name, value)


def function_name(fn: Callable[..., object]) -> str:
    """Return a name by which a user recognises this function."""
    return getattr(fn, "__name__", None) or type(fn).__name__


def draws_numbers(node: Node) -> bool:
    """Return whether this operation itself draws random numbers; some hold a seed only for what runs inside them."""
    return any(f.repr for f in fields(node) if f.name in fields_of(type(node), "Seed"))


def walk(node: Node) -> Iterator[Node]:
    """Yield every node of a plan, inputs first; a node that stands in two places comes twice."""
    for child in node.inputs:
        yield from walk(child)
    yield node


def waits(node: Node) -> bool:
    """Return whether a row of this plan may take long: then no finished row is held back until the next one."""
    return node.live or any(map(waits, node.inputs))


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the plan with `change` applied to every node, inputs first; unchanged parts stay the same objects."""
    inputs = node.inputs
    if not inputs:
        return change(node)
    changed = tuple(rebuild(child, change) for child in inputs)
    if any(a is not b for a, b in zip(inputs, changed, strict=True)):
        node = node.with_inputs(changed)
    return change(node)


def rewrite(plan: Node, change: Callable[[Node], Node]) -> Node:
    """Like `rebuild`, for a plan that is written again: none of its nodes stands for another."""

    def changed(node: Node) -> Node:
        made = change(node)
        return made if made.stands_for is None else replace(made, stands_for=None)

    return rebuild(plan, changed)


def obstacle(node: Node) -> Node | None:
    """Return the operation that keeps a plan from being indexed, None if nothing does."""
    if node.indexable:
        return None
    return next((found for child in node.inputs if (found := obstacle(child)) is not None), node)


def places(nodes: Sequence[Node]) -> tuple[int, ...]:
    """For each of several inputs, return how many before it hold one of its random operations.

    A dataset that is used twice has two orders, as in tf.data; two datasets with the same seed have one.
    """
    random = [{id(n) for n in walk(node) if fields_of(type(n), "Seed")} for node in nodes]
    return tuple(sum(bool(random[i] & random[j]) for j in range(i)) for i in range(len(nodes)))


_calls = threading.local()


class called_for:  # noqa: N801 - a context manager
    """While a user's function builds datasets: those it leaves to this package were added at `site`.

    `ds.flat_map(hr.TextLineDataset)` has no frame of the user's code between the call and the new node, and below the
    call there may be a worker thread, or whatever line asked for the row.
    """

    __slots__ = ("_before", "_site")

    def __init__(self, site: str | None) -> None:
        self._site = site

    def __enter__(self) -> None:
        self._before = getattr(_calls, "caller", None)
        _calls.caller = None if self._site is None else (sys._getframe(1), self._site)

    def __exit__(self, *raised: object) -> None:
        _calls.caller = self._before


def user_site(above: int = 0) -> str:
    """File and line of the user's call: the innermost frame outside this package, `above` frames up at least."""
    frame = sys._getframe(1 + above)
    caller, site = getattr(_calls, "caller", None) or (None, "")
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        if frame is caller:
            return site
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def stack_level() -> int:
    """Return the stack level of the user's frame, as `warnings.warn` counts from the calling frame."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
