"""Iterators: one pass over a dataset, which can be saved, restored, measured and closed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from collections.abc import Iterator as PythonIterator
from dataclasses import dataclass, field
from operator import length_hint
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from headrace import _native
from headrace.block import Block, Failure
from headrace.columns import read_only
from headrace.errors import NONSENSE, ElementError, HeadraceError, StateError
from headrace.execute import changes
from headrace.execute import state as states
from headrace.execute.autotune import Tuning
from headrace.execute.channel import Cancelled
from headrace.execute.passes import Pass
from headrace.execute.starvation import Meter
from headrace.execute.stats import Stats
from headrace.execute.stream import CROWD, END, End, Pulled
from headrace.ops.calling import Calling
from headrace.ops.calls import CallStream, One
from headrace.ops.merge_states import marks_among
from headrace.ops.with_options import merge_options
from headrace.optimise.rules import prepare, prepare_root
from headrace.plan.explain import summary
from headrace.plan.marks import START, Mark, Marked, SavedMark
from headrace.plan.node import Node, rebuild
from headrace.plan.prepared import Prepared

TRIM_BYTES = 8 << 20
"""A pass that moved more than this has the allocator give memory back when it closes."""


@dataclass
class Epochs:
    """The home of a dataset's epochs: which comes next, and the seeds that a restored state brought along.

    `told` hears of every change of the first. `sizes` are those of buffers that were chosen while running: the next
    epoch has the same. `widths` are numbers of threads that proved good: the next epoch begins with them.
    """

    next: int = 0
    seeds: list[int] | None = None
    told: Callable[[int], None] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Epochs, (self.next, self.seeds, None, self.sizes)

    def begin(self) -> int:
        """The number of a new pass."""
        with self.lock:
            number = self.next
            self._set(number + 1)
            return number

    def restore(self, state: dict[str, Any]) -> None:
        """Go on after a restored pass."""
        with self.lock:
            self._set(state["epoch"] + 1)
            self.seeds = state["seeds"]
            self.sizes = dict(state.get("sizes", {}))

    def _set(self, number: int) -> None:
        self.next = number
        if self.told is not None:
            self.told(number)


@dataclass(frozen=True)
class Settings:
    """How to run, where it makes no difference to the rows: for tests and for `headrace.testing`."""

    optimise: bool = True
    block_rows: int | None = None
    with_ids: bool = False
    frozen: bool = False


Standing: TypeAlias = tuple[Marked, int, int, PythonIterator[Any]]
"""Where a pass stands: the mark of what was pulled last, how many rows of the pass have come with it, how many are in
it, and the iterator whose `length_hint` says how many of these are left. Several threads may take rows from that; it is
the only one that counts them, and the four are replaced at once."""

_NOTHING_LEFT: PythonIterator[Any] = iter(())


def _rows_delivered(standing: Standing) -> int:
    """How many rows of the pass are given out."""
    return standing[1] - length_hint(standing[3])


def _place(standing: Standing) -> tuple[int, Marked]:
    """How many rows of the pass are given out, and the mark of the next."""
    mark, come, rows, left = standing
    waiting = length_hint(left)
    return come - waiting, mark.later(rows - waiting) if isinstance(mark, Mark) else mark


class Iterator(PythonIterator[Any]):
    """One pass over a dataset. Use it as a context manager, or let it go: either way nothing stays behind.

    >>> it = iter(hr.Dataset.range(4))
    >>> next(it), next(it)
    (np.int64(0), np.int64(1))
    >>> state = it.state()
    >>> list(it)
    [np.int64(2), np.int64(3)]
    >>> it.restore(state)
    >>> list(it)
    [np.int64(2), np.int64(3)]
    """

    def __init__(
        self,
        plan: Node,
        epochs: Epochs,
        settings: Settings = Settings(),
        state: Any = None,
        meter: Meter | None = None,
    ) -> None:
        self._epochs = epochs
        self._settings = settings
        self._lock = threading.RLock()
        self._pulling = False
        self._closed = False
        self._pid = os.getpid()
        self._moved = 0
        self._whole = False
        self._given_plan = plan = for_pass(plan)
        self._rows: PythonIterator[Any] = iter(())
        self._run: Pass | None = None
        self._calls: One | None = None
        self._finalizer: weakref.finalize[[], Iterator] | None = None
        self._last_stats = Stats(stages=[])
        self._last_tuning = Tuning(chosen={}, log=[])
        self._meter = meter or Meter()
        self._sizes = epochs.sizes
        if state is None:
            self._plan = states.with_seeds(plan, epochs.seeds) if epochs.seeds else plan
            self._begin(epochs.begin(), 0, SavedMark(START), over=False)
        else:
            self._adopt(state)

    def _begin(self, epoch: int, delivered: int, mark: Marked, *, over: bool) -> None:
        """Stand at a place, with nothing open yet."""
        self._epoch = epoch
        self._over = over
        self._resumed = bool(mark.marks())
        self._described: list[str] | None = None
        self._functions: dict[str, Any] = {}
        self._seeds: list[int] = []
        self._process: tuple[int, int, int] | None = None
        self._standing: Standing = (mark, delivered, 0, _NOTHING_LEFT)
        self._rows = iter(())

    def __repr__(self) -> str:
        end = ", closed" if self._closed else ", at its end" if self._over else ""
        given = _rows_delivered(self._standing)
        return summary("Iterator", self._plan, f", epoch {self._epoch}, {given:,} given{end}")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            for value in self._rows:
                return value
        except ElementError:
            raise
        except Exception as error:
            raise self.failure(error) from error
        except BaseException:
            self._interrupted()
            raise
        return self._next_block()

    def _interrupted(self) -> None:
        """A call did not come to its end: what was half done is done again from the last place."""
        with self._lock:
            self._shut()

    def failure(self, error: Exception) -> ElementError:
        """The error of the element given last, which could not be put together."""
        return self._plan.error(error, _rows_delivered(self._standing) - 1)

    def _next_block(self) -> Any:
        with self._lock:
            while True:
                try:
                    for value in self._rows:  # of a new block; or another thread was here first
                        return value
                except ElementError:
                    raise
                except Exception as error:
                    raise self.failure(error) from error
                except BaseException:
                    self._interrupted()
                    raise
                self._enter_next()

    def _enter_next(self) -> None:
        if self._over or self._closed:
            raise StopIteration
        self._meter.begin_wait()
        try:
            item = self._pull()
        except Cancelled:  # closed meanwhile
            raise StopIteration from None
        if self._calls is None or not isinstance(item, Block):  # else they are made yet
            self._meter.end_wait(self.stats)
        block = self._entered(item)
        if block is END:
            raise StopIteration
        if self._calls is not None:
            self._call_later(block, self._calls)
            return
        if self._settings.frozen:
            block.columns = [read_only(c) for c in block.columns]
        rows, left = block.counted_elements()
        self._standing = (block.mark, self._standing[1] + block.rows, block.rows, left)
        self._rows = rows

    def _call_later(self, block: Block, one: One) -> None:
        """Have the function called on each row of a block when somebody asks for it."""
        assert self._run is not None
        itself = weakref.ref(self)

        def stats() -> dict[str, Any]:
            found = itself()
            return {"stages": []} if found is None else found.stats()

        frozen = self._settings.frozen
        rows = Calling(block, self._run.root, one, self._lock, self._meter, stats, frozen=frozen)
        self._standing = (block.mark, self._standing[1] + block.rows, block.rows, rows)
        self._rows = rows

    def _entered(self, item: Pulled) -> Block | Literal[End.END]:
        """What was pulled, or the end; a failure is passed, and raised."""
        if item is END:
            self._over = True
            self._shut(trim=False)  # the next epoch may want the same memory at once
        elif isinstance(item, Failure):
            self._standing = (item.mark, self._standing[1] + 1, 1, _NOTHING_LEFT)
            raise item.error.copy()
        return item

    def _pull(self) -> Pulled:
        self._pulling = True
        try:
            run = self._run
            if run is None or self._pid != os.getpid():
                run = self._open()
            started = perf_counter_ns()
            item = run.pull(self._pace.rows)
            if item is not END:
                self._pace.observe(item, perf_counter_ns() - started)
            return item
        except BaseException as error:
            self._shut()  # whatever was half done is done again from the last place
            if self._resumed and isinstance(error, NONSENSE) and not isinstance(error, HeadraceError):
                raise StateError(f"the pass cannot go on from this state: {type(error).__name__}: {error}") from error
            raise
        finally:
            self._pulling = False
            if self._closed:
                self._shut()

    def _open(self) -> Pass:
        """Start running at the place where this pass stands; after a fork, in the child, once more."""
        settings = self._settings
        run = Pass(
            prepare if settings.optimise else Prepared.of,
            block_rows=settings.block_rows,
            options=merge_options(self._plan),
            sizes=self._sizes,
            widths=self._epochs.widths,
        )
        prepared = prepare_root(self._plan) if settings.optimise else Prepared.of(self._plan)
        context = run.context(prepared, with_ids=settings.with_ids, objects=not self._whole).epoch(self._epoch)
        self._pid = os.getpid()
        self._run = run
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, run.reap)
        plan = prepared.plan
        free = self._whole or plan.pure or plan.ready_made or settings.block_rows
        self._pace = run.pace() if free else _one_by_one
        delivered, place = _place(self._standing)
        try:
            run.open(context, place.marks())
        except BaseException:
            self._shut()
            raise
        self._standing = (place, delivered, 0, _NOTHING_LEFT)
        calls = run.root.stream
        if free and calls.handed_over:
            self._pace = run.pace(threads=CROWD)
        if not self._whole and not settings.with_ids and isinstance(calls, CallStream) and not run.root.holds_rows:
            self._calls = calls.give_as_read()
            self._pace = self._pace if self._calls is None else run.pace()
        return run

    def blocks(self) -> PythonIterator[Block]:
        """What is left of a pass that nobody has read elements of, by blocks: for those who move whole columns."""
        self._whole = True
        while not self._over:
            with self._lock:
                item = self._entered(self._pull())
                if item is END:
                    return
                self._standing = (item.mark, self._standing[1] + item.rows, item.rows, _NOTHING_LEFT)
            yield item

    def state(self) -> dict[str, Any]:
        """Where this pass stands: a small dict that JSON can hold. Takes microseconds, and nothing is drained."""
        if self._described is None:
            self._described = states.description(self._plan)
            self._process = states.process_of(self._plan)
            self._seeds = states.drawn_seeds(self._plan)
            self._functions = {} if merge_options(self._plan).on_change == "ignore" else changes.digests(self._plan)
        over = self._over  # looked at first: what is given out before the end stays given out
        delivered, place = _place(self._standing)
        return states.make_state(
            self._seeds,
            self._described,
            self._epoch,
            delivered,
            place.marks(),
            over=over,
            sizes=self._sizes,
            functions=self._functions,
            process=self._process,
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a place that `state()` gave, of this iterator or of one over an equal pipeline."""
        with self._lock:
            if self._closed:
                raise HeadraceError("the iterator is closed; make one with ds.iterator(state=...)")
            plan = for_pass(self._given_plan)
            states.check(state, plan)
            self._given_plan = plan
            self._shut()
            self._adopt(state)

    def _adopt(self, state: dict[str, Any]) -> None:
        states.check(state, self._given_plan)
        marks = marks_among(state, self._given_plan)
        changes.compare(state.get("functions", {}), self._given_plan, merge_options(self._given_plan).on_change)
        self._plan = states.with_seeds(self._given_plan, state["seeds"])
        self._begin(state["epoch"], state["delivered"], SavedMark(marks), over=state["over"])
        self._epochs.restore(state)
        self._sizes = self._epochs.sizes

    def stats(self) -> Stats:
        """What each stage has done so far: rows, blocks, bytes, busy and waiting seconds. Prints as a table.

        `stats()["starvation"]` says how long the consumer waited for data, and how long it was busy with them;
        `stats()["memory"]` how many bytes of large arrays this process holds (`in_use`), keeps for the next ones
        (`idle`) and has page-locked for a device (`pinned`), and how often memory was `taken` and `reused`.
        """
        if self._run is not None:
            self._last_stats = self._report(self._run)
        self._last_stats["starvation"] = self._meter.report()
        self._last_stats["memory"] = _native.pool_stats()
        return self._last_stats

    def _report(self, run: Pass) -> Stats:
        stages = [line for stage in run.stage.inputs.values() for line in stage.report()]
        return Stats(epoch=self._epoch, delivered=_rows_delivered(self._standing), stages=stages)

    def tuning(self) -> Tuning:
        """What AUTOTUNE has chosen so far, stage by stage, and why; `ds.with_options(frozen=...)` repeats it.

        >>> it = iter(hr.Dataset.range(10).map(lambda x: x + 1, num_parallel_calls=hr.AUTOTUNE))
        >>> _ = list(it)
        >>> list(it.tuning()["chosen"])
        ['/map']
        """
        if self._run is not None:
            self._last_tuning = self._run.tuner.report()
        return self._last_tuning

    def close(self) -> None:
        """End the pass and free all it holds, as soon as the user call in flight returns."""
        self._closed = True
        run = self._run
        if self._pid != os.getpid():
            return  # what is open belongs to the process this one was forked from
        if run is None:
            self._trim()
            return
        run.cancel()
        if threading.get_ident() in run.threads:
            return  # a user's function on one of our own threads: whoever pulls closes
        with self._lock:
            if not self._pulling:  # else this is a user's function inside our own pull, which closes when it returns
                self._shut()

    def abandon(self) -> None:
        """Close as if nobody held this iterator any more, from wherever the collector may run; its state stays."""
        self._closed = True
        self._rows = iter(())
        if self._finalizer is not None:
            self._finalizer()
        self.stats()
        self._run = None

    def _trim(self) -> None:
        """Give memory back to the system, where enough was moved to be worth it."""
        moved, self._moved = self._moved, 0
        if moved > TRIM_BYTES:
            _native.release_memory()

    def _shut(self, *, trim: bool = True) -> None:
        self._rows = iter(())
        run, self._run, self._calls = self._run, None, None
        if run is not None:
            self._last_stats = self._report(run)
            self._last_tuning = run.tuner.report()
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if run is not None:
            self._moved += run.close()
        if trim:
            self._trim()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def for_pass(plan: Node) -> Node:
    """The plan of one pass, which learns of its files by itself."""
    options = merge_options(plan)
    return rebuild(plan, lambda node: node.for_pass(options))


class _OneByOne:
    """The pace of a plan in which somebody may watch rows being made: no row before it is begin_wait for."""

    rows = 1

    def observe(self, item: Block | Failure, nanoseconds: int) -> None:
        """Nothing to learn."""


_one_by_one = _OneByOne()
