"""Exact resume without order: the state if blocks were handed over before blocks that were started earlier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.columns.block import Item
from headrace.execute.stream import END, Pulled, Source
from headrace.plan.marks import Mark, Marks, OwnMark

Run = tuple[int, int]
"""The ordinal of a first row, and how many there are."""


@dataclass(slots=True)
class Unordered(OwnMark):
    """Continue at the input's mark, skip the rows in `done`, and begin with the rows of the `lead`.

    An offset counts from the first row of the lead.
    """

    done: tuple[Run, ...]
    lead: Run


class Delivery:
    """Track which input rows were handed over ahead of the oldest one that was not."""

    def __init__(self, done: Sequence[Run] = ()) -> None:
        self._ahead = [*done]

    def hand_over(self, start: int, rows: int, items: Sequence[Item], oldest: Mark) -> None:
        """Mark the items made of `rows` rows from `start` on, while `oldest` is the first row not handed over.

        Rows that are handed over in order have a lead as well: the next run may have another order.
        """
        base = oldest.ordinal
        self._ahead = [(o, n) for o, n in self._ahead if o + n > base]
        made = 0
        for item in items:
            done = (*self._ahead, (start, made)) if made else (*self._ahead,)
            item.mark, item.own = oldest, Unordered(done, (start + made, rows - made))
            made += item.rows
        self._ahead.append((start, rows))

    def pass_over(self, start: int, rows: int) -> None:
        """Note rows that an earlier run has handed over."""
        self._ahead.append((start, rows))


class Remaining:
    """The rows that were left when such a state was taken: the lead, then the others in order."""

    def __init__(self, reopen: Callable[[Marks], Source], marks: Marks, own: Unordered, delivery: Delivery) -> None:
        self._delivery = delivery
        start, rows = own.lead
        self._lead: Source | None = reopen(marks)
        self._lead.skip(start - self._lead.ordinal, replay=True)
        self._lead_left = rows
        self._main = reopen(marks)
        self._gaps = sorted([*own.done, own.lead])

    @property
    def ordinal(self) -> int:
        """Return the ordinal of the rows in order."""
        return self._main.ordinal

    @property
    def leading(self) -> bool:
        """Return whether the rows pulled last are to be handed over before all others."""
        return self._lead is not None

    def pull(self, want: int) -> Pulled:
        if self._lead is not None:
            item = self._lead.pull(min(want, self._lead_left)) if self._lead_left else END
            if item is not END:
                self._lead_left -= item.rows
                return item
            self._lead.close()
            self._lead = None
        for gap, rows in self._gaps:
            here = self._main.ordinal
            if gap <= here < gap + rows:
                self._main.skip(gap + rows - here, replay=True)
            elif gap > here:
                want = min(want, gap - here)
                break
        return self._main.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Skip rows of the lead only: the order of the others is not known in advance."""
        if self._lead is None:
            return 0
        start = self._lead.ordinal
        done = self._lead.skip(min(count, self._lead_left), replay=replay)
        self._lead_left -= done
        self._delivery.pass_over(start, done)
        return done

    def mark(self) -> Mark:
        """Return the mark of the first row that was not pulled, in the lead or after it."""
        if self._lead is not None and self._lead_left:
            return min(self._lead.mark(), self._main.mark(), key=lambda mark: mark.ordinal)
        return self._main.mark()

    def close(self) -> None:
        if self._lead is not None:
            self._lead.close()
        self._main.close()
