"""Capabilities of some nodes: each protocol has methods that few kinds of nodes have, and few callers need."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol, TypeGuard, TypeVar

from headrace.core.types import Nested
from headrace.options import Options
from headrace.plan.cardinality import INFINITE, UNKNOWN
from headrace.plan.node import Node, walk

P = TypeVar("P")


def provides(value: object, protocol: type[P]) -> TypeGuard[P]:
    """Return whether a value has all methods of a protocol.

    As `isinstance`, which looks at every member again in each call: it took a tenth of a short pass.
    """
    key = (type(value), protocol)
    found = _provides.get(key)
    if found is None:
        found = all(hasattr(key[0], name) for name in vars(protocol) if not name.startswith("_"))
        _provides[key] = found
    return found


_provides: dict[tuple[Any, Any], bool] = {}


class ReadsFiles(Protocol):
    """A node that reads files."""

    def rows_of_files(self) -> tuple[int, ...] | str | None:
        """Return how many rows each of its files has, or why that is unknown; None if it reads no files
        known by name.
        """

    def with_files(self, part: slice) -> Node:
        """Return the same of some of its files."""

    def file_names(self) -> str | None:
        """Its label with the names of the files in place of what they hold; None if it reads none known by name."""

    def files_gone(self) -> bool:
        """Return whether a file that it reads is not there any more."""

    def for_pass(self, options: Options) -> Node:
        """Return this node for one pass under the options of its pipeline."""


class HoldsFiles(Protocol):
    """A node whose rows are names of files, or whose identity is more than its label."""

    def files_held(self) -> str | None:
        """Return the contents of the files whose names are its rows. Only stored rows need it."""


class OnDevice(Protocol):
    """A node that decides where its rows are."""

    @property
    def rows_on(self) -> str | None:
        """Return the device that its rows are on, None for the CPU's memory."""


class FollowsDevice(Protocol):
    """A node that may read rows that are on a device."""

    @property
    def follows_device(self) -> bool:
        """Return True."""


class AcceptsDevice(Protocol):
    """A node at the end of a plan whose consumer accepts rows that are on a device."""

    @property
    def accepts_device(self) -> bool:
        """Return True."""


def device_of_rows(node: Node) -> str | None:
    """Return the device that a node's rows are on, None if they are in the CPU's memory."""
    if provides(node, OnDevice):
        return node.rows_on
    return next((found for child in node.inputs if (found := device_of_rows(child)) is not None), None)


def _places_its_rows(node: Node) -> bool:
    return provides(node, OnDevice)


def check_follows_device(node: Node) -> None:
    """Raise ValueError if an operation cannot read the rows of its input because they are on a device."""
    if provides(node, FollowsDevice) or not any(device_of_rows(child) for child in node.inputs):
        return
    cut = next(filter(_places_its_rows, walk(node)))
    raise ValueError(
        f'{node.operation} cannot follow {cut.operation}(device="{device_of_rows(cut)}") at {cut.site}: only map, '
        f"random_map, batch, take, enumerate, prefetch and ignore_errors can, because elements are on the device from "
        f"there on. Put {node.operation} before it, or leave out device="
    )


class IsShare(Protocol):
    """A node whose rows are the share of one process."""

    @property
    def process(self) -> tuple[int, int, int]:
        """Return the process, how many there are, and its elements per step."""


class HasContents(Protocol):
    """A node with data, or with functions that are not among its fields."""

    def contents(self) -> tuple[object, ...]:
        """Return the functions and the data that make its rows, beside its inputs and what `label` shows."""


class NoticesPasses(Protocol):
    """A node that is notified at the start of each pass."""

    def begin_pass(self) -> None:
        """Called on the consumer's thread at the start of each pass over a plan that holds this node."""


def begin_pass(node: Node) -> None:
    """Notify the nodes of a plan that a pass begins; not those below a cache, which may not be read."""
    waiting, told = [node], set()
    while waiting:
        one = waiting.pop()
        if id(one) in told:
            continue
        told.add(id(one))
        if provides(one, NoticesPasses):
            one.begin_pass()
        if not one.outlives:
            waiting += one.inputs


class CallsOnRow(Protocol):
    """A node that can call its function on one row by itself, for a user who debugs it."""

    def call_on_row(self, row: object) -> Nested:
        """What the function returns for a block of one row; what it raises is raised as it is."""


class HasRemedy(Protocol):
    """A node that a user can make faster."""

    def remedy(self) -> str | None:
        """Return what a user may change at this operation to make it faster."""


class HasIndexRemedy(Protocol):
    """A node that can suggest how to make its rows indexable."""

    def index_remedy(self) -> str:
        """Return what a user may do if this operation keeps rows from being found by number."""


class HidesInputs(Protocol):
    """A node with inputs that only repeat its label."""

    @property
    def shown_inputs(self) -> tuple[Node, ...]:
        """The inputs that a plan as written shows."""


class KnowsItsEnd(Protocol):
    """A node that may end before its inputs do, or continue after them."""

    @property
    def endless(self) -> bool:
        """Whether a pass never ends."""


def is_endless(node: Node) -> bool:
    """Return whether a pass never ends; of `repeat()` over an unknown number of rows that holds unless
    there are none.
    """
    if provides(node, KnowsItsEnd):
        return node.endless
    if node.cardinality != UNKNOWN:
        return node.cardinality == INFINITE
    return bool(node.inputs) and all(map(is_endless, node.inputs))


def require_end(node: Node, task: str) -> None:
    """Raise ValueError if `task`, which needs every row, would never return."""
    if is_endless(node):
        raise ValueError(f"{task} reads all of a dataset, and this one is infinite: take(n) some of it")


def share_of_process(node: Node) -> tuple[int, int, int] | None:
    """If the rows of a node are the share of one process, return which, of how many, and its elements per step."""
    return node.process if provides(node, IsShare) else None


def contents_of(node: Node) -> tuple[Any, ...]:
    """Return the functions and the data that make the rows of a node, beside its inputs and what `label` shows."""
    if provides(node, HasContents):
        return node.contents()
    values = [getattr(node, f.name) for f in fields(node) if not f.metadata.get("tuning", False)]
    return tuple(value for value in values if callable(value))


def file_names_of(node: Node) -> str | None:
    """Return the label of a node with the names of the files it reads in place of what they hold; None if it reads
    none.
    """
    return node.file_names() if provides(node, ReadsFiles) else None


def files_gone(node: Node) -> bool:
    """Return whether a file that the node reads is not there any more."""
    return provides(node, ReadsFiles) and node.files_gone()


def index_remedy(node: Node) -> str:
    """Return what a user may do if this operation keeps rows from being found by number."""
    if provides(node, HasIndexRemedy):
        return node.index_remedy()
    return "index, slice or shuffle before it, or save() the dataset and load() it"


def shown_inputs(node: Node) -> tuple[Node, ...]:
    """Return the inputs of a node that a plan as written shows."""
    return node.shown_inputs if provides(node, HidesInputs) else node.inputs
