"""Run `distribute`: read the rows of one process by number, or count among all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Failure, Item
from headrace.core.override import override
from headrace.execute.context import Context
from headrace.execute.remainder import end_of_rows
from headrace.execute.stream import END, Made, Pending, Stream
from headrace.ops.shared.rest import Ranges, Rest
from headrace.ops.shared.row_share import RowShare
from headrace.plan.cardinality import ENDLESS
from headrace.plan.marks import START, At, Mark, Marked, OwnMark

if TYPE_CHECKING:
    from headrace.distribute.distribute import Distribute


@dataclass
class ShareMark(OwnMark):
    """The first element from which a step is taken, which later ones are done, and how many elements a step takes.

    `following` is known once a step was read: where the next one begins, so that a resume need not read this one.
    """

    start: int
    done: Ranges
    together: int

    following = None

    @override
    def moved(self, rows: int, inputs: tuple[Marked, ...]) -> tuple[OwnMark, tuple[Marked, ...]] | None:
        following: tuple[ShareMark, Mark] | None = self.following
        return None if following is None or rows != 1 else (following[0], (following[1],))


def open_share(node: Distribute, ctx: Context, at: At) -> Stream:
    """By number, or all rows in turn."""
    own: ShareMark | None = at.own
    rest = Rest(0) if own is None else Rest(own.start, own.done)
    before = node.together if own is None else own.together
    if node.input.addressable:
        return NumberedShare(node, ctx, rest, before)
    rooted = own is not None and at.inputs[ctx.prepared.number(node)].rooted
    return CountedShare(node, ctx, at if rooted else At(), rest, before)


def _own(node: Distribute, rest: Rest) -> ShareMark:
    return ShareMark(rest.start, rest.done, node.together)


class NumberedShare(Stream):
    """Fetch only the rows of this process.

    `before` is how many elements a step took when the state was taken: a restore skips rows in such steps.
    """

    def __init__(self, node: Distribute, ctx: Context, rest: Rest, before: int) -> None:
        self._node = node
        self._ctx = ctx
        self._rest = rest
        self._before = before
        total = node.input.cardinality
        self._left = rest.count(total) if total.known else ENDLESS
        self._next = 0

    def pull(self, want: int) -> Made:
        node = self._node
        self._before = node.together
        steps = min(want, (self._left - self._next) // node.together)
        if steps <= 0:
            return self._last()
        items = self._ctx.fetch_items(node.input, self._rest.numbers(self._places(steps)))
        if len(items) == 1:
            whole = self._step(items, steps)
            if steps == 1 or not isinstance(whole, Failure):
                return whole
            self._next -= steps * node.together  # one step is at fault: each by itself
        return [self._step(lot, 1) for lot in _cut(items, node.share)]

    def _step(self, rows: list[Item], steps: int) -> Item:
        """Return the rows of the next steps as such."""
        rest = self._rest.after(self._next)
        item = self._node.step_of(rows, rest.start // self._node.together)
        item.own = _own(self._node, rest)
        self._next += steps * self._node.together
        return item

    def _places(self, steps: int) -> Indices:
        """Return which of the elements that are left are this process's in the next steps."""
        node = self._node
        starts = self._next + np.arange(steps)[:, None] * node.together + node.rank * node.share
        places: Indices = (starts + np.arange(node.share)).ravel()
        return places

    def _last(self) -> Made:
        """Return the step for which there are not enough elements."""
        node, first = self._node, self._next
        if first >= self._left:
            return END
        if node.uneven == "drop":
            self._next = self._left
            if not node.input.fallible:
                return END
            dropped = self._rest.numbers(np.arange(first, self._left))
            return end_of_rows(self._ctx.fetch_items(node.input, dropped))
        places = self._places(1)
        real = places < self._left
        if node.uneven == "pad":
            numbers = self._rest.numbers(np.where(real, places, first))
        else:
            again = (places - self._left) % node.input.cardinality
            numbers = np.where(real, self._rest.numbers(places), again)
        rest = self._rest.after(first)
        item = node.step_of(self._ctx.fetch_items(node.input, numbers), rest.start // node.together, real)
        item.own = _own(node, rest)
        self._next = self._left
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        unit = self._before if replay else self._node.together
        whole, more = divmod(self._left - self._next, unit)
        steps = min(count, whole + bool(more and self._node.uneven != "drop"))
        self._next = min(self._left, self._next + steps * unit)
        return steps


def _cut(items: list[Item], size: int) -> list[list[Item]]:
    """Return every `size` rows by themselves."""
    pending = Pending(items)
    lots: list[list[Item]] = []
    while pending:
        lot: list[Item] = []
        while (missing := size - sum(item.rows for item in lot)) > 0:
            lot.append(pending.pull(missing))
        lots.append(lot)
    return lots


class CountedShare(Stream):
    """Read all rows and keep its own, to know for every step whether the others have theirs."""

    def __init__(self, node: Distribute, ctx: Context, at: At, rest: Rest, before: int) -> None:
        self._node = node
        self._ctx = ctx
        placed = rest.start > 0 or ctx.prepared.number(node.input) in at.inputs
        self._input = ctx.open(node.input, at.inputs if placed else START)
        if self._input.ordinal < rest.start:  # the state was taken when rows were fetched by number
            self._input.skip(rest.start - self._input.ordinal, replay=True)
        self._done = list(rest.done)
        self._before = before
        self._begun = False
        self._ending: Made | None = None
        self._looks = node.drops_rows and not node.input.pure
        self._failed: list[Item] = []

    def _announce(self) -> None:
        """Announce which rows will be kept, so that a remote producer need not send the others."""
        node, self._begun = self._node, True
        front, done = node.rank * node.share, tuple(self._done)
        leader = node.uneven == "pad"
        self._input.announce(
            RowShare(node.together, front, node.share, start=self._input.ordinal, done=done, leader=leader)
        )

    def _pass(self) -> None:
        """Pass over what is done."""
        while self._done and self._done[0][0] <= self._input.ordinal:
            _, stop = self._done.pop(0)
            self._input.skip(stop - self._input.ordinal, replay=True)

    def _room(self, rows: int) -> int:
        """Return how many of the next rows come before those that are done."""
        self._pass()
        return min(rows, self._done[0][0] - self._input.ordinal) if self._done else rows

    def _take(self, rows: int) -> list[Item]:
        """Return the next rows that are not done; fewer at the end."""
        items: list[Item] = []
        while rows > 0 and (item := self._input.pull(self._room(rows))) is not END:
            items.append(item.whole())
            rows -= item.rows
        return items

    def _drop(self, rows: int, *, replay: bool = False) -> int:
        """Skip the next rows that are not done. Return how many there were."""
        passed = 0
        while passed < rows:
            room = self._room(rows - passed)
            passed += (some := self._input.skip(room, replay=replay))
            if some < room:
                break
        return passed

    def _look(self, rows: int) -> int:
        """Pass over the next rows; if that reads them in any case, note failures, because they may be dropped."""
        if not self._looks:
            return self._drop(rows)
        items = self._take(rows)
        self._note(items)
        return sum(item.rows for item in items)

    def _note(self, items: list[Item]) -> None:
        self._failed += [item for item in items if isinstance(item, Failure)]

    def _ended(self, mark: Mark, rest: Rest, rows: int) -> Made:
        """Return the end if rows are dropped that come `rows` after `mark`: all processes raise the same failure."""
        node = self._node
        if node.uneven != "drop" or not node.input.fallible:
            return END
        again = CountedShare(node, self._ctx, At(None, mark.marks()), rest, node.together)
        left = rest.after(rows)
        again._input.announce(RowShare(1, 0, 1, start=left.start, done=left.done))
        again._drop(rows, replay=True)
        dropped = again._take(node.together)
        again._input.close()
        return end_of_rows(dropped)

    @override
    def pull(self, want: int) -> Made:  # a step at a time: the others' rows lie between
        node = self._node
        self._before = node.together
        if self._ending is not None:
            ending, self._ending = self._ending, END
            return ending
        if not self._begun:
            self._announce()
        self._pass()
        self._input.settle()
        self._failed = []
        place, own = self._input.mark(), _own(node, Rest(self._input.ordinal, self._done))
        front = node.rank * node.share
        first = self._take(1) if front and node.uneven == "pad" else []
        seen = len(first)
        seen += self._look(front - seen)
        mine = self._take(node.share) if seen == front else []
        self._note(mine)
        seen += (rows := sum(item.rows for item in mine))
        seen += self._look(node.together - seen) if rows == node.share else 0
        if seen == node.together:
            item = node.step_of(mine, own.start // node.together)
            self._pass()
            own.following = _own(node, Rest(self._input.ordinal, self._done)), self._input.mark()  # type: ignore[assignment]
        else:
            self._ending = END
            if seen == 0 or node.uneven == "drop":
                if self._looks or seen == 0:
                    return end_of_rows(self._failed)
                return self._ended(place, Rest(own.start, own.done), 0)
            real = np.arange(node.share) < rows
            filling = self._filling(first or mine, node.share - rows, max(front, seen) - seen)
            item = node.step_of([*mine, *filling], own.start // node.together, real)
        item.mark, item.own = place, own
        return item

    def _filling(self, step: list[Item], rows: int, first: int) -> list[Item]:
        """Return what is put in place of missing rows: copies of the step's first, or those of the epoch from `first`
        on.
        """
        if self._node.uneven == "pad":
            return [step[0].slice(0, 1) for _ in range(rows)]
        total, items = self._input.ordinal, []
        while rows:
            again = self._ctx.open(self._node.input, slot=1)
            again.skip(first % total)
            first = 0
            while rows and (item := again.pull(rows)) is not END:
                items.append(item)
                rows -= item.rows
            again.close()
        return items

    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._looks and (not replay or self._before == self._node.together):  # the last one is pulled: see `_look`
            count = count - 1 if replay else 0
        if self._ending is not None or count <= 0:
            return 0
        unit = self._before if replay else self._node.together
        if not replay:
            self._input.settle()
        mark, rest = self._input.mark(), Rest(self._input.ordinal, self._done)
        passed = self._drop(count * unit, replay=replay)
        whole, more = divmod(passed, unit)
        if passed < count * unit:
            self._ending = self._ended(mark, rest, whole * unit) if more else END
        return whole + bool(more and self._node.uneven != "drop")
