"""Iterators: one pass over a dataset, which can be saved, restored, measured and closed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from collections.abc import Iterator as PythonIterator
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import TracebackType
from typing import Any, NamedTuple, Self

from headrace import _native
from headrace.block import Block, Failure
from headrace.columns import read_only
from headrace.errors import NONSENSE, ElementError, HeadraceError, StateError
from headrace.execute import changes
from headrace.execute import state as states
from headrace.execute.autotune import Tuning
from headrace.execute.budget import cpus
from headrace.execute.channel import Cancelled
from headrace.execute.passes import TRIM_BYTES, Pass
from headrace.execute.pool import TINY_CUTS, ScanPolicy
from headrace.execute.starvation import Meter
from headrace.execute.stats import Stats
from headrace.execute.stream import CROWD, END, Pulled
from headrace.ops.calling import Calling
from headrace.ops.calls import CallStream, One
from headrace.ops.merge_states import marks_among
from headrace.ops.with_options import merge_options
from headrace.physical.lower import NestedPlans, prepare_pass, pulls_blocks
from headrace.plan.capabilities import ReadsFiles, begin_pass
from headrace.plan.explain import summary
from headrace.plan.marks import START, Mark, Marked, SavedMark
from headrace.plan.node import Node, rebuild
from headrace.plan.prepared import Prepared


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
    tiny_cuts: bool = False


@dataclass(frozen=True)
class Course:
    """What a pass runs over: the plan as given and with its seeds, the epoch, and sizes of buffers."""

    given_plan: Node
    plan: Node
    epoch: int
    sizes: dict[str, int]
    resumed: bool


class Place(NamedTuple):
    """A position of a pass: the mark of the next row, and how many rows came before it."""

    course: Course
    mark: Marked
    delivered: int
    over: bool = False

    def later(self, rows: int) -> Place:
        """The position so many rows further on."""
        if not rows:
            return self
        mark = self.mark.later(rows) if isinstance(self.mark, Mark) else self.mark
        return self._replace(mark=mark, delivered=self.delivered + rows)


class Refused(Exception):  # noqa: N818 - not an error of its own
    """The class of an element did not take its components, when it was put together for the consumer."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Undelivered(Exception):  # noqa: N818 - not an error of its own
    """A device failed when an element was handed over to it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _fail(error: ElementError) -> Any:
    raise error.copy()


class Iterator(_native.Delivery, PythonIterator[Any]):
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

    An interrupt (Ctrl-C) anywhere in `next()`, `state()` or `restore()` leaves the pass where it was, or one element
    further with that element returned. Everything about a position is in `_cursor`, which is replaced by one
    assignment. Taking an element of it, counting it and returning it are one step, in `_native.Delivery`. What is open
    (`_run`) is used only while `_in_step` names the cursor that it was read up to; otherwise it is opened again at the
    position.
    """

    def __init__(
        self,
        plan: Node,
        epochs: Epochs,
        settings: Settings = Settings(),
        state: Any = None,
        meter: Meter | None = None,
        deliver: Callable[[Any], Any] | None = None,
    ) -> None:
        self._epochs = epochs
        self._settings = settings
        self._deliver = deliver
        self._lock = threading.RLock()
        self._closed = False
        self._pid = os.getpid()
        self._moved = 0
        self._whole = False
        self._run: Pass | None = None
        self._in_step: _native.Cursor | None = None
        self._calls: One | None = None
        self._finalizer: weakref.finalize[[], Iterator] | None = None
        self._last_stats = Stats(stages=[])
        self._last_tuning = Tuning(chosen={}, log=[])
        self._meter = meter or Meter()
        self._described: states.Described | None = None
        plan = for_pass(plan)
        if state is None:
            seeded = states.with_seeds(plan, epochs.seeds) if epochs.seeds else plan
            course = Course(plan, seeded, epochs.begin(), epochs.sizes, resumed=False)
            self._cursor = _at(Place(course, SavedMark(START), 0))
        else:
            self._adopt(state, plan)

    @property
    def _place(self) -> Place:
        """The position of the next row."""
        cursor = self._cursor
        place: Place = cursor.place
        return place.later(cursor.taken)

    @property
    def _delivered(self) -> int:
        cursor = self._cursor
        delivered: int = cursor.place.delivered
        return delivered + cursor.taken

    @property
    def _course(self) -> Course:
        course: Course = self._cursor.place.course
        return course

    def __repr__(self) -> str:
        place = self._place
        end = ", closed" if self._closed else ", at its end" if place.over else ""
        course = place.course
        return summary("Iterator", course.plan, f", epoch {course.epoch}, {place.delivered:,} given{end}")

    def __iter__(self) -> Self:
        return self

    def _failed(self, error: Exception) -> Exception:
        """Return what the consumer gets for an exception that was raised in place of the next element."""
        if isinstance(error, ElementError):
            return error
        if isinstance(error, Undelivered):
            return error.error
        cause = error.error if isinstance(error, Refused) else error
        failed = self._course.plan.error(cause, self._delivered)
        failed.__cause__ = cause
        return failed

    def _interrupted(self) -> None:
        """Close what is open after a call that was interrupted; the next one opens it again at the position."""
        with self._lock:
            self._shut()

    def _advance(self, cursor: _native.Cursor) -> None:
        """Read the block after `cursor`, all of whose elements are taken."""
        with self._lock:
            if self._cursor is not cursor:  # another thread was here first
                return
            try:
                more = self._enter_next()
            except Cancelled:  # closed meanwhile
                more = False
            except BaseException:
                self._shut()
                raise
            if self._closed:
                self._shut()
            if not more:
                raise StopIteration

    def _enter_next(self) -> bool:
        """Stand before the elements of the next block; False at the end."""
        if self._closed or self._cursor.place.over:
            return False
        self._meter.begin_wait()
        item = self._pull()
        if self._calls is None or not isinstance(item, Block):  # else they are made yet
            self._meter.end_wait(self.stats)
        if item is END:
            self._finish()
            return False
        self._enter(self._cursor_of(item))
        return True

    def _finish(self) -> None:
        """Stand at the end."""
        self._enter(_at(self._place._replace(over=True)))
        self._shut(trim=False)  # the next epoch may want the same memory at once

    def _enter(self, cursor: _native.Cursor) -> None:
        """Go on with what was pulled last. The second line is the only one that moves the pass."""
        self._in_step = cursor
        self._cursor = cursor

    def _cursor_of(self, item: Block | Failure) -> _native.Cursor:
        """The elements of a block; a failure is raised in the place of its element."""
        place = Place(self._course, item.mark, self._delivered)
        if isinstance(item, Failure):
            return _native.Cursor(place, map(_fail, (item.error,)), 1, self._lock)
        if self._calls is not None:
            return _native.Cursor(place, self._call_later(item, self._calls), item.rows, self._lock)
        if self._settings.frozen:
            item.columns = [read_only(c) for c in item.columns]
        rows, runs_python = item.consumer_elements()
        if self._deliver is not None:
            return _native.Cursor(place, map(self._deliver, rows), item.rows, self._lock)
        return _native.Cursor(place, rows, item.rows, self._lock if runs_python else None)

    def _call_later(self, block: Block, one: One) -> PythonIterator[Any]:
        """Have the function called on each row of a block when somebody asks for it."""
        assert self._run is not None
        itself = weakref.ref(self)

        def stats() -> dict[str, Any]:
            found = itself()
            return {"stages": []} if found is None else found.stats()

        return Calling(block, self._run.root, one, self._meter, stats, frozen=self._settings.frozen)

    def _pull(self) -> Pulled:
        """Pull the next rows. The pass is out of step with its position until these are entered."""
        run, cursor = self._run, self._cursor
        try:
            if run is None or self._pid != os.getpid():
                run = self._open()
            elif self._in_step is not cursor or cursor.taken != cursor.count:
                self._shut()
                run = self._open()
            self._in_step = None
            started = perf_counter_ns()
            item = run.pull(self._pace.rows)
            if item is not END:
                self._pace.observe(item, perf_counter_ns() - started)
            return item
        except NONSENSE as error:
            if self._course.resumed and not isinstance(error, HeadraceError):
                raise StateError(f"the pass cannot go on from this state: {type(error).__name__}: {error}") from error
            raise

    def _open(self) -> Pass:
        """Start running at the place where this pass stands; after a fork, in the child, once more."""
        settings, place = self._settings, self._place
        course = place.course
        begin_pass(course.plan)
        options = merge_options(course.plan)
        scan = TINY_CUTS if settings.tiny_cuts else ScanPolicy()
        threads = max(options.cpu_budget or 0, scan.min_threads) or None
        run = Pass(
            NestedPlans(threads) if settings.optimise else Prepared.of,
            block_rows=settings.block_rows,
            options=options,
            sizes=course.sizes,
            widths=self._epochs.widths,
            scan=scan,
        )
        prepared = prepare_pass(course.plan, threads or cpus()) if settings.optimise else Prepared.of(course.plan)
        context = run.context(prepared, with_ids=settings.with_ids, objects=not self._whole).epoch(course.epoch)
        self._pid = os.getpid()
        self._run = run
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, run.reap)
        plan = prepared.plan
        free = self._whole or pulls_blocks(plan) or settings.block_rows
        self._pace = run.pace() if free else _one_by_one
        run.open(context, place.mark.marks())
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
        while not self._cursor.place.over:
            with self._lock:
                try:
                    item = self._pull()
                except BaseException:
                    self._shut()
                    raise
                if item is END:
                    self._finish()
                    return
                self._enter(_native.Cursor(Place(self._course, item.mark, self._delivered), None, item.rows))
                if isinstance(item, Failure):
                    raise item.error.copy()
            yield item

    def state(self) -> dict[str, Any]:
        """Where this pass stands: a small dict that JSON can hold. Takes microseconds, and nothing is drained."""
        place = self._place
        plan = place.course.plan
        described = self._described
        if described is None or described.plan is not plan:
            changes.warn_of_unkeyed_draws(plan)
            functions = {} if merge_options(plan).on_change == "ignore" else changes.digests(plan)
            seeds = states.drawn_seeds(plan)
            described = states.Described(plan, states.description(plan), seeds, functions, states.process_of(plan))
            self._described = described
        return states.make_state(
            described,
            place.course.epoch,
            place.delivered,
            place.mark.marks(),
            over=place.over,
            sizes=place.course.sizes,
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a place that `state()` gave, of this iterator or of one over an equal pipeline."""
        with self._lock:
            if self._closed:
                raise HeadraceError("the iterator is closed; make one with ds.iterator(state=...)")
            self._adopt(state, for_pass(self._course.given_plan))
            self._shut()

    def _adopt(self, state: dict[str, Any], plan: Node) -> None:
        states.check(state, plan)
        marks = marks_among(state, plan)
        changes.compare(state.get("functions", {}), plan, merge_options(plan).on_change)
        seeded = states.with_seeds(plan, state["seeds"])
        self._epochs.restore(state)
        course = Course(plan, seeded, state["epoch"], self._epochs.sizes, resumed=bool(marks))
        self._cursor = _at(Place(course, SavedMark(marks), state["delivered"], state["over"]))

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
        return Stats(epoch=self._course.epoch, delivered=self._delivered, stages=stages)

    def tuning(self) -> Tuning:
        """What AUTOTUNE has chosen so far, stage by stage, and why; `ds.with_options(frozen=...)` repeats it.

        >>> it = iter(hr.Dataset.range(10).map(lambda x: int(x) + 1, num_parallel_calls=hr.AUTOTUNE, mode="eager"))
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
        inside = self._lock._is_owned()  # type: ignore[attr-defined]
        with self._lock:
            if not (inside and self._in_step is None):  # else a user's function inside our own pull: that one closes
                self._shut()

    def abandon(self) -> None:
        """Close as if nobody held this iterator any more, from wherever the collector may run; its state stays."""
        self._closed = True
        self._cursor.drop()
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
        """Close what is open. After an interrupt it may be called again: `_run` is kept until it is closed."""
        self._in_step = None
        self._cursor.drop()
        run = self._run
        if run is not None:
            self._last_stats = self._report(run)
            self._last_tuning = run.tuner.report()
            self._moved += run.close()
            if self._finalizer is not None:
                self._finalizer.detach()
            self._run = self._calls = self._finalizer = None
        if trim:
            self._trim()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _at(place: Place) -> _native.Cursor:
    """A position with nothing read yet."""
    return _native.Cursor(place, None, 0)


def for_pass(plan: Node) -> Node:
    """The plan of one pass, which learns of its files by itself."""
    options = merge_options(plan)
    return rebuild(plan, lambda node: node.for_pass(options) if isinstance(node, ReadsFiles) else node)


class _OneByOne:
    """The pace of a plan in which somebody may watch rows being made: no row before it is begin_wait for."""

    rows = 1

    def observe(self, item: Block | Failure, nanoseconds: int) -> None:
        """Nothing to learn."""


_one_by_one = _OneByOne()
