"""Iterators: one pass over a dataset, which can be saved, restored, measured and closed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Iterator as PythonIterator
from dataclasses import dataclass, field, replace
from itertools import count
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakKeyDictionary

from headrace import _native
from headrace.columns import read_only
from headrace.columns.block import Block, Failure
from headrace.core.closer import Closer
from headrace.core.deferred import Deferred
from headrace.core.keys import ROOT, mix_key
from headrace.core.types import JsonObject, Nested, Reduced
from headrace.distribute.drawn_rows import Drawn, Position, drawn_rows
from headrace.distribute.merge_states import marks_among
from headrace.distribute.mixtures import adopted, is_chain, mixtures_as_json, mixtures_of, with_histories
from headrace.errors import NONSENSE, ElementError, HeadraceError, StateError
from headrace.execute import changes
from headrace.execute import state as states
from headrace.execute.budget import cpus
from headrace.execute.pool import TINY_CUTS, ScanPolicy
from headrace.execute.run import TRIM_BYTES, Pass
from headrace.execute.stages.autotune import Tuning
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stages.starvation import Meter
from headrace.execute.stats import Stats
from headrace.execute.stream import ASSUMED_READER_THREADS, END, Pace, Pulled
from headrace.observe.live import register
from headrace.ops.mix import Mix, MixMark, shares_of
from headrace.ops.shared.arguments import integer
from headrace.ops.shared.calling import Calling
from headrace.ops.shared.calls import CallStream, One
from headrace.ops.shared.mix_counts import NO_COUNTS, MixCounts, SourceCount
from headrace.ops.shared.mix_history import MixSegment
from headrace.ops.with_options import for_pass, merge_options
from headrace.physical.lower import NestedPlans, prepare_pass, pulls_blocks
from headrace.plan.capabilities import begin_pass
from headrace.plan.element import Element
from headrace.plan.explain import summary
from headrace.plan.marks import START, Mark, Marked, SavedMark
from headrace.plan.node import Node
from headrace.plan.prepared import Prepared

if TYPE_CHECKING:
    from headrace.execute.origin import Origin
    from headrace.observe.notebook import html_of, show_live
    from headrace.observe.recorder import Recorder
    from headrace.observe.report import record, report
    from headrace.observe.why import why_slow_so_far
else:
    html_of = Deferred("headrace.observe.notebook", "html_of")
    show_live = Deferred("headrace.observe.notebook", "show_live")
    record = Deferred("headrace.observe.report")
    report = Deferred("headrace.observe.report")
    why_slow_so_far = Deferred("headrace.observe.why", "why_slow_so_far")


@dataclass
class Epochs:
    """The epochs of a dataset: which comes next, and the seeds that a restored state brought along.

    `told` is called on every change of the first. `sizes` are those of buffers that were chosen while running: the next
    epoch has the same. `widths` are numbers of threads that proved good: the next epoch begins with them.
    """

    next: int = 0
    seeds: list[int] | None = None
    told: Callable[[int], None] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __reduce__(self) -> Reduced:
        return Epochs, (self.next, self.seeds, None, self.sizes)

    def begin(self) -> int:
        """Return the number of a new pass."""
        with self.lock:
            number = self.next
            self._set(number + 1)
            return number

    def skip_to(self, number: int) -> None:
        """Number the next pass `epoch`."""
        with self.lock:
            self._set(number)

    def restore(self, state: JsonObject) -> None:
        """Continue after a restored pass."""
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
    """Settings of a run that do not change the rows: for tests and for `headrace.testing`."""

    optimise: bool = True
    block_rows: int | None = None
    with_ids: bool = False
    frozen: bool = False
    tiny_cuts: bool = False


@dataclass(frozen=True)
class Course:
    """The input of a pass: the plan as given and with its seeds, the epoch, and sizes of buffers."""

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
        """Return the position `rows` rows later."""
        if not rows:
            return self
        mark = self.mark.later(rows) if isinstance(self.mark, Mark) else self.mark
        return self._replace(mark=mark, delivered=self.delivered + rows)


_serials = count(1)


_FixedParts = tuple[list[int], JsonObject, tuple[int, int, int] | None]
_fixed_parts: WeakKeyDictionary[Node, _FixedParts] = WeakKeyDictionary()
"""What the states of all passes over a plan share: the first `state()` of every later pass need not find it again."""


def _fixed_parts_of(plan: Node) -> _FixedParts:
    """Return the fields of `Described` that follow from the plan alone."""
    changes.warn_of_unkeyed_draws(plan)
    functions = {} if merge_options(plan).on_change == "ignore" else changes.digests(plan)
    return states.drawn_seeds(plan), functions, states.process_of(plan)


class Refused(Exception):  # noqa: N818 - not an error of its own
    """The class of an element rejected its components when it was assembled for the consumer."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Undelivered(Exception):  # noqa: N818 - not an error of its own
    """A device failed when an element was handed over to it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _fail(error: ElementError) -> Nested:
    raise error.copy()


class Iterator(_native.Delivery, PythonIterator[Element]):
    """One pass over a dataset. Use it as a context manager, or drop it: either way all resources are freed.

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
        state: JsonObject | None = None,
        meter: Meter | None = None,
        deliver: Callable[[Nested], Any] | None = None,
    ) -> None:
        self._epochs = epochs
        self._settings = settings
        self._deliver = deliver
        self._lock = threading.RLock()
        self._closed = False
        self._was_read = False
        self._pid = os.getpid()
        self._moved = 0
        self._whole = False
        self._pace_settled = False
        self._pace: Pace | _OneByOne = _one_by_one
        self._run: Pass | None = None
        self._in_step: _native.Cursor | None = None
        self._calls: One | None = None
        self._finalizer: Closer | None = None
        self._last_stats = Stats(stages=[])
        self._last_slowest: list[tuple[float, int, str, Origin]] = []
        self._last_tuning = Tuning(chosen={}, log=[])
        self._meter = meter or Meter()
        self._described: states.Described | None = None
        self._excluded: tuple[int, ...] = ()
        self._recorder: Recorder | None = None
        self._serial = next(_serials)
        plan = for_pass(plan)
        if state is None:
            seeded = states.with_seeds(plan, epochs.seeds) if epochs.seeds else plan
            course = Course(plan, seeded, epochs.begin(), epochs.sizes, resumed=False)
            self._cursor = _at(Place(course, SavedMark(START), 0))
        else:
            self._adopt(state, plan)
        register(self)

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

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or has given its last element."""
        return self._closed or self._place.over

    @property
    def is_untouched(self) -> bool:
        """Whether it was closed or dropped before it returned anything."""
        return self._closed and not self._was_read

    def __repr__(self) -> str:
        place = self._place
        end = ", closed" if self._closed else ", at its end" if place.over else ""
        course = place.course
        return summary("Iterator", course.plan, f", epoch {course.epoch}, {place.delivered:,} given{end}")

    def __iter__(self) -> Self:
        return self

    if TYPE_CHECKING:  # the native base class has it

        def __next__(self) -> Element: ...

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
        """Read the block after `cursor`, whose elements are all taken."""
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
        """Go to the first element of the next block; return False at the end."""
        if self._closed or self._cursor.place.over:
            return False
        self._meter.begin_wait()
        if self._excluded and not self._pass_over_excluded():
            return False
        item = self._pull()
        if self._calls is None or not isinstance(item, Block):  # else they are made yet
            self._meter.end_wait(self.stats)
        if item is END:
            self._finish()
            return False
        self._enter(self._cursor_of(item))
        return True

    def _pass_over_excluded(self) -> bool:
        """Go to the next step that is not excluded; return False at the end."""
        while self._delivered in self._excluded:
            item = self._pull()
            if item is END:
                self._finish()
                return False
            self._enter(_at(Place(self._course, item.mark, self._delivered).later(1)))
        return True

    def _rows_wanted(self) -> int:
        """Return how many rows to pull: at most up to the next excluded step."""
        here = self._delivered
        following = next((step for step in self._excluded if step >= here), None)
        return self._pace.rows if following is None else min(self._pace.rows, max(1, following - here))

    def _finish(self) -> None:
        """Go to the end."""
        self._enter(_at(self._place._replace(over=True)))
        self._shut(trim=False)  # the next epoch may reuse the memory at once

    def _enter(self, cursor: _native.Cursor) -> None:
        """Make the pulled item the current one. Only the last line changes the position of the pass."""
        self._was_read = True
        self._in_step = cursor
        self._cursor = cursor

    def _cursor_of(self, item: Block | Failure) -> _native.Cursor:
        """Return the elements of a block; a failure is raised in the place of its element."""
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
        """Call the function on each row of a block lazily."""
        assert self._run is not None
        itself = weakref.ref(self)

        def stats() -> JsonObject:
            found = itself()
            return {"stages": []} if found is None else found.stats()

        return Calling(block, self._run.root, one, self._meter, stats, frozen=self._settings.frozen)

    def _pull(self) -> Pulled:
        """Pull the next rows. The position of the pass changes only when these are entered."""
        run, cursor = self._run, self._cursor
        try:
            if run is None or self._pid != os.getpid():
                run = self._open()
            elif self._in_step is not cursor or cursor.taken != cursor.count:
                self._shut()
                run = self._open()
            self._in_step = None
            started = perf_counter_ns()
            item = run.pull(self._rows_wanted() if self._excluded else self._pace.rows)
            waited = run.pooled and run.root.stream.handed_over
            if item is not END:
                self._pace.observe(item, 0 if waited else perf_counter_ns() - started)
            if run.pooled and not self._pace_settled:
                self._pace_settled = True
                if waited and self._pace is not _one_by_one:
                    self._pace = run.pace(threads=ASSUMED_READER_THREADS)
            return item
        except NONSENSE as error:
            if self._course.resumed and not isinstance(error, HeadraceError):
                raise StateError(f"the pass cannot continue from the state: {type(error).__name__}: {error}") from error
            raise

    def _open(self) -> Pass:
        """Start running at the position of this pass; in a forked child, once more."""
        settings, place = self._settings, self._place
        course = place.course
        started = perf_counter_ns()
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
        if self._recorder is not None and self._recorder.calls:
            run.time_calls()
        prepared = prepare_pass(course.plan, threads or cpus()) if settings.optimise else Prepared.of(course.plan)
        context = run.context(prepared, with_ids=settings.with_ids, objects=not self._whole).epoch(course.epoch)
        self._pid = os.getpid()
        self._run = run
        self._pace_settled = False
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = Closer(run.reap)
        plan = prepared.plan
        free = self._whole or pulls_blocks(plan) or settings.block_rows
        self._pace = run.pace() if free else _one_by_one
        prepared_at = perf_counter_ns()
        run.open(context, marks := place.mark.marks())
        self._meter.opened(prepared_at - started, perf_counter_ns() - prepared_at, restored=bool(marks))
        calls = run.root.stream
        if free and calls.handed_over:
            self._pace = run.pace(threads=ASSUMED_READER_THREADS)
        if not self._whole and not settings.with_ids and isinstance(calls, CallStream) and not run.root.holds_rows:
            self._calls = calls.give_as_read()
            self._pace = self._pace if self._calls is None else run.pace()
        return run

    def blocks(self) -> PythonIterator[Block]:
        """Yield the rest of a pass as blocks, for consumers of whole columns. No element may have been read before."""
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

    def state(self) -> JsonObject:
        """Return the position of this pass: a small dict of JSON values. Takes microseconds, and nothing is drained."""
        return self._state_at(self._place)

    def _state_at(self, place: Place) -> JsonObject:
        plan = place.course.plan
        described = self._described
        if described is None or described.plan is not plan:
            fixed = _fixed_parts.get(plan) or _fixed_parts.setdefault(plan, _fixed_parts_of(plan))
            lines = states.description(plan)  # files may change between passes
            described = states.Described(plan, lines, *fixed, tuple(mixtures_as_json(plan)))
            self._described = described
        state = states.make_state(
            described,
            place.course.epoch,
            place.delivered,
            place.mark.marks(),
            over=place.over,
            sizes=place.course.sizes,
        )
        coming = [step for step in self._excluded if step >= place.delivered]
        return states.sealed({**state, "exclude": coming}) if coming else state

    def restore(self, state: JsonObject) -> None:
        """Go to a position that `state()` returned, of this iterator or of one over an equal pipeline.

        Args:
            state: State returned by an iterator's `state()`.
        """
        with self._lock:
            if self._closed:
                raise HeadraceError("the iterator is closed; make one with ds.iterator(state=...)")
            self._adopt(state, for_pass(self._course.given_plan))
            self._shut()

    def exclude(self, steps: Iterable[int]) -> None:
        """Leave out elements that this pass has not delivered yet; all others stay bit for bit what they were.

        Steps keep their numbers: `state()["delivered"]` counts an element that was left out. The state holds the steps
        that are still to come, so a resumed pass leaves them out too.

        Args:
            steps: The numbers of the elements in this epoch, counted from 0.

        Raises:
            ValueError: A step was delivered already.

        >>> it = iter(hr.Dataset.range(5))
        >>> it.exclude([1, 3])
        >>> list(it)
        [np.int64(0), np.int64(2), np.int64(4)]
        """
        numbers = {integer("steps", step) for step in steps}
        with self._lock:
            place = self._place
            past = sorted(step for step in numbers if step < place.delivered)
            if past:
                raise ValueError(f"exclude: step {past[0]} was delivered already; {place.delivered} is the next")
            self._excluded = tuple(sorted(numbers.union(self._excluded)))
            self._cursor.drop()
            self._cursor = _at(place)
            self._shut(trim=False)

    def _state_of_step(self, step: int, epoch: int) -> JsonObject:
        """The state of a pass over `epoch` that has delivered `step` elements; this iterator goes there."""
        with self._lock:
            course = replace(self._course, epoch=epoch)
            self._cursor = _at(Place(course, SavedMark(START), 0))
            self._shut(trim=False)
            run = self._open()
            if run.root.skip(step, replay=True) < step:
                raise IndexError(f"the dataset ends before step {step}")
            item = run.pull(1)  # its mark has the position of each operation, not only the number of rows to skip
            mark = run.mark() if item is END else item.mark
            self._cursor = _at(Place(course, SavedMark(mark.marks()), step))
            self._shut()
            return self.state()

    def _adopt(self, given: JsonObject, given_plan: Node) -> None:
        state, plan, changed = adopted(states.opened(given), given_plan)
        states.check(state, plan)
        marks = marks_among(state, plan)
        changes.compare(state.get("functions", {}), plan, merge_options(plan).on_change)
        seeded = states.with_seeds(plan, state["seeds"])
        self._epochs.restore(state)
        course = Course(plan, seeded, state["epoch"], self._epochs.sizes, resumed=bool(marks))
        place = Place(course, SavedMark(marks), state["delivered"], state["over"])
        for number in changed:
            written = mixtures_of(given_plan)[number].mix.choices
            place = self._changed(place, number, written.names, written.written)
        self._cursor = _at(place)
        self._excluded = tuple(state.get("exclude", ()))

    def set_weights(self, weights: Mapping[str, float], *, mixture: int = 0) -> None:
        """Change the weights of `hr.mix` from the next element on; the rest of its schedule is dropped.

        Rows that were read ahead are drawn anew. Operations after the mixture that hold rows (shuffle, pack, windows)
        give these out first. In a run of several processes, call it in all of them after the same step: all of them
        then change at the same row. To find it, elements may be made again, on the calling thread. The weights are
        part of the state from here on.

        Args:
            weights: The weight of each source, by name; 0 leaves a source out.
            mixture: Which mixture of the plan, if it has several, in the order in which they are read.

        Raises:
            ValueError: The plan has no such mixture, or the names are others.

        >>> ds = hr.mix({"a": hr.Dataset.range(100), "b": hr.Dataset.range(-100, 0)}, {"a": 1, "b": 0}, seed=1)
        >>> it = iter(ds)
        >>> [int(next(it)) for _ in range(3)]
        [0, 1, 2]
        >>> it.set_weights({"a": 0, "b": 1})
        >>> [int(next(it)) for _ in range(3)]
        [-100, -99, -98]
        """
        with self._lock:
            place = self._place
            found = mixtures_of(place.course.plan)
            if not 0 <= mixture < len(found):
                raise ValueError(f"set_weights: the plan has {len(found)} mixtures (hr.mix), not a number {mixture}")
            names = found[mixture].names
            segment = MixSegment(0, names, shares_of(names, weights))
            place = self._changed(place, mixture, names, (segment,))
            self._shut()
            self._cursor = _at(place)

    def mixture_report(self, *, mixture: int = 0) -> dict[str, JsonObject]:
        """Return how many rows of each source of a mixture were delivered so far, and how many epochs that is.

        Args:
            mixture: Which mixture of the plan, if it has several.

        Returns:
            By the name of the source: `rows`; `epochs`, the number of times it was read through (None if its length is
            not known); and `tokens`, if the mixture counts them (`unit="tokens"` or `length=`). A source that is gone
            is there too. If operations after the mixture hold rows (shuffle, pack), these count as well.

        >>> ds = hr.mix({"a": hr.Dataset.range(8), "b": hr.Dataset.range(100)}, {"a": 1, "b": 3}, seed=1).batch(64)
        >>> it = iter(ds)
        >>> _ = next(it)
        >>> it.mixture_report()
        {'a': {'rows': 14, 'epochs': 1}, 'b': {'rows': 50, 'epochs': 0}}
        """
        with self._lock:
            place = self._place
            found = mixtures_of(place.course.plan)
            if not 0 <= mixture < len(found):
                raise ValueError(f"mixture_report: the plan has {len(found)} mixtures (hr.mix), not a number {mixture}")
            mix = found[mixture].mix
            drawn = self._drawn(place, mixture)
            if drawn.marks is None and not is_chain(place.course.plan, mix):
                raise HeadraceError("mixture_report: the mixture is one of several inputs, or repeated; read it alone")
            if drawn.marks is not None:
                place = place._replace(mark=SavedMark(drawn.marks))
            if mix.counts:
                known = self._counts_of(place, mixture, drawn.used).by_name()
                return {
                    name: {"rows": n.rows, "epochs": mix.epochs(name, n.rows), "tokens": n.tokens}
                    for name, n in sorted({**dict.fromkeys(mix.choices.names, SourceCount(0, 0, 0)), **known}.items())
                }
            counts = mix.choices.history.counts(drawn.used, self._mixture_key(place, mix))
            return {name: {"rows": n, "epochs": mix.epochs(name, n)} for name, n in sorted(counts.items())}

    def _counts_of(self, place: Place, mixture: int, rows: int) -> MixCounts:
        """Return the counts of a mixture before row `rows`: from its mark, or by reading on from there."""
        marks, options = place.mark.marks(), merge_options(place.course.plan)
        run = Pass(Prepared.of, options=options, sizes=place.course.sizes)
        try:
            prepared = Prepared.of(place.course.plan)
            _, number, *_ = found = mixtures_of(prepared.plan)[mixture]
            position = marks.get(number)
            if position is None or position.ordinal != rows or position.offset:
                source = run.context(prepared).epoch(place.course.epoch).open(found.mix, marks)
                source.skip(rows - source.ordinal, replay=True)
                position = source.mark().marks()[number]
            own = MixMark.from_json(position.own) if isinstance(position.own, list) else position.own
            return own.counts if isinstance(own, MixMark) and own.counts else NO_COUNTS
        finally:
            run.close()

    def _mixture_key(self, place: Place, mix: Mix) -> int:
        """Return the key of the random draws of a mixture."""
        root = mix_key(ROOT, 0, place.course.epoch) if place.course.epoch else ROOT
        return mix.choices.seed.key(mix_key(root, mix.places[-1]) if mix.places[-1] else root)

    def _changed(self, place: Place, number: int, names: tuple[str, ...], segments: tuple[MixSegment, ...]) -> Place:
        """Return the same position with other weights of a mixture from the next row that it draws."""
        mix = mixtures_of(place.course.plan)[number].mix
        drawn = self._drawn(place, number)
        rows = drawn.rows
        now = max((segment for segment in segments if segment.start <= rows), key=lambda segment: segment.start)
        later = tuple(segment for segment in segments if segment.start > rows)
        first = MixSegment(rows, names, now.weights)
        history = mix.choices.history
        before: dict[str, int] | None = None
        if drawn.marks is not None:  # a mixture by tokens has its counts in its marks
            before = {} if mix.unit == "tokens" else history.counts(rows, self._mixture_key(place, mix))
            place = place._replace(mark=SavedMark(drawn.marks))
        changed = history.changed(rows, (first, *later), before)
        course = place.course

        def change(plan: Node) -> Node:
            return with_histories(plan, lambda each, _: changed if each == number else None)

        course = replace(course, given_plan=change(course.given_plan), plan=change(course.plan))
        return place._replace(course=course)

    def _drawn(self, place: Place, number: int) -> Drawn:
        """How far a mixture was read for what was delivered."""
        course = place.course
        return drawn_rows(
            Position(course.plan, course.epoch, course.sizes, place.mark.marks(), place.delivered), number
        )

    def stats(self) -> Stats:
        """Return statistics of each stage: rows, blocks, bytes, busy and waiting seconds. Prints as a table.

        `stats()["starvation"]` says how long the consumer waited for data, and how long it was busy with them;
        `stats()["first"]` how long the parts of the first wait took: to prepare the plan, to open it or restore a
        state, to fill buffers; with `record(calls=True)`, each stage's "latency" how long its calls took;
        `stats()["memory"]` how many bytes of large arrays this process holds (`in_use`), keeps for the next ones
        (`idle`) and has page-locked for a device (`pinned`), and how often memory was `taken` and `reused`. If remote
        files are read, `stats()["store"]` counts requests, retries, bytes and hits of the cache on disk, and has a
        histogram of how long answers took.
        """
        if self._run is not None:
            self._last_stats = self._report(self._run)
        self._last_stats["starvation"] = self._meter.report()
        self._last_stats["first"] = self._meter.first_wait()
        self._last_stats["memory"] = _native.pool_stats()
        return self._last_stats

    def _slowest(self) -> list[tuple[float, int, str, Origin]]:
        """The slowest calls of all stages while a timeline is recorded: seconds, rows, the stage, the first row."""
        if self._run is not None:
            self._last_slowest = list(self._run.stage.slowest())
        return sorted(self._last_slowest, key=lambda call: -call[0])

    def _report(self, run: Pass) -> Stats:
        stages = [line for stage in run.stage.inputs.values() for line in stage.report()]
        counted = {name: counters.report() for name, counters in list(run.counters.items())}
        return Stats(epoch=self._course.epoch, delivered=self._delivered, stages=stages, **counted)

    def tuning(self) -> Tuning:
        """Return what AUTOTUNE has chosen so far, stage by stage, and why; `ds.with_options(frozen=...)` repeats it.

        >>> it = iter(hr.Dataset.range(10).map(lambda x: int(x) + 1, num_parallel_calls=hr.AUTOTUNE, mode="eager"))
        >>> _ = list(it)
        >>> list(it.tuning()["chosen"])
        ['/map']
        """
        if self._run is not None:
            self._last_tuning = self._run.tuner.report()
        return self._last_tuning

    why_slow = why_slow_so_far
    record = record
    report = report
    _repr_html_ = html_of
    _ipython_display_ = show_live

    def close(self) -> None:
        """End the pass and free all it holds, as soon as the user call in flight returns."""
        self._closed = True
        if self._recorder is not None:
            self._recorder.close()
        run = self._run
        if self._pid != os.getpid():
            return  # what is open belongs to the process this one was forked from
        if run is None:
            self._trim()
            return
        run.cancel()
        if threading.get_ident() in run.threads:
            return  # a user's function on one of our own threads: the consumer closes
        inside = self._lock._is_owned()  # type: ignore[attr-defined]
        with self._lock:
            if not (inside and self._in_step is None):  # else a user's function inside our own pull: that one closes
                self._shut()

    def abandon(self) -> None:
        """Close as if this iterator were unreferenced, safely for the garbage collector; its state stays."""
        self._closed = True
        self._cursor.drop()
        if self._finalizer is not None:
            self._finalizer()
        self.stats()
        self._run = None

    def _trim(self) -> None:
        """Return memory to the system, if enough was moved to be worth it."""
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
            self._last_slowest = list(run.stage.slowest())
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
    """Return a position with nothing read yet."""
    return _native.Cursor(place, None, 0)


class _OneByOne:
    """The pace of a plan whose rows can be observed while they are made: no row is made before it is requested."""

    rows = 1

    def observe(self, item: Block | Failure, nanoseconds: int) -> None:
        """Nothing to learn."""


_one_by_one = _OneByOne()
