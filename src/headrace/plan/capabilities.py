"""What only some nodes can do: each protocol stands for methods that few kinds of nodes have, and few callers need."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

from headrace.options import Options
from headrace.plan.cardinality import INFINITE, UNKNOWN
from headrace.plan.node import Node


@runtime_checkable
class ReadsFiles(Protocol):
    """A node that reads files."""

    def rows_of_files(self) -> tuple[int, ...] | str | None:
        """How many rows each of its files gives, or why nobody knows; None if it reads no files known by name."""

    def with_files(self, part: slice) -> Node:
        """The same of some of its files."""

    def file_names(self) -> str | None:
        """Its label with the names of the files in place of what they hold; None if it reads none known by name."""

    def files_gone(self) -> bool:
        """Whether a file that it reads is not there any more."""

    def for_pass(self, options: Options) -> Node:
        """This node for one pass under the options of its pipeline."""


@runtime_checkable
class HoldsFiles(Protocol):
    """A node whose rows are names of files, or which is kept apart from others by more than its label says."""

    def files_held(self) -> str | None:
        """What the files hold whose names are its rows. Only stored rows ask for it."""


@runtime_checkable
class IsShare(Protocol):
    """A node whose rows are the share of one process."""

    @property
    def process(self) -> tuple[int, int, int]:
        """Which process, of how many, and how many elements it has a step."""


@runtime_checkable
class HasContents(Protocol):
    """A node with data, or with functions that are not among its fields."""

    def contents(self) -> tuple[Any, ...]:
        """The functions and the data that make its rows, beside its inputs and what `label` shows."""


@runtime_checkable
class NoticesPasses(Protocol):
    """A node that looks after something at the start of each pass."""

    def begin_pass(self) -> None:
        """Called on the consumer's thread at the start of each pass over a plan that holds this node."""


def begin_pass(node: Node) -> None:
    """Tell the nodes of a plan that a pass begins; not those below a cache, which may not be read."""
    waiting, told = [node], set()
    while waiting:
        one = waiting.pop()
        if id(one) in told:
            continue
        told.add(id(one))
        if isinstance(one, NoticesPasses):
            one.begin_pass()
        if not one.outlives:
            waiting += one.inputs


@runtime_checkable
class HasRemedy(Protocol):
    """A node that a user can make faster."""

    def remedy(self) -> str | None:
        """What a user may change at this operation to have it run faster."""


@runtime_checkable
class HasIndexRemedy(Protocol):
    """A node that knows what to do if its rows are to be found by number."""

    def index_remedy(self) -> str:
        """What a user may do if this operation keeps rows from being found by number."""


@runtime_checkable
class HidesInputs(Protocol):
    """A node with inputs that only say what its label does."""

    @property
    def shown_inputs(self) -> tuple[Node, ...]:
        """The inputs that a plan as written shows."""


@runtime_checkable
class KnowsItsEnd(Protocol):
    """A node that may end before its inputs do, or go on after them."""

    @property
    def endless(self) -> bool:
        """Whether a pass never ends."""


def is_endless(node: Node) -> bool:
    """Whether a pass never ends; of `repeat()` over an unknown number of rows that holds unless there are none."""
    if isinstance(node, KnowsItsEnd):
        return node.endless
    if node.cardinality != UNKNOWN:
        return node.cardinality == INFINITE
    return bool(node.inputs) and all(map(is_endless, node.inputs))


def require_end(node: Node, task: str) -> None:
    """Raise ValueError if `task`, which needs every row, would never return."""
    if is_endless(node):
        raise ValueError(f"{task} reads all of a dataset, and this one is infinite: take(n) some of it")


def share_of_process(node: Node) -> tuple[int, int, int] | None:
    """If the rows of a node are the share of one process: which, of how many, and how many elements it has a step."""
    return node.process if isinstance(node, IsShare) else None


def contents_of(node: Node) -> tuple[Any, ...]:
    """The functions and the data that make the rows of a node, beside its inputs and what `label` shows."""
    if isinstance(node, HasContents):
        return node.contents()
    values = [getattr(node, f.name) for f in fields(node) if not f.metadata.get("tuning", False)]
    return tuple(value for value in values if callable(value))


def file_names_of(node: Node) -> str | None:
    """The label of a node with the names of the files it reads in place of what they hold; None if it reads none."""
    return node.file_names() if isinstance(node, ReadsFiles) else None


def files_gone(node: Node) -> bool:
    """Whether a file that the node reads is not there any more."""
    return isinstance(node, ReadsFiles) and node.files_gone()


def index_remedy(node: Node) -> str:
    """What a user may do if this operation keeps rows from being found by number."""
    if isinstance(node, HasIndexRemedy):
        return node.index_remedy()
    return "index, slice or shuffle before it, or save() the dataset and load() it"


def shown_inputs(node: Node) -> tuple[Node, ...]:
    """The inputs of a node that a plan as written shows."""
    return node.shown_inputs if isinstance(node, HidesInputs) else node.inputs
