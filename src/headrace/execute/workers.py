"""Worker threads: rows of an input, passed through a function, ahead of whoever pulls them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING

from headrace.block import Item
from headrace.execute.autotune import Climb, Depth
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
        width: int | Climb,
        limits: Callable[[int], Limits],
        depth: Depth | None = None,
        delivery: Delivery | None,
        stage: Stage,
        pace: Pace,
        remote: Processes | None = None,
    ) -> None:
        self._source = source
        self._work = work
        self._pass = run
        self._climb = width if isinstance(width, Climb) else None
        self._width = width.width if isinstance(width, Climb) else width
        self._limits = limits
        self._depth = depth
        self._stage = stage
        self._pace = pace
        self._remote = remote
        self._pending = Pending(own=False)
        self._source_lock = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._left: list[threading.Thread] = []
        self._resizing = threading.Lock()
        self._pid = os.getpid()
        self.channel = Channel(limits(self._width if depth is None else depth.size), run.memory, delivery)

    def pull(self, want: int) -> Pulled:
        if not self._threads:
            self._start()
        if not self._pending:
            self._fetch()
            if not self._pending:
                return END
        item = self._pending.pull(want)
        self.channel.release(item.rows)
        return item

    def _fetch(self) -> None:
        if self._depth is not None and self.channel.ran_dry():
            self.channel.allow(self._limits(self._depth.grow()))
        started = perf_counter_ns()
        for ticket in self.channel.get():
            self._pending.add(ticket.items or [])
        if self._climb is not None:
            self._climb.waited(perf_counter_ns() - started)

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
            with self._resizing:
                threads = [*self._threads.values(), *self._left]
            if self._remote is not None:
                self._remote.stop()
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join()
                self._pass.threads.discard(thread.ident or 0)
            if self._remote is not None:
                self._remote.close()
        self.channel.close()

    def _start(self) -> None:
        """Have as many threads as there are to be; those beyond end by themselves."""
        label = self._stage.label.partition("(")[0]
        with self._resizing:
            for i in range(self._width):
                if i in self._threads or (self.channel.over and self._threads):
                    continue
                thread = threading.Thread(target=self._run, args=(i,), name=f"headrace-{label}-{i}", daemon=True)
                self._threads[i] = thread
                thread.start()
                self._pass.threads.add(thread.ident or 0)

    def _resize(self, width: int) -> None:
        """More threads, or fewer, and as many rows ahead as suit them."""
        self._width = width
        self.channel.allow(self._limits(width))
        self._start()

    def _leave(self, number: int) -> bool:
        """Whether this thread is one too many, and may end."""
        if number < self._width:
            return False
        with self._resizing:
            if number < self._width:
                return False
            self._left.append(self._threads.pop(number))
            return True

    def _run(self, number: int) -> None:
        try:
            while not self._leave(number) and self._one():
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
        on_cpu = thread_time_ns() if self._climb is not None else 0
        items = self._work(item)
        finished = perf_counter_ns()
        self._stage.worked(finished - pulled)
        if items:
            self._pace.observe(max(items, key=lambda i: i.nbytes), finished - started)
        channel.put(number, items)
        climb = self._climb
        if climb is not None and climb.called(finished - pulled, thread_time_ns() - on_cpu):
            self._resize(climb.width)
        return True
