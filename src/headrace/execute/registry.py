"""How operations run: for each kind of node what opens it, and what fetches its rows by number.

A plan says nothing of this. Each operation's file registers, beside its node, how this executor runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headrace.plan.marks import OwnMark
from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.block import Block, Item
    from headrace.columns import Indices
    from headrace.execute.context import Context
    from headrace.execute.stream import Stream
    from headrace.late_block import LateBlock
    from headrace.plan.marks import At

Open = Callable[[Any, "Context", "At"], "Stream"]
FetchRows = Callable[[Any, "Context", "Indices"], "Block | list[Item]"]
PointAtRows = Callable[[Any, "Context", "Indices"], "LateBlock | None"]
CheckCounts = Callable[[Any, "Context"], bool]
O = TypeVar("O", bound=Callable[..., "Stream"])  # noqa: E741
F = TypeVar("F", bound=Callable[..., "Block | list[Item]"])


class Opening(NamedTuple):
    """How one kind of node is opened, what its own marks are, and whether it calls a user's function on each row."""

    open: Open
    own: type[OwnMark]
    calls: bool


class Fetching(NamedTuple):
    """How rows of one kind of node are fetched; `items`: with failures in their places; `point`: or pointed at.

    `check` is for sources of which a pass over everything is cheaper than many rows by number.
    """

    fetch: FetchRows
    items: bool
    point: PointAtRows | None
    check: CheckCounts | None


_openings: dict[type[Node], Opening] = {}
_fetchings: dict[type[Node], Fetching] = {}


def opens(kind: Any, own: type[OwnMark] = OwnMark, *, calls: bool = False) -> Callable[[O], O]:
    """Have nodes of this kind, and those derived from it, opened by a function, or a class of streams.

    It gets the node, the context to open inputs with, and where to begin: `open(node, ctx, at) -> Stream`. `own` is
    the class of the marks that its items carry besides those of its inputs. `calls` says that a user's function is
    called on each row of its one input, whose mark is that of the row that is made.
    """

    def register(open: O) -> O:
        _openings[kind] = Opening(open, own, calls)
        return open

    return register


def fetches(
    kind: Any, *, items: bool = False, point: PointAtRows | None = None, check: CheckCounts | None = None
) -> Callable[[F], F]:
    """Have rows of nodes of this kind fetched by number: `fetch(node, ctx, indices)`, in that order.

    It gives a block, and raises the ElementError of a row that cannot be made; or `items`, failures in their places.
    `point` says where the rows lie, and looks at none of them; it gives None where that is not to be said.
    `check(node, ctx)` tells whether row i of a pass is the row with number i: not if a file changed after its rows were
    counted.
    """

    def register(fetch: F) -> F:
        _fetchings[kind] = Fetching(fetch, items, point, check)
        return fetch

    return register


def opening(kind: type[Node]) -> Opening:
    """How nodes of this kind are opened."""
    return _openings.get(kind) or _find_inherited(_openings, kind, "opens")


def fetching(kind: type[Node]) -> Fetching:
    """How rows of nodes of this kind are fetched."""
    return _fetchings.get(kind) or _find_inherited(_fetchings, kind, "fetches")


T = TypeVar("T")


def _find_inherited(table: dict[type[Node], T], kind: type[Node], decorator: str) -> T:
    for base in kind.__mro__:
        if base in table:
            table[kind] = found = table[base]
            return found
    raise NotImplementedError(f"nobody says how {kind.__name__} runs: register it with @{decorator}({kind.__name__})")
