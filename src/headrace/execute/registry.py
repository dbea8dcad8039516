"""The registry of operations: for each node type, how to open it and how to fetch its rows by number.

A plan does not contain this. Each operation's file registers how this executor runs its node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headrace.plan.marks import OwnMark
from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.columns import Indices
    from headrace.columns.block import Block, Item
    from headrace.columns.lazy_block import LazyBlock
    from headrace.execute.context import Context
    from headrace.execute.stream import Stream
    from headrace.plan.marks import At

Open = Callable[[Any, "Context", "At"], "Stream"]
FetchRows = Callable[[Any, "Context", "Indices"], "Block | list[Item]"]
PointAtRows = Callable[[Any, "Context", "Indices"], "LazyBlock | None"]
CheckCounts = Callable[[Any, "Context"], bool]
O = TypeVar("O", bound=Callable[..., "Stream"])  # noqa: E741
F = TypeVar("F", bound=Callable[..., "Block | list[Item]"])


class Opening(NamedTuple):
    """How one node type is opened, the type of its own marks, and whether it calls a user's function on each row."""

    open: Open
    own: type[OwnMark]
    calls: bool


class Fetching(NamedTuple):
    """How rows of one node type are fetched. `items`: failures stay in their places; `point`: returns references.

    `check` is for sources of which a full pass is cheaper than many rows by number.
    """

    fetch: FetchRows
    items: bool
    point: PointAtRows | None
    check: CheckCounts | None


_openings: dict[type[Node], Opening] = {}
_fetchings: dict[type[Node], Fetching] = {}


def opens(kind: Any, own: type[OwnMark] = OwnMark, *, calls: bool = False) -> Callable[[O], O]:
    """Register a function or stream class that opens nodes of this type and its subclasses.

    It is called as `open(node, ctx, at) -> Stream` with the node, the context to open inputs with, and the start
    position. `own` is the class of the marks that its items carry besides those of its inputs. `calls` says that it
    calls a user's function on each row of its one input, and that the result has that row's mark.
    """

    def register(open: O) -> O:
        _openings[kind] = Opening(open, own, calls)
        return open

    return register


def fetches(
    kind: Any, *, items: bool = False, point: PointAtRows | None = None, check: CheckCounts | None = None
) -> Callable[[F], F]:
    """Register a function that fetches rows of this node type by number: `fetch(node, ctx, indices)`, in that order.

    It returns a block, and raises the ElementError of a row that cannot be made; or, with `items`, failures in their
    places. `point` returns references without reading the rows, or None if it cannot. `check(node, ctx)` returns
    whether row i of a pass is the row with number i: it is not if a file changed after its rows were counted.
    """

    def register(fetch: F) -> F:
        _fetchings[kind] = Fetching(fetch, items, point, check)
        return fetch

    return register


def opening(kind: type[Node]) -> Opening:
    """Return how nodes of this type are opened."""
    return _openings.get(kind) or _find_inherited(_openings, kind, "opens")


def fetching(kind: type[Node]) -> Fetching:
    """Return how rows of nodes of this type are fetched."""
    return _fetchings.get(kind) or _find_inherited(_fetchings, kind, "fetches")


T = TypeVar("T")


def _find_inherited(table: dict[type[Node], T], kind: type[Node], decorator: str) -> T:
    for base in kind.__mro__:
        if base in table:
            table[kind] = found = table[base]
            return found
    raise NotImplementedError(
        f"no executor is registered for {kind.__name__}: register one with @{decorator}({kind.__name__})"
    )
