"""The order in which `distribute` deals rows so that the costs of all processes are nearly equal."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item, pick_rows, structures_differ
from headrace.core.types import AnyFunction
from headrace.distribute.even_costs import dealt
from headrace.errors import StateError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.row_sizes import row_sizes
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, OwnMark
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import Spec
from headrace.trace.function import Function

Cost = Literal["linear", "quadratic"]
"""How the cost of a row grows with its size."""


class Deal(NamedTuple):
    """How many processes get how many rows a step, and how many steps are dealt together."""

    world_size: int
    share: int
    steps: int

    @property
    def rows(self) -> int:
        """How many rows are dealt together."""
        return self.world_size * self.share * self.steps


@dataclass(frozen=True, eq=False)
class Balance(Node):
    """The rows of every few steps, in an order that makes the costs of processes equal if they get rows in turn."""

    input: Node
    cost_func: AnyFunction | None
    key: Hashable
    cost: Cost
    deal: Deal = field(metadata=TUNING)

    @cached_property
    def pure(self) -> bool:
        """See the class."""
        return self.cost_func is None and self.input.pure

    @property
    def live(self) -> bool:  # type: ignore[override]
        """See the class."""
        return self.cost_func is not None

    @cached_property
    def function(self) -> Function | None:
        """The cost function and its traces."""
        return None if self.cost_func is None else Function(self.cost_func)

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    def remark(self) -> str | None:
        return None if self.function is None else self.function.remark(self.input.spec)

    def index_remedy(self) -> str:
        return "index before it: the order of its elements depends on their costs"

    def order(self, sizes: list[float], deal: Deal) -> Indices:
        """In which order rows of these sizes are dealt; those that failed have size 0."""
        costs = np.array(sizes, np.float64)
        return dealt(costs**2 if self.cost == "quadratic" else costs, deal.world_size, deal.share)


@dataclass(slots=True)
class BalanceMark(OwnMark):
    """How the rows were dealt: the world size, the share, the steps, and how many of the rows were given out.

    Only the last entry holds for rows from here on. Those before it are of runs that stopped amid a window and went on
    with other sizes: the rest of their rows is dealt anew.
    """

    deals: tuple[tuple[int, int, int, int], ...]


class Window(NamedTuple):
    """Rows that are dealt together: blocks and failures, the sizes of all rows, and the order they are given in."""

    items: list[Item]
    sizes: list[float]
    order: Indices


@opens(Balance, own=BalanceMark)
class BalanceStream(Stream):
    """A window at a time. A place is the window's, how its rows were dealt, and how many came of it."""

    def __init__(self, node: Balance, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)
        self._mark = self._input.mark()
        self._deals: list[tuple[int, int, int, int]] = []
        self._deal = node.deal
        self._window: Window | None = None
        self._given = 0
        own: BalanceMark | None = at.own
        if own is not None:
            self._restore(own)

    def _restore(self, own: BalanceMark) -> None:
        """Deal rows again as they were dealt when the state was taken."""
        if not own.deals or any(min(entry[:3]) < 1 for entry in own.deals):
            raise StateError("the state is damaged: it does not say how rows were dealt")
        items: list[Item] = []
        sizes: list[float] = []
        for world_size, share, steps, given in own.deals:
            self._deal = Deal(world_size, share, steps)
            self._deals.append((world_size, share, steps, given))
            window = self._dealt(items, sizes, self._deal)
            if window is None or given > len(window.sizes):
                raise StateError("the input ended before the element where the state was taken")
            items, sizes = _rest(window, given)
            self._window = window

    def _dealt(self, items: list[Item], sizes: list[float], deal: Deal) -> Window | None:
        """These rows and as many more of the input as are dealt together; None if there are none."""
        node = self._node
        items, sizes = list(items), list(sizes)
        while len(sizes) < deal.rows:
            number = self._input.ordinal
            item = self._input.pull(deal.rows - len(sizes))
            if item is END:
                break
            if isinstance(item, Failure):
                items.append(item)
                sizes.append(0.0)
                continue
            found = row_sizes(node.operation, node.function, node.key, item, "iuf")
            if any(isinstance(size, Exception) for size in found):
                for i, size in enumerate(found):
                    bad = isinstance(size, Exception)
                    items.append(Failure(node.error(size, number + i)) if bad else item.slice(i, i + 1))  # type: ignore[arg-type]
            else:
                items.append(item)
            sizes += [0.0 if isinstance(size, Exception) else float(size) for size in found]
        return Window(items, sizes, node.order(sizes, deal)) if sizes else None

    def _next_window(self) -> bool:
        """Deal the next rows; False at the end."""
        if self._window is None or self._given == len(self._window.sizes):
            self._mark, self._deals = self._input.mark(), []
            items: list[Item] = []
            sizes: list[float] = []
        else:  # of a run with other sizes: what it did not give out is dealt anew
            items, sizes = _rest(self._window, self._given)
            self._deals[-1] = (*self._deals[-1][:3], self._given)
        self._window, self._given = self._dealt(items, sizes, self._deal), 0
        self._deals.append((*self._deal, 0))
        return self._window is not None

    @property
    def restates_marks(self) -> bool:
        return self._window is None or self._deal != self._node.deal

    def pull(self, want: int) -> Made:
        adopted, self._deal = self._deal != self._node.deal, self._node.deal
        window = self._window
        if window is None or self._given == len(window.sizes) or adopted:
            if not self._next_window():
                return END
            window = self._window
        assert window is not None
        numbers = window.order[self._given : self._given + want]
        made = _picked(window, numbers)
        for item in made:
            item.mark, item.own, item.offset = self._mark, BalanceMark(tuple(self._deals)), self._given
            self._given += item.rows
        return made

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Pass over rows that an earlier run gave out, as that run dealt them; others are pulled."""
        passed = 0
        while replay and passed < count:
            left = 0 if self._window is None else len(self._window.sizes) - self._given
            if not left and not self._next_window():
                break
            assert self._window is not None
            some = min(count - passed, len(self._window.sizes) - self._given)
            self._given += some
            passed += some
        return passed


def _picked(window: Window, numbers: Indices) -> list[Item]:
    """Rows of a window by their numbers."""
    blocks = [item for item in window.items if isinstance(item, Block)]
    if len(blocks) == len(window.items) and not structures_differ(blocks):
        return [pick_rows(blocks, numbers)]
    starts = np.cumsum([0, *(item.rows for item in window.items)])
    found = np.searchsorted(starts, numbers, side="right") - 1
    pairs = zip(found.tolist(), (numbers - starts[found]).tolist(), strict=True)
    return [window.items[item].slice(row, row + 1) for item, row in pairs]


def _rest(window: Window, given: int) -> tuple[list[Item], list[float]]:
    """The rows that are left of a window, in the order they would have been given in, and their sizes."""
    left = window.order[given:]
    return (_picked(window, left) if len(left) else []), [window.sizes[number] for number in left.tolist()]
