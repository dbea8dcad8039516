"""Exactness without order: what a state says when blocks were handed over before others that were begun sooner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.block import Item, Mark, ordinal
from headrace.execute.stream import END, Pulled, Source


class Delivery:
    """Which rows of the input have been handed over ahead of the oldest that has not."""

    def __init__(self, done: Sequence[Sequence[int]] = ()) -> None:
        self._ahead = [(int(start), int(rows)) for start, rows in done]

    def hand_over(self, start: int, rows: int, items: Sequence[Item], oldest: Mark) -> None:
        """Mark the items made of `rows` rows from `start` on, while `oldest` is the first row not handed over.

        A mark says: read on at `base`, leave out the rows in `done`, and have those in `lead` before all others. What
        is handed over in its turn has a lead as well: the next reading may have another order.
        """
        base = ordinal(oldest)
        self._ahead = [(o, n) for o, n in self._ahead if o + n > base]
        given = 0
        for item in items:
            done = [*self._ahead, (start, given)] if given else [*self._ahead]
            item.mark = {"base": oldest, "done": done, "lead": (start + given, rows - given)}
            given += item.rows
        self._ahead.append((start, rows))

    def pass_over(self, start: int, rows: int) -> None:
        """An earlier run has handed these over."""
        self._ahead.append((start, rows))


class Remaining:
    """The rows that were left when such a state was taken: the lead, then the others in order."""

    def __init__(self, reopen: Callable[[Mark], Source], mark: dict[str, Mark], delivery: Delivery) -> None:
        self._delivery = delivery
        start, rows = mark["lead"]
        base = mark["base"]
        self._lead: Source | None = reopen(base)
        self._lead.skip(start - ordinal(base), replay=True)
        self._lead_left: int = rows
        self._main = reopen(base)
        self._gaps = sorted([*map(tuple, mark["done"]), (start, rows)])

    @property
    def ordinal(self) -> int:
        """Where the rows in order stand."""
        return self._main.ordinal

    @property
    def leading(self) -> bool:
        """Whether the rows pulled last are to be handed over before all others."""
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
        """Pass over rows of the lead, and of no others: nobody knows in which order those will come."""
        if self._lead is None:
            return 0
        start = self._lead.ordinal
        done = self._lead.skip(min(count, self._lead_left), replay=replay)
        self._lead_left -= done
        self._delivery.pass_over(start, done)
        return done

    def mark(self) -> Mark:
        """Of the first row that has not been pulled, in the lead or behind it."""
        if self._lead is not None and self._lead_left:
            return min(self._lead.mark(), self._main.mark(), key=ordinal)
        return self._main.mark()

    def close(self) -> None:
        if self._lead is not None:
            self._lead.close()
        self._main.close()
