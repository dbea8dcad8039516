"""One run of a plan, whoever wants its rows: prepare, open, pull, close."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from headrace import _native
from headrace.errors import ElementError
from headrace.execute.autotune import Tuner
from headrace.execute.budget import POOLED, MemoryBudget, cpus, keep_heap, pool_bytes
from headrace.execute.context import OBJECTS, Context
from headrace.execute.inputs import Input, Opened, close_all
from headrace.execute.origin import Patience
from headrace.execute.pool import ScanPolicy, pool
from headrace.execute.stats import Stage
from headrace.execute.stream import Pace, Pulled
from headrace.keys import ROOT
from headrace.options import Options
from headrace.plan.marks import START, Mark, Marks
from headrace.plan.node import Node
from headrace.plan.prepared import Prepared

DEFAULTS = Options()
SCAN = ScanPolicy()
TRIM_BYTES = 8 << 20
"""A pass that moved more than this has the allocator give memory back when it ends."""
REAP_SECONDS = 1.0
"""How long the collector waits for the threads of a pass that nobody holds; they end by themselves in any case."""


TEAM = 8
"""So many threads copy the rows of one large batch at most: more wait for memory, not for processors."""


class Waiting(Protocol):
    """What somebody may wait for, and is told when the pass ends."""

    def cancel(self) -> None:
        """Wake up whoever waits."""
        ...


class Pass:
    """A plan that runs. What all its streams share hangs on it; closing it frees everything, however the pass ends.

    `prepare` makes a plan ready to run, nested ones too. `sizes` are those of buffers that were chosen while running,
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
        self.options = options
        self.scan = scan
        self.stage = Stage("pass")
        self.sizes = {} if sizes is None else sizes
        self.memory = MemoryBudget(options.ram_budget)
        self.tuner = Tuner(options.cpu_budget or cpus(), options.frozen, widths)
        _native.set_team(min(TEAM, options.cpu_budget or cpus()))
        keep_heap()
        _native.pool_keep(pool_bytes() if options.ram_budget is None else options.ram_budget // POOLED)
        self.open_streams: set[Input] = set()
        self.cancelled = False
        self.live = False
        self.shared: dict[Any, Any] = {}
        self.threads: set[int] = set()
        self.pooled = False  # whether workers of the pool run parts of it
        self.origins: dict[int, str] | None = None
        self.patience = Patience()
        self._waiting: set[Waiting] = set()
        self._roots = Opened()
        self._root: Input | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()  # the collector may close a pass from within
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
        """Where the nodes of a plan are opened, or fetched from."""
        return Context(self, prepared, self.stage, self._roots, path, level, with_ids, any_order, objects=objects)

    def open(self, context: Context, marks: Marks = START, *, flush: bool = True) -> None:
        """Begin: the rows of the context's plan, from these positions on.

        A failure that was dropped with an incomplete group comes after them, unless `flush` is False: see `dropped`.
        """
        self._root = context.open(context.prepared.plan, marks, any_order=True, form=OBJECTS, flush=flush)

    @property
    def root(self) -> Input:
        """The rows of the plan; it must be open."""
        assert self._root is not None, "a pass is opened before rows are pulled"
        return self._root

    def pull(self, want: int) -> Pulled:
        """The next rows, at most `want`, or one failure, or END."""
        assert self._root is not None, "a pass is opened before rows are pulled"
        return self._root.pull(want)

    @property
    def dropped(self) -> ElementError | None:
        """The failure that was dropped with an incomplete group, known once the rows are at their end."""
        return self._roots.dropped

    def mark(self) -> Mark:
        """Where the next row lies."""
        return self.root.mark()

    def pace(self, *, threads: int = 0, remote: bool = False) -> Pace:
        """A fresh measure of how many rows to ask for, with up to so many threads."""
        return Pace(self.block_rows, threads=min(threads, self.tuner.cpus), remote=remote)

    def cancel(self) -> None:
        """Have every pull of this pass end, and wake up everybody who waits on a channel or for a store."""
        self.cancelled = True
        with self._lock:
            waiting = list(self._waiting)
        for each in waiting:
            each.cancel()

    def is_cancelled(self) -> bool:
        """Whether nobody wants any more rows."""
        return self.cancelled

    def close(self) -> int:
        """Close every stream; how many bytes moved, at the stage where most did.

        After a fork they belong to the other process.
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
        except BaseException:  # an interrupt, which only the main thread gets: another one finishes
            self._close_elsewhere()
            raise
        moved = self.stage.most_bytes()
        self._pass_memory.end(moved > TRIM_BYTES)
        return moved

    def _close_elsewhere(self) -> threading.Thread | None:
        """Close on a thread of its own; None if the interpreter is going down and starts no more threads."""
        reaper = threading.Thread(target=self.close, name="headrace-reaper", daemon=True)
        try:
            reaper.start()
        except RuntimeError:
            self.close()
            return None
        return reaper

    def reap(self) -> None:
        """Close when the collector comes by, which may be on any thread, whatever it holds: so not on that one."""
        self.cancel()
        if not self.threads and not self.pooled:
            self.close()
            return
        reaper = self._close_elsewhere()
        waits = self.pooled and pool().lock.locked()  # perhaps by this thread, and the reaper needs it
        if reaper is not None and threading.get_ident() not in self.threads and not waits:
            reaper.join(REAP_SECONDS)

    def watch(self, waiting: Waiting) -> None:
        """Have `cancel` reach this."""
        with self._lock:
            self._waiting.add(waiting)

    def forget(self, waiting: Waiting) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._waiting.discard(waiting)
