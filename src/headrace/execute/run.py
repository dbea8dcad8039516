"""Run a plan once: prepare, open, pull, close."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Protocol

from headrace import _native
from headrace.core.keys import ROOT
from headrace.core.types import SharedValues
from headrace.errors import ElementError
from headrace.execute.budget import POOLED_FRACTION, MemoryBudget, cpus, keep_heap, pool_bytes
from headrace.execute.context import OBJECTS, Context
from headrace.execute.inputs import Input, Opened, close_all
from headrace.execute.latencies import Latencies
from headrace.execute.origin import Patience
from headrace.execute.pool import ScanPolicy, pool
from headrace.execute.stages.autotune import Tuner
from headrace.execute.stats import Reports, Stage
from headrace.execute.stream import Pace, Pulled
from headrace.options import Options
from headrace.plan.marks import START, Mark, Marks
from headrace.plan.node import Node
from headrace.plan.prepared import Prepared

DEFAULTS = Options()
SCAN = ScanPolicy()
TRIM_BYTES = 8 << 20
"""After a pass that moved more bytes than this, the allocator returns memory to the system."""
REAP_SECONDS = 1.0
"""How long the garbage collector waits for the threads of an unreferenced pass. They end by themselves in any case."""


MAX_COPY_THREADS = 8
"""The most threads that copy the rows of one large batch: more would wait for memory bandwidth."""


class Waiting(Protocol):
    """An object that a thread may wait for. It is cancelled when the pass ends."""

    def cancel(self) -> None:
        """Wake all waiting threads."""
        ...


class Pass:
    """A running plan. It owns everything its streams share; closing it frees everything, however the pass ends.

    `prepare` makes a plan ready to run, also a nested one. `sizes` are buffer sizes that were chosen while running,
    `widths` numbers of threads that proved good: a dataset keeps both from one pass to the next.
    """

    def __init__(
        self,
        prepare: Callable[[Node], Prepared] = Prepared.of,
        *,
        block_rows: int | None = None,
        options: Options = DEFAULTS,
        sizes: dict[str, int] | None = None,
        widths: dict[str, int] | None = None,
        scan: ScanPolicy = SCAN,
    ) -> None:
        self.prepare = prepare
        self.block_rows = block_rows
        self.stepwise: bool = False
        self.options = options
        self.scan = scan
        self.stage: Stage = Stage("pass")
        self.sizes: dict[str, int] = {} if sizes is None else sizes
        self.memory: MemoryBudget = MemoryBudget(options.ram_budget)
        self.tuner: Tuner = Tuner(options.cpu_budget or cpus(), options.frozen, widths)
        _native.set_team(min(MAX_COPY_THREADS, options.cpu_budget or cpus()))
        keep_heap()
        _native.pool_keep(pool_bytes() if options.ram_budget is None else options.ram_budget // POOLED_FRACTION)
        self.open_streams: set[Input] = set()
        self.cancelled: bool = False
        self.live = False
        self.shared: SharedValues = {}
        self.counters: dict[str, Reports] = {}
        """Counters of the whole pass that `stats()` shows under these names."""
        self.threads: set[int] = set()
        self.pooled = False  # whether workers of the pool run parts of it
        self.origins: dict[int, str] | None = None
        self.patience: Patience = Patience()
        self._waiting: set[Waiting] = set()
        self._roots = Opened()
        self._root: Input | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()  # reentrant: the garbage collector may close a pass while it is held
        self._closing = threading.RLock()
        self._pass_memory = _native.PassMemory()

    def context(
        self,
        prepared: Prepared,
        *,
        path: int = ROOT,
        level: int = 0,
        with_ids: bool = False,
        any_order: bool = True,
        objects: bool = False,
    ) -> Context:
        """Return a context for opening a plan's nodes or fetching from them."""
        return Context(self, prepared, self.stage, self._roots, path, level, with_ids, any_order, objects=objects)

    def time_calls(self) -> None:
        """Record how long the calls of every stage take. Call this before the pass is opened."""
        self.stage.latencies = Latencies()

    def read_stepwise(self) -> None:
        """Read no row before it is needed: one by one, without threads. Call this before the pass is opened.

        How far an input is read then follows from the rows that were pulled alone.
        """
        self.stepwise, self.block_rows = True, 1

    def open(self, context: Context, marks: Marks = START, *, flush: bool = True) -> None:
        """Open the context's plan at these positions.

        A failure that was dropped with an incomplete group comes after the rows, unless `flush` is False: see
        `dropped`.
        """
        self._root = context.open(context.prepared.plan, marks, any_order=True, form=OBJECTS, flush=flush)

    @property
    def root(self) -> Input:
        """Return the input at the root of the plan; it must be open."""
        assert self._root is not None, "a pass is opened before rows are pulled"
        return self._root

    def pull(self, want: int) -> Pulled:
        """Return the next rows, at most `want`, or one failure, or END."""
        assert self._root is not None, "a pass is opened before rows are pulled"
        return self._root.pull(want)

    @property
    def dropped(self) -> ElementError | None:
        """Return the failure that was dropped with an incomplete group. It is known after the last row."""
        return self._roots.dropped

    def mark(self) -> Mark:
        """Return the mark of the next row."""
        return self.root.mark()

    def pace(self, *, threads: int = 0, remote: bool = False) -> Pace:
        """Return a new Pace for up to `threads` threads."""
        return Pace(self.block_rows, threads=min(threads, self.tuner.cpus), remote=remote)

    def cancel(self) -> None:
        """End every pull of this pass, and wake all threads that wait on a channel or a store."""
        self.cancelled = True
        with self._lock:
            waiting = list(self._waiting)
        for each in waiting:
            each.cancel()

    def is_cancelled(self) -> bool:
        """Return whether the pass was cancelled."""
        return self.cancelled

    def close(self) -> int:
        """Close every stream. Return the largest number of bytes that moved through one stage.

        After a fork the streams belong to the parent process.
        """
        if self._pid != os.getpid():
            return 0
        try:
            with self._closing:
                self.cancel()
                close_all(self._roots)
                self._root = None
                self.shared.clear()
        except Exception:
            raise
        except BaseException:  # an interrupt, which only the main thread gets: another thread finishes
            self._close_elsewhere()
            raise
        moved = self.stage.most_bytes()
        self._pass_memory.end(moved > TRIM_BYTES)
        return moved

    def _close_elsewhere(self) -> threading.Thread | None:
        """Close on a separate thread. Return None if the interpreter is shutting down and starts no more threads."""
        reaper = threading.Thread(target=self.close, name="headrace-reaper", daemon=True)
        try:
            reaper.start()
        except RuntimeError:
            self.close()
            return None
        return reaper

    def reap(self) -> None:
        """Close from the garbage collector, which may run on any thread and inside any lock: so on another thread."""
        self.cancel()
        if not self.threads and not self.pooled:
            self.close()
            return
        reaper = self._close_elsewhere()
        waits = self.pooled and pool().lock.locked()  # perhaps by this thread, and the reaper needs it
        if reaper is not None and threading.get_ident() not in self.threads and not waits:
            reaper.join(REAP_SECONDS)

    def watch(self, waiting: Waiting) -> None:
        """Register an object for `cancel`."""
        with self._lock:
            self._waiting.add(waiting)

    def forget(self, waiting: Waiting) -> None:
        """Unregister an object."""
        with self._lock:
            self._waiting.discard(waiting)
