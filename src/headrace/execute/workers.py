"""Worker threads: rows of an input, passed through a function, ahead of whoever pulls them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING

from headrace.block import Item, Mark, ordinal
from headrace.execute.channel import Cancelled, Channel, Limits, Ticket
from headrace.execute.stream import END, Pace, Pending, Pulled, Source, Stream

if TYPE_CHECKING:
    from headrace.execute.stats import Stage

Work = Callable[[Item], list[Item]]


def unchanged(item: Item) -> list[Item]:
    """The work of a stage that only runs ahead."""
    return [item]


class Ahead(Stream):
    """What `work` makes of the rows of `source`, made by `width` threads before it is asked for."""

    def __init__(
        self,
        source: Source,
        work: Work,
        *,
        width: int,
        limits: Limits,
        ordered: bool,
        stage: Stage,
        pace: Pace,
    ) -> None:
        self._source = source
        self._work = work
        self._width = width
        self._stage = stage
        self._pace = pace
        self._pending = Pending(own=False)
        self._source_lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._pid = os.getpid()
        self.channel = Channel(limits, ordered=ordered)

    def pull(self, want: int) -> Pulled:
        if not self._threads:
            self._start()
        while not self._pending:
            ticket = self.channel.get()
            if ticket is END:
                return END
            self._pending.add(ticket.items or [])
        item = self._pending.pull(want)
        self.channel.release(item.rows)
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        if replay and not self._threads and not isinstance(self._source, Remaining):
            return self._source.skip(count, replay=True)
        return super().skip(count, replay=replay)

    def ready(self, heard: threading.Event) -> bool:
        """Whether `pull` would not wait, else `heard` is set once it would not; starts the threads."""
        if not self._threads:
            self._start()
        return bool(self._pending) or self.channel.ready(heard)

    def close(self) -> None:
        self.channel.cancel()
        if self._pid == os.getpid():  # after a fork the threads are not here
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()

    def _start(self) -> None:
        label = self._stage.label.partition("(")[0]
        for i in range(self._width):
            thread = threading.Thread(target=self._run, name=f"headrace-{label}-{i}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        try:
            while self._one():
                pass
        except Cancelled:
            pass
        except BaseException as error:
            self.channel.fail(error)

    def _one(self) -> bool:
        """Take some rows on and work on them; False at the end of the input."""
        channel = self.channel
        with self._source_lock:
            want = channel.room(self._pace.rows)
            if channel.over:
                return False
            started = perf_counter_ns()
            item = self._source.pull(want)
            if item is END:
                channel.finish()
                return False
            ticket = Ticket(item.mark, item.rows, first=getattr(self._source, "leading", False))
            number = channel.issue(ticket, self._source.mark())
        pulled = perf_counter_ns()
        items = self._work(item)
        finished = perf_counter_ns()
        self._stage.worked(finished - pulled)
        self._pace.observe(max(items, key=lambda i: i.nbytes), finished - started)
        channel.put(number, items)
        return True


class Remaining:
    """The rows that an out-of-order stage had not handed over when its state was taken; see `Delivery.form`."""

    def __init__(self, reopen: Callable[[Mark], Source], form: dict[str, Mark]) -> None:
        start, rows = form["lead"]
        base = form["base"]
        self._lead: Source | None = reopen(base)
        self._lead.skip(start - ordinal(base), replay=True)
        self._lead_left = rows
        self._main = reopen(base)
        self._gaps = sorted([*map(tuple, form["done"]), (start, rows)])
        self.leading = True

    @property
    def ordinal(self) -> int:
        """Where the rows in order stand."""
        return self._main.ordinal

    def pull(self, want: int) -> Pulled:
        if self._lead is not None:
            if self._lead_left:
                item = self._lead.pull(min(want, self._lead_left))
                if item is not END:
                    self._lead_left -= item.rows
                    return item
            self._lead.close()
            self._lead = None
        self.leading = False
        for gap_start, gap_rows in self._gaps:
            here = self._main.ordinal
            if gap_start <= here < gap_start + gap_rows:
                self._main.skip(gap_start + gap_rows - here, replay=True)
            elif gap_start > here:
                want = min(want, gap_start - here)
                break
        return self._main.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        raise NotImplementedError("rows that were left over are pulled, not skipped")

    def mark(self) -> Mark:
        return self._main.mark()

    def close(self) -> None:
        if self._lead is not None:
            self._lead.close()
        self._main.close()
