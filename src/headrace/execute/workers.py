"""Worker threads: rows of an input, passed through a function, ahead of whoever pulls them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING

from headrace.block import Item
from headrace.execute.channel import Cancelled, Channel, Limits, Ticket
from headrace.execute.stream import END, Pace, Pending, Pulled, Source, Stream
from headrace.execute.unordered import Delivery, Remaining

if TYPE_CHECKING:
    from headrace.execute.context import Run
    from headrace.execute.processes import Processes
    from headrace.execute.stats import Stage

Work = Callable[[Item], list[Item]]


def unchanged(item: Item) -> list[Item]:
    """The work of a stage that only runs ahead."""
    return [item]


class Ahead(Stream):
    """What `work` makes of the rows of `source`, made by `width` threads before it is asked for.

    Without a `delivery` it is handed over in order, with one as soon as it is made. `remote`
    are the processes that do the work.
    """

    def __init__(
        self,
        source: Source,
        work: Work,
        run: Run,
        *,
        width: int,
        limits: Limits,
        delivery: Delivery | None,
        stage: Stage,
        pace: Pace,
        remote: Processes | None = None,
    ) -> None:
        self._source = source
        self._work = work
        self._pass = run
        self._width = width
        self._stage = stage
        self._pace = pace
        self._remote = remote
        self._pending = Pending(own=False)
        self._source_lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._pid = os.getpid()
        self.channel = Channel(limits, delivery)

    def pull(self, want: int) -> Pulled:
        if not self._threads:
            self._start()
        if not self._pending:
            for ticket in self.channel.get():
                self._pending.add(ticket.items or [])
            if not self._pending:
                return END
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
            if self._remote is not None:
                self._remote.stop()
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()
                self._pass.threads.discard(thread.ident or 0)
            if self._remote is not None:
                self._remote.close()

    def _start(self) -> None:
        label = self._stage.label.partition("(")[0]
        for i in range(self._width):
            thread = threading.Thread(target=self._run, name=f"headrace-{label}-{i}", daemon=True)
            thread.start()
            self._threads.append(thread)
            self._pass.threads.add(thread.ident or 0)

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
            want = channel.room(1 if self._pass.live else self._pace.rows)
            if channel.over:
                return False
            started = perf_counter_ns()
            item = self._source.pull(want)
            if item is END:
                channel.finish()
                return False
            first = isinstance(self._source, Remaining) and self._source.leading
            ticket = Ticket(item.mark, item.rows, first)
            number = channel.issue(ticket, self._source.mark())
        pulled = perf_counter_ns()
        items = self._work(item)
        finished = perf_counter_ns()
        self._stage.worked(finished - pulled)
        if items:
            self._pace.observe(max(items, key=lambda i: i.nbytes), finished - started)
        channel.put(number, items)
        return True
