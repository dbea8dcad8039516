"""Nodes: the frozen description of one source or operation, and what may be asked of it."""

from __future__ import annotations

import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from headrace.errors import ElementError, what_there_is
from headrace.options import Options
from headrace.plan.cardinality import Cardinality
from headrace.plan.display import parameter_text
from headrace.plan.once import cached_property
from headrace.plan.spec import Probe, Spec

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


Written: TypeAlias = "Node"
"""A node that is no input of the one that knows it."""

TUNING = {"tuning": True}
"""Metadata of a field that does not change what a node yields: a state may be restored under another value."""
FOUND_WHILE_RUNNING = {"absent": "AUTOTUNE"}
"""Metadata of a field that is None where the number is found while running."""


@dataclass(frozen=True, eq=False)
class Node(ABC):
    """One source or operation. Subclasses are final; their fields are inputs (nodes) and parameters.

    Traits, which rules and the executor ask for instead of class names:

    - `pure`: nobody can tell when, how often or whether its rows are made.
    - `indexable`: its rows can be fetched by number.
    - `addressable`: both of these.
    - `moves_rows`: gives out rows of its one input as they are, whichever they be: some, all, again, in another order.
    - `one_to_one`: row i comes from row i of its one input.
    - `positional`: a row is found again by its ordinal alone, so that is its whole mark.
    - `takes`: each row is made of so many rows of its one input, those of one row behind those of the other.
    - `costly`: a user's function makes each row, which a replay can do without.
    - `calls`: a user's function is called on each row of its one input, whose mark is that of the row that is made.
    - `live`: a user's code runs for each row, and may wait for whatever it likes.
    - `ready_made`: takes on rows by itself, as many as are sensible; who asks for more gets what is there, and no more.
    - `runs_ahead`: threads of its own make the next rows while the consumer computes.
    - `outlives`: its rows are kept beyond a pass.
    - `describes`: what it keeps is known by the description of the plan that makes it.
    - `in_memory`: its rows lie in memory and stay there, whoever holds them.
    - `brief`: all its rows can be had sooner than a thread could be started for them.
    - `at_hand`: its rows lie on this machine and are made by little more than copying them.
    - `comes_late`: its rows are only pointed at where they may be made late, which takes no time.
    - `late_bytes`: and how large they are, by the look of the first one: it may be better to move places than rows.
    - `same_each_epoch`: its rows, but for their ids, depend on nothing but its parameters.
    - `transparent`: leaves no trace in marks and states; it may come and go between a save and a restore.
    - `scatters`: moves rows so that neighbours come from far apart; worth doing on row numbers.
    - `numbered`: row i has the id (path, i).
    - `tentative`: its spec may come from a look at the first element, and is known only once somebody has asked for it.
    - `leading`: the size of every row's first axis, as far as the plan tells, whoever has asked for what.
    - `tells_inputs`: what its inputs hold follows from its own parameters.
    - `maps`: the graph of a function that makes each row of one row of its input, where that is all it does.
    - `spreads`: the same of a function that several threads may work at.
    - `by_place`: moves rows by where they stand, whatever they hold: as well before a function as behind it.
    - `cannot_fail`: no values can keep it from making a row of each row of its input.
    - `decides`: the graph of a function that says of each row of its input whether it stays, where that is all.
    - `combines`: the operations of the plan as written whose work it does in one go.
    - `waits_for`: so many rows of its one input make one of its own, and none comes before they are all there.
    - `process`: where its rows are the share of one process: which, of how many, and how many elements it has a step.
    - `divides`: done to shares of its input one by one, it makes of each row what it makes of it among all others.
    - `keeps_runs`: done to runs of its input one by one, it gives what it makes of them end to end.
    - `keeps_rows`: done to shares of its input one by one, it gives the same rows as of all of it, in whatever order.
    - `coarse`: fetching one row reads many, so that scattered ones are better asked for many at a time.
    """

    site: str | None = field(default=None, kw_only=True, repr=False)
    name: str | None = field(default=None, kw_only=True, repr=False, metadata=TUNING)
    stands_for: Written | None = field(default=None, kw_only=True, repr=False, metadata=TUNING)
    """The node whose marks this one's are, where it was put into a plan in place of it."""

    one_to_one = False
    moves_rows = False
    scatters = False
    costly = False
    calls = False
    live = False
    outlives = False
    describes = False
    in_memory = False
    same_each_epoch = False
    transparent = False
    tells_inputs = False
    divides = False
    keeps_runs = False
    keeps_rows = False
    process: ClassVar[tuple[int, int, int] | None] = None

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """What the elements look like, as far as it is known without running anything."""

    @property
    @abstractmethod
    def cardinality(self) -> Cardinality:
        """How many elements there are."""

    def end_to_end(self, runs: tuple[int, ...]) -> tuple[Node, int] | None:  # noqa: ARG002
        """What does to runs of rows, laid end to end, what this does to each run; and how many rows it makes of one.

        `runs` are the lengths of a run in each input. None where nothing does.
        """
        return None

    def stacked_windows(self) -> tuple[Node, int] | None:
        """Where rows are windows: a node that gives whole ones as arrays, not as datasets, and their length."""
        return None

    def asked_once(self) -> Node | None:
        """Where a function makes a dataset of each row, and one call tells what they all are: the node that knows."""
        return None

    def in_lots(self, size: int) -> Node | None:  # noqa: ARG002
        """The same rows, handed over between threads up to `size` at a time; None where nothing is gained by it."""
        return None

    def for_pass(self, options: Options) -> Node:  # noqa: ARG002
        """This node for one pass under the options of its pipeline: itself, unless a pass leaves traces in it."""
        return self

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
        """The same operation on other inputs."""
        rest = iter(inputs)
        changed: dict[str, Any] = {"stands_for": self}
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

    @property
    def coarse(self) -> bool:
        """See the class."""
        return any(node.coarse for node in self.inputs)

    @property
    def maps(self) -> Any:
        """See the class."""
        return None

    @property
    def spreads(self) -> bool:
        """See the class."""
        return False

    @property
    def by_place(self) -> bool:
        """See the class."""
        return False

    @property
    def cannot_fail(self) -> bool:
        """See the class."""
        return False

    @property
    def decides(self) -> Any:
        """See the class."""
        return None

    @property
    def combines(self) -> tuple[Any, ...]:
        """See the class."""
        return ()

    @property
    def waits_for(self) -> int | None:
        """See the class."""
        return None

    @property
    def brief(self) -> bool:
        """See the class; asked when it is about to be opened."""
        return False

    @property
    def at_hand(self) -> bool:
        """See the class; asked when it is about to be opened."""
        return False

    @property
    def comes_late(self) -> bool:
        """See the class; asked when it is about to be opened."""
        return False

    @property
    def late_bytes(self) -> int:
        """See the class; asked when it is about to be opened."""
        return 0

    @property
    def ready_made(self) -> bool:
        """See the class."""
        return False

    @property
    def runs_ahead(self) -> bool:
        """See the class."""
        return False

    @cached_property
    def addressable(self) -> bool:
        """Indexable and pure: rows may be fetched by number instead of read in turn, and nobody can tell."""
        return self.indexable and self.pure

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
        """How this node runs, where `explain` should say."""
        return None

    def remedy(self) -> str | None:
        """What a user may change at this operation to have it run faster."""
        return None

    def rows_of_files(self) -> tuple[int, ...] | str | None:
        """How many rows each of its files gives, or why nobody knows; None where it reads no files known by name."""
        return None

    def with_files(self, part: slice) -> Node:
        """The same of some of its files."""
        raise NotImplementedError(f"{self.operation} reads no files known by name")

    def index_remedy(self) -> str:
        """What a user may do where this operation keeps rows from being found by number."""
        return "index, slice or shuffle before it, or save() the dataset and load() it"

    def contents(self) -> tuple[Any, ...]:
        """The functions and the data that make its rows, beside its inputs and what `label` shows."""
        values = [getattr(self, f.name) for f in fields(self) if not f.metadata.get("tuning", False)]
        return tuple(value for value in values if callable(value))

    def file_names(self) -> str | None:
        """Its label with the names of the files it reads in place of what they hold; None where it reads none."""
        return None

    def files_held(self) -> str | None:
        """What the files hold whose names are its rows, which nobody but stored rows asks; None where they are not."""
        return None

    def files_gone(self) -> bool:
        """Whether a file that it reads is not there any more."""
        return False

    def error(self, cause: BaseException | str, ordinal: int) -> ElementError:
        """The error of one element of this node."""
        hint = self._known_keys(cause.args[0]) if isinstance(cause, KeyError) and cause.args else None
        return ElementError(cause, operation=self.operation, ordinal=ordinal, site=self.site, hint=hint)

    def _known_keys(self, key: object) -> str | None:
        """What the elements have, for a function that looked for something else in them."""
        known = [name for node in self.inputs for name in node.spec.keys]
        return f"in an element, {what_there_is(key, known)}" if known and key not in known else None

    def label(self, *, for_state: bool = False) -> str:
        """The operation with its parameters, in few words; for a state, exactly those that change the rows."""
        shown = []
        for f in fields(self):
            value = getattr(self, f.name)
            tuned = f.metadata.get("tuning", False)
            if not f.repr or isinstance(value, Node) or (for_state and tuned) or (tuned and value is None):
                continue
            if isinstance(value, tuple) and value and isinstance(value[0], Node):
                continue
            if value != f.default:
                shown.append(_exact(f.name, value) if for_state else _brief(f.name, value, f.metadata))
        if not for_state:
            shown.sort(key=lambda text: "=" in text)  # what needs no name first
        return f"{self.operation}({', '.join(filter(None, shown))})"

    @property
    def shown_inputs(self) -> tuple[Node, ...]:
        """The inputs that a plan shows: none that only say what the label does."""
        return self.inputs


@cache
def fields_of(kind: type[Node], what: str) -> tuple[str, ...]:
    """The fields of a kind of node that are declared as `what`, or as a tuple of these.

    Looked up once, and no value is looked at: nested plans are made by the row.
    """
    return tuple(f.name for f in fields(kind) if what in re.findall(r"\w+", str(f.type)))


def _exact(name: str, value: Any) -> str:
    return "fn" if callable(value) else f"{name}={value}"


def _brief(name: str, value: Any, metadata: Mapping[str, Any]) -> str:
    if callable(value):
        return function_name(value)
    if value is None and "absent" in metadata:
        return f"{name}={metadata['absent']}"
    return parameter_text(name, value)


def function_name(fn: Callable[..., Any]) -> str:
    """How a user would recognise this function."""
    return getattr(fn, "__name__", None) or type(fn).__name__


def draws_numbers(node: Node) -> bool:
    """Whether this operation itself draws random numbers; some hold a seed only for what runs inside them."""
    return any(f.repr for f in fields(node) if f.name in fields_of(type(node), "Seed"))


def walk(node: Node) -> Iterator[Node]:
    """Every node of a plan, inputs first; a node that stands in two places comes twice."""
    for child in node.inputs:
        yield from walk(child)
    yield node


def waits(node: Node) -> bool:
    """Whether a row of this plan may be long in coming: then none is to be held back for the next."""
    return node.live or any(map(waits, node.inputs))


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change` applied to every node, inputs first; unchanged parts stay the same objects."""
    inputs = node.inputs
    if not inputs:
        return change(node)
    changed = tuple(rebuild(child, change) for child in inputs)
    if any(a is not b for a, b in zip(inputs, changed, strict=True)):
        node = node.with_inputs(changed)
    return change(node)


def rewrite(plan: Node, change: Callable[[Node], Node]) -> Node:
    """As `rebuild`, for a plan that is written anew: none of its nodes stands for another."""

    def changed(node: Node) -> Node:
        made = change(node)
        return made if made.stands_for is None else replace(made, stands_for=None)

    return rebuild(plan, changed)


def obstacle(node: Node) -> Node | None:
    """The operation that keeps a plan from being indexed, None if nothing does."""
    if node.indexable:
        return None
    return next((found for child in node.inputs if (found := obstacle(child)) is not None), node)


def places(nodes: Sequence[Node]) -> tuple[int, ...]:
    """For each of several inputs, how many before it hold one of its random operations.

    A dataset that stands in two places has two orders, as in tf.data; two datasets with the same seed have one.
    """
    random = [{id(n) for n in walk(node) if fields_of(type(n), "Seed")} for node in nodes]
    return tuple(sum(bool(random[i] & random[j]) for j in range(i)) for i in range(len(nodes)))


def user_site(above: int = 0) -> str:
    """File and line of the user's call: the innermost frame outside this package, `above` frames up at least."""
    frame = sys._getframe(1 + above)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def stack_level() -> int:
    """How many frames up, from the one that asks, that frame is; as `warnings.warn` counts, itself included."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
