"""Worker threads: apply a function to the rows of an input, ahead of the consumer."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, NamedTuple

from headrace.columns.block import Block, Item
from headrace.columns.lazy_block import look_at
from headrace.columns.refs import CorruptRecordsError
from headrace.errors import StateError
from headrace.execute.inputs import Input
from headrace.execute.latencies import Latencies, ObservedInput
from headrace.execute.pool.bell import Bell, start_thread
from headrace.execute.stages.autotune import Climb, Depth
from headrace.execute.stages.channel import NO_ROOM, Cancelled, Channel, Limits, Ticket
from headrace.execute.stages.row_work import ROW_TIMES, RowsInTheMaking, RowWork, timed
from headrace.execute.stages.run_delay import RUN_DELAY
from headrace.execute.stages.shared_source import Dealer
from headrace.execute.stages.unordered import Delivery, Remaining
from headrace.execute.stream import END, Made, Pace, Pulled, Source, Stream
from headrace.plan.capabilities import provides
from headrace.plan.marks import NOWHERE, Mark

if TYPE_CHECKING:
    from headrace.execute.processes.block_workers import Processes
    from headrace.execute.run import Pass
    from headrace.execute.stats import Stage
    from headrace.plan.node import Node

Work = Callable[[Item], list[Item]]
Reopen = Callable[[Mark, CorruptRecordsError], tuple[Source, Work]]


def do_nothing(item: Item) -> list[Item]:
    """Return the item unchanged: the work of a stage that only reads ahead."""
    return [item]


def rows_key(stage: Stage) -> str:
    """Return the key under which a dataset keeps how many rows the threads of a stage take at a time."""
    return f"{stage.path} rows"


NEXT_ROWS_SECONDS = 0.001
"""How long a thread waits for the next rows while its process works on others."""
GRACE_SECONDS = 0.1
"""How long processes may take to end calls that are no longer needed. Then they are killed."""
ALIGN_ATTEMPTS, SHORT_PULL_COST = 16, 4
"""A budget of attempts to request whole batches, and what an input that returned fewer rows costs of it."""
MAX_LOT_BYTES = 8 << 20
"""The most bytes of rows that are handed over together."""
START_SECONDS = 1.0
"""How long a thread may take to begin if an interrupt hit its start and it may never run."""


class Taken(NamedTuple):
    """Rows that a thread has taken: the number of their ticket, and when."""

    item: Item
    number: int
    started: int
    making: RowsInTheMaking | None


class Thread(threading.Thread):
    """A thread that can be joined even if an interrupt hit its start."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(target=work, name=name, daemon=True)
        self._begun = threading.Event()

    def run(self) -> None:
        self._begun.set()
        super().run()

    def finish(self) -> None:
        """Wait for the end, unless it never began."""
        if self._begun.wait(START_SECONDS):
            self.join()


@dataclass(frozen=True)
class Task:
    """Describe the work on rows, and how they are taken.

    Attributes:
        work: What is done with each item.
        one_by_one: Whether rows are taken one by one, else in blocks.
        one_to_one: Whether `work` makes one row of each.
        remote: The processes that do the work.
        lot: Rows that go one by one are grouped up to this many if that takes no longer than a hand-over is worth.
        lots: A consumer that does the work itself processes up to this many items per call, as many as the source
            gives.
        whole: Whether rows are taken as many at a time as the consumer requests.
        unseen: Whether the number of threads and the time of the work are unobservable. Then the number is tuned.
        written: The node that gives the same rows with no work to do, to continue if lazily read records prove
            corrupt.
    """

    work: Work = do_nothing
    one_by_one: bool = True
    one_to_one: bool = True
    remote: Processes | None = None
    lot: int = 1
    lots: int = 1
    whole: bool = False
    unseen: bool = False
    written: Node | None = None


@dataclass(frozen=True)
class Flow:
    """How many threads work, and how far ahead.

    Attributes:
        width: The number of threads, or the search for it. At 0 the consumer does the work when it asks for rows.
        limits: For a number of threads or the present depth, how much may be ahead.
        delivery: If given, results are handed over as soon as they are made, else in order.
        depth: The search for how far ahead rows are read.
        reopen: Gives the source from a mark on, if lazily read records prove corrupt, and the work that is left to do.
    """

    width: int | Climb
    limits: Callable[[int], Limits]
    delivery: Delivery | None = None
    depth: Depth | None = None
    reopen: Reopen | None = None


class WorkerStream(Stream):
    """Apply a task to the rows of `source` on threads, ahead of the consumer."""

    def __init__(self, source: Source, task: Task, flow: Flow, run: Pass, stage: Stage, pace: Pace) -> None:
        work, width = task.work, flow.width
        self._source = source
        self._lots, self._lot = task.lots, 1
        self._reopen = flow.reopen
        self._next = NOWHERE if flow.reopen is None else source.mark()
        self._work = work
        self._in_turn = work if work is not do_nothing and provides(work, RowWork) else None
        self._pass = run
        self._climb = width if isinstance(width, Climb) else None
        self._width = width.width if isinstance(width, Climb) else width
        self._limits = flow.limits
        self._depth = flow.depth
        self._stage = stage
        self._pace = pace
        self._one_to_one = task.one_to_one
        self._unit = 0  # the size of the first request: a batch, if there are batches
        self._patience = ALIGN_ATTEMPTS
        self._begun = 0  # rows that were taken
        self._remote = task.remote
        self._pending: deque[Item] = deque()
        self._made = 0  # pending rows that were made by the consumer's thread
        self._dealer = Dealer[Taken]()
        self._threads: dict[int, Thread] = {}
        self._left: list[Thread] = []
        self._resizing = threading.Lock()
        self._pid = os.getpid()
        self.channel: Channel = Channel(self._allowed(), run.memory, flow.delivery)
        run.watch(self.channel)
        stage.add_queue(self.channel)

    def _allowed(self) -> Limits:
        if self._width == 0:
            return NO_ROOM
        return self._limits(self._width if self._depth is None else self._depth.size)

    @property
    def handed_over(self) -> bool:
        if self._work is not do_nothing:
            return self._width > 0
        return self._width == 0 and isinstance(self._source, Input) and self._source.stream.handed_over

    def pull(self, want: int) -> Made:
        pending = self._pending
        while not pending:
            if not self._fetch(want):
                return END
        item = pending.popleft()
        if item.rows > want:  # rows count as ahead until they are requested
            pending.appendleft(item.cut(want, item.rows))
            item = item.cut(0, want)
        if self._made:
            self._made -= item.rows
        else:
            self.channel.release(item.rows)
        return item

    def _fetch(self, want: int) -> bool:
        """Add pending rows, perhaps none yet. Return False at the end."""
        self._unit = self._unit or want
        self._pace.request(want)
        if self._width and not self._threads:
            self._pace.grow_to(want)
            self._start()
        started = perf_counter_ns()
        here = self._width == 0 and self.channel.at_rest()
        try:
            made = self._made_here(want) if here else self._handed_over(want)
        except CorruptRecordsError as error:
            if self._reopen is None:  # then the consumer that accepted lazy rows re-reads them
                raise
            self._read_again(error)
            return True
        climb = self._climb
        if climb is not None and climb.learn_delivery(len(made), sum(made), perf_counter_ns() - started):
            self.resize(climb.width)
        return bool(made)

    def _read_again(self, corrupt: CorruptRecordsError) -> None:
        """Start again after the rows that were handed over, eagerly."""
        assert self._reopen is not None, "lazy rows need a consumer that can re-read them"
        self._stop()
        self._source.close()
        self._threads.clear()
        self._left.clear()
        self.channel = Channel(self._allowed(), self._pass.memory)
        self._pass.watch(self.channel)
        self._stage.add_queue(self.channel)
        try:
            self._source, self._work = self._reopen(self._next, corrupt)
        except StateError as error:
            self.channel.fail(error)
        if self._pass.cancelled:
            self._source.close()
            raise Cancelled

    def _handed_over(self, want: int) -> list[int]:
        """Take finished tickets for a request of `want` rows. Return how many rows each call made."""
        if self._depth is not None and self.channel.ran_dry():
            self._depth.grow()
            self.channel.allow(self._allowed())
        made = []
        for ticket in self.channel.get(want):
            items = ticket.items or []
            self._next = ticket.mark.later(ticket.rows)
            self._pending.extend(items)
            made.append(sum(item.rows for item in items))
            if made[-1] < ticket.rows:  # some were dropped and will not be released later
                self.channel.release(ticket.rows - made[-1])
        return made

    def _made_here(self, want: int) -> list[int]:
        """Run one call in the consumer's thread, on as many rows as threads would take if that is allowed."""
        started = perf_counter_ns()
        free = self._work is not do_nothing and self._limits(1).rows is None and not self._pass.live
        if self._in_turn is not None:
            want = 1
        elif free:
            want = self._pace.grow_to(want)
        want = max(want, self._lot)
        item = self._pull(want, aligned=free)
        if item is END:
            return []
        if item.rows == want and 2 * item.nbytes <= MAX_LOT_BYTES:
            self._lot = min(2 * self._lot, self._lots)
        items = self._worked(item)
        rows = sum(i.rows for i in items)
        self._learn(item, items, started)
        self._next = item.mark.later(item.rows)
        self._pending.extend(items)
        self._made = rows
        return [rows]

    def _pull(self, want: int, *, aligned: bool = True) -> Pulled:
        """Pull at most `want` rows, if possible up to the end of a batch, which is then contiguous.

        This is tried as long as the input mostly returns as many rows as requested. An input with its own block sizes
        keeps those.
        """
        unit = self._unit if self._one_to_one and aligned and self._patience > 0 else 0
        end = (self._begun + want) // unit * unit if unit else 0
        rows = end - self._begun if end > self._begun else want
        item = self._source.pull(rows)
        if item is not END:
            self._begun += item.rows
            if self._patience > 0:
                self._patience = (
                    min(ALIGN_ATTEMPTS, self._patience + 1) if item.rows == rows else self._patience - SHORT_PULL_COST
                )
        return item

    def _worked(self, item: Item) -> list[Item]:
        watched = self._climb if self._climb is not None and self._climb.looks() else None
        on_cpu = 0 if watched is None else thread_time_ns()
        started = perf_counter_ns()
        items = self._work(item) if self._stage.latencies is None else self._observed_work(item)
        if self._work is not do_nothing:
            look_at(item)
        took = perf_counter_ns() - started
        self._stage.add_work(took)
        if watched is not None:
            watched.learn_work(item.rows, took, thread_time_ns() - on_cpu, RUN_DELAY.since_last())
        return items

    def skip(self, count: int, *, replay: bool = False) -> int:
        unseen = self._reopen is not None  # then reading ahead is unobservable
        if not ((replay or unseen) and self._one_to_one and not self._threads and not self._pending):
            return 0
        if not unseen:
            return self._source.skip(count, replay=True)
        try:
            done = self._source.skip(count, replay=replay)
        except CorruptRecordsError as error:
            self._read_again(error)
            if self.channel.over:
                return 0
            done = self._source.skip(count, replay=replay)
        self._next = self._source.mark()
        return done

    def ready(self, heard: Bell) -> bool:
        """Start the threads. Return whether `pull` would not block; if False, `heard` is rung once it would not."""
        if self._width and not self._threads:
            self._start()
        return bool(self._pending) or self.channel.ready(heard) or (self._width == 0 and self.channel.at_rest())

    def close(self) -> None:
        if self._threads:
            self._pass.tuner.widths[rows_key(self._stage)] = self._pace.rows
        self._stop()

    def _stop(self) -> None:
        """End the threads, and drop what they made."""
        self.channel.cancel()
        if self._pid == os.getpid():  # after a fork the threads are not here
            with self._resizing:
                threads = [*self._threads.values(), *self._left]
            if self._remote is not None:
                self._end_calls(self._remote, threads)
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.finish()
                self._pass.threads.discard(thread.ident or 0)
            if self._remote is not None:
                self._remote.close()
        self.channel.close()
        self._pass.forget(self.channel)
        self._stage.remove_queue(self.channel)

    def _end_calls(self, remote: Processes, threads: list[Thread]) -> None:
        """Wait a little for busy processes, which could serve another pass, and end those that continue."""
        deadline = monotonic() + GRACE_SECONDS
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))
        remote.stop({thread.ident or 0 for thread in threads if thread.is_alive()}, deadline)

    def _start(self) -> None:
        """Start missing threads. Superfluous threads end by themselves."""
        label = self._stage.label.partition("(")[0]
        with self._resizing:
            self._stage.threaded = True
            for i in range(self._width):
                if i in self._threads or (self.channel.over and self._threads):
                    continue
                self._threads[i] = thread = Thread(f"headrace-{label}-{i}", partial(self._run, i))
                start_thread(thread)
                self._pass.threads.add(thread.ident or 0)

    def resize(self, width: int) -> None:
        """Change the number of threads, and the read-ahead to suit. Called by the consumer."""
        self._width = width
        self.channel.allow(self._allowed())
        if width and self._threads:
            self._start()

    def _leave(self, number: int) -> bool:
        """Return whether this thread is superfluous and may end."""
        if number < self._width:
            return False
        with self._resizing:
            if number < self._width:
                return False
            self._left.append(self._threads.pop(number))
            return True

    def _run(self, number: int) -> None:
        self._pass.threads.add(threading.get_ident())
        try:
            if self._remote is not None:
                self._run_remotely(self._remote)
            while not self._leave(number) and (taken := self._take()) is not None:
                if taken.making is not None:
                    self._make_in_turn(taken, taken.making)
                    continue
                items = self._worked(taken.item)
                self._learn(taken.item, items, taken.started)
                self.channel.put(taken.number, items)
        except Cancelled:
            pass
        except BaseException as error:
            self.channel.fail(error)

    def _run_remotely(self, remote: Processes) -> None:
        """Send the next rows to a process while this thread receives its last results."""
        remote.start()
        taken, free = self._take(), 0
        while taken is not None:
            following = self._take(NEXT_ROWS_SECONDS) if remote.send_ahead(taken.item) else None
            if following is not None:
                remote.send_ahead(following.item)
            items = self._worked(taken.item)
            if not remote.had_to_wait():
                self._learn(taken.item, items, max(taken.started, free))
            self.channel.put(taken.number, items)
            free = perf_counter_ns()
            taken = following or self._take()

    def _take(self, seconds: float = -1) -> Taken | None:
        """Take some rows within `seconds`. Return None at the end of the input, too."""
        return self._dealer.take(self._next_rows, seconds)

    def _next_rows(self, wait: bool) -> Taken | None:
        """Return rows for a thread, waiting for room if `wait`. Return None at the end of the input."""
        channel = self.channel
        try:
            want = channel.room(1 if self._pass.live else self._pace.rows, wait=wait)
            if channel.over or not want:
                return None
            started = perf_counter_ns()
            item = self._pull(want)
            if item is END:
                channel.finish()
                return None
            first = isinstance(self._source, Remaining) and self._source.leading
            making = None
            if self._in_turn is not None and item.rows > 1 and isinstance(item, Block):
                making = RowsInTheMaking(self._in_turn, item)
            ticket = Ticket(item.mark, item.rows, first, making=making)
            number = channel.issue(ticket, self._source.mark())
        except Cancelled:
            raise
        except BaseException as error:
            channel.fail(error)  # before another thread can read a source that failed half-way
            raise
        return Taken(item, number, started, making)

    def _make_in_turn(self, taken: Taken, making: RowsInTheMaking) -> None:
        """Make rows with a user's function, handing over each as soon as it is made."""
        channel, item, work = self.channel, taken.item, self._in_turn
        assert isinstance(item, Block)
        assert work is not None, "a stage that makes rows one by one needs `begin`"
        climb = self._climb if self._climb is not None and self._climb.looks() else None
        on_cpu, started = thread_time_ns(), perf_counter_ns()
        begun = work.begin(item)
        if not isinstance(begun, list):
            for made, took in timed(begun):
                if self._pass.cancelled:
                    raise Cancelled
                making.add(made, took)
                if channel.hungry:
                    channel.tell_of_row()
        channel.end_making(taken.number)
        items = begun if isinstance(begun, list) else making.rest()
        took = perf_counter_ns() - started
        self._stage.add_work(took)
        if climb is not None:
            climb.learn_work(item.rows, took, thread_time_ns() - on_cpu, RUN_DELAY.since_last())
        nbytes = max(item.nbytes, sum(i.nbytes for i in items))
        self._pace.learn(item.rows, nbytes, making.nanoseconds() or took)
        if self._stage.latencies is not None:
            self._keep_latencies(self._stage.latencies, item.mark, making)
        channel.put(taken.number, items)

    def _observed_work(self, item: Item) -> list[Item]:
        """Do the work, and keep how long it took."""
        outer, ROW_TIMES.kept = ROW_TIMES.kept, []
        started = perf_counter_ns()
        try:
            items = self._work(item)
        finally:
            calls, ROW_TIMES.kept = ROW_TIMES.kept, outer
        if self._stage.latencies is not None and isinstance(self._source, ObservedInput):
            self._source.keep(self._stage.latencies, perf_counter_ns() - started, item, calls)
        return items

    def _keep_latencies(self, latencies: Latencies, mark: Mark, making: RowsInTheMaking) -> None:
        """Keep how long each row took, and where it came from."""
        if isinstance(self._source, ObservedInput):
            for row, took in enumerate(making.times()):
                latencies.add(took, 1, self._source.origin(mark.later(row)))

    def _learn(self, item: Item, items: list[Item], started: int) -> None:
        nbytes = max(item.nbytes, sum(i.nbytes for i in items))
        self._pace.learn(item.rows, nbytes, perf_counter_ns() - started)
