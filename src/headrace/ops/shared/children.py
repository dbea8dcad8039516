"""Datasets that a user's function makes, one for each row of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.columns.block import Block, Failure, Item
from headrace.core.keys import Seed, keyed_seeds, mix_key
from headrace.core.types import AnyFunction
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.state import with_keyed_seeds
from headrace.execute.stream import END, Pulled
from headrace.ops.shared.calls import rows_as_arguments
from headrace.plan.access import comes_late
from headrace.plan.marks import START, Mark, Marked
from headrace.plan.node import Node, called_for

if TYPE_CHECKING:
    from headrace.errors import ElementError


class Parent(Protocol):
    """A node that opens a dataset for each row of its input."""

    @property
    def input(self) -> Node: ...
    @property
    def fn(self) -> AnyFunction: ...
    @property
    def seed(self) -> Seed: ...
    @property
    def pure(self) -> bool: ...
    @property
    def site(self) -> str | None: ...
    def error(self, cause: BaseException | str, ordinal: int) -> ElementError: ...


class OneRow:
    """A child of a single row, or of none."""

    def __init__(self, row: Item | None, mark: Marked | None = None) -> None:
        self._row = row
        position = START if mark is None else mark.marks()
        self.ordinal: int = 1 if row is None else position[0].ordinal if 0 in position else 0

    def pull(self, want: int) -> Pulled:  # noqa: ARG002
        if self.ordinal or self._row is None:
            return END
        row = self._row.slice(0, 1)
        row.mark = self.mark()
        self.ordinal = 1
        return row

    def mark(self) -> Mark:
        return Mark(0, self.ordinal, self.ordinal)

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        done = min(count, 1 - self.ordinal)
        self.ordinal += done
        return done

    def close(self) -> None:
        """There is nothing to free."""


def open_child(
    parent: Parent,
    ctx: Context,
    row: Item,
    mark: Marked | None = None,
    *,
    ahead: Callable[[Node], Node] = lambda node: node,
    late: bool = False,
) -> Input | OneRow:
    """Return the dataset that the function makes of a row, opened on that row's path; `ahead` may put a thread before
    it. With `late` a dataset of records may give references to them.
    """
    if isinstance(row, Failure):
        return OneRow(Failure(row.error), mark)
    made = build_child(parent, ctx, row, row.mark.ordinal)
    if isinstance(made, Failure):
        return OneRow(made, mark)
    where, node = made
    if late and comes_late(node):
        where = where._replace(late=True)
    return where.open_plan(ahead(node), mark, slot=1, objects=True)


def build_child(parent: Parent, ctx: Context, row: Block, number: int) -> tuple[Context, Node] | Failure:
    """Build the dataset for a row with this number, and return it with its context."""
    assert row.ids is not None, "parents are read with ids"
    folds = (int(row.ids[0, 0]), int(row.ids[0, 1]))
    try:
        key = mix_key(parent.seed.key(ctx.path), *folds)
        with keyed_seeds(key), called_for(parent.site):
            made = parent.fn(*next(rows_as_arguments(row)))
        node = with_keyed_seeds(_node(made), key)
    except Exception as error:
        return Failure(parent.error(error, number))
    return ctx.branch(*folds), node


def _node(made: object) -> Node:
    node = made if isinstance(made, Node) else getattr(made, "_node", None)
    if not isinstance(node, Node):
        raise TypeError(f"the function must return a Dataset, not {made!r}")
    return node
