"""ParallelScan: a source and the per-row operations after it, run on many cuts of the source at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass, field, replace
from time import thread_time_ns

from headrace.columns.block import Block, Failure, Item
from headrace.columns.refs import CorruptRecordsError
from headrace.errors import StateError
from headrace.execute.context import OBJECTS, Context, Form
from headrace.execute.inputs import Input
from headrace.execute.pool import FIRST_MORSELS_AHEAD, Limits, Morsel, Window, most_ahead
from headrace.execute.registry import opens
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stream import ASSUMED_READER_THREADS, END, FRESH_FRACTION, Made, Pace, Stream, Wanted
from headrace.formats.shared.many_files import Files
from headrace.formats.shared.one_file import OneFile
from headrace.formats.shared.quarantine import PolicyEvents
from headrace.formats.shared.strand import Strand
from headrace.ops.flat_map import ParentPlace
from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.physical.batch_bounds import BatchBounds, BatchedBlocks
from headrace.physical.cuts import Cut, CutAim, CutSize, cutter_of
from headrace.physical.scan_threads import ScanThreads, Watch, Work
from headrace.plan.access import comes_late, late_bytes
from headrace.plan.marks import At, Mark, Marks, Position
from headrace.plan.node import TUNING, Ahead, AnyNode, Node

BUFFERED_BYTES_PER_THREAD = 8 << 20
MIN_BUFFERED_BYTES = 32 << 20
FIRST_ROWS = 16
"""The first request is small, because a batch of images takes a second and other threads should help with it."""
STEP_NANOSECONDS = 2_000_000
STEP_BYTES = 2 << 20
"""A worker hands over what it made in this time, or this much of it: each time costs locks, and perhaps a wake-up."""
BATCHES_STEP_FACTOR = 8
"""If whole batches are handed over, a step is longer by this factor: the consumer waits for all rows of a batch, and
takes several batches at the cost of one."""
SERIAL_PULLS = 4
"""The serial part of a scan takes about this many pulls, if rows are cheap."""
BUDGET_SHARE = 4
"""A scan holds at most this part of the memory budget."""


@dataclass(frozen=True, eq=False)
class ParallelScan(PassThrough):
    """The rows of its input, a source followed by per-row operations, made by `threads` workers on cuts of the source.

    It begins as a serial scan in the consumer's thread. When that took some milliseconds and the consumer wants more,
    the source is halted, the rest of it is cut, and the pool runs the pipeline on the cuts.

    If its consumer makes batches of `batch_size` rows, workers hand over whole batches where they can; 0 for none.
    """

    threads: int = field(default=1, metadata=TUNING)
    batch_size: int = field(default=0, repr=False, metadata=TUNING)
    reason: str = field(default="", repr=False, metadata=TUNING)

    @property
    def operation(self) -> str:
        return "parallel_scan"

    @property
    def source(self) -> Node:
        """What is cut, or read as a strand."""
        source = pipeline_of(self.input)[1]
        return source.inputs[0] if source.transparent else source

    def remark(self) -> str | None:
        return self.reason or None

    @property
    def ahead(self) -> Ahead:
        return Ahead.RUNS

    @property
    def late_bytes(self) -> int:
        return late_bytes(self.input)

    @property
    def comes_late(self) -> bool:
        return comes_late(self.input)


def pipeline_of(node: Node) -> tuple[list[Node], Node]:
    """Return the per-row operations of a scan's input, the last first, and the source they read."""
    operations: list[Node] = []
    while cutter_of(node) is None:
        operations.append(node)
        (node,) = node.inputs
    return operations, node


@opens(ParallelScan)
def open_scan(node: ParallelScan, ctx: Context, at: At) -> Stream:
    """Open a scan; serially in order, if its consumer wants references to records in files."""
    return ScanStream(node, ctx, at)


class ScanStream(Stream):
    """Serial at first, then by cuts; see ParallelScan.

    Workers count rows relative to their cut. `_bases` has, for each operation with its own marks, how many rows it gave
    before the current cut: marks are sealed by adding it. A cut that fails (a row fails, a file has changed) is run
    again here, from the first row that was not handed over, with absolute ordinals: then errors are exact.
    """

    def __init__(self, node: ParallelScan, ctx: Context, at: At) -> None:
        self._ctx = ctx
        self._threads = node.threads
        self._operations, self._source = pipeline_of(node.input)
        self._input: Input | None = ctx.open(
            node.input, at.inputs, any_order=True, form=Form(late=ctx.late, objects=True)
        )
        self._window: Window[Item] | None = None
        self._strand: Strand | None = None
        self._void: Hashable | None = None
        self._again: CutMorsel | None = None
        self._ended: CutMorsel | None = None
        self._next: Mark | None = None
        self._bases: dict[int, int] = {}
        self._begun = False
        self._alone = Work()
        self._first_row = 0
        self._serial_rows = FIRST_ROWS
        # Scans of one stage, such as those of files that take turns, are alike: what one has learned holds for all.
        found, key = ctx.run.tuner.widths, f"{ctx.stage.path}/scan"
        self._size: CutSize = ctx.run.shared.setdefault((CutSize, ctx.stage), CutSize(ctx.run.scan, found, key))
        workers = ctx.run.shared.get((ScanThreads, ctx.stage))
        if workers is None:
            workers = ScanThreads(ctx.run.scan, self._threads, found, key)
            workers = ctx.run.shared.setdefault((ScanThreads, ctx.stage), workers)
        self._workers: ScanThreads = workers
        self._pace: Pace = ctx.run.shared.setdefault(
            (ParallelScan, ctx.stage), ctx.run.pace(threads=ASSUMED_READER_THREADS)
        )
        self._rows_key, self._ahead_key = f"{key}/rows", f"{key}/ahead"
        self._pace.grow_to(max(FIRST_ROWS, found.get(self._rows_key, 0) // FRESH_FRACTION))
        self._serial = self._threads < 2 or self._workers.serial or not self._parallel_after(at)
        self._begins_parallel = not self._serial and self._workers.was_parallel and self._halts_unread(at)
        self._source_number = ctx.prepared.number(self._source)
        counting = [n for n in self._operations if not n.one_to_one]
        self._numbers = [*map(ctx.prepared.number, counting), self._source_number]
        self._bounds = BatchBounds(node.batch_size) if node.batch_size and not counting else None

    def _parallel_after(self, at: At) -> bool:
        """Return whether a scan that begins here may run on cuts."""
        ctx = self._ctx
        if ctx.run.origins is not None or (ctx.late and comes_late(self._source)):
            return False
        # A state of a map that delivered out of order has rows to leave out.
        return not any(
            (position := at.inputs.get(ctx.prepared.number(n))) is not None and position.own is not None
            for n in self._operations
        )

    def _halts_unread(self, at: At) -> bool:
        """Return whether the source can be cut before anything of it was read: files, from the first on."""
        return not at.inputs and isinstance(self._source, Files)

    @property
    def handed_over(self) -> bool:
        return self._window is not None or (not self._serial and self._workers.was_parallel)

    def pull(self, want: int) -> Made:
        if self._input is not None:
            made = self._pull_serially(self._input, want)
            if made is not END:
                return made
        return self._pull_from_window()

    def _pull_serially(self, rows: Input, want: int) -> Made:
        policy = self._ctx.run.scan
        alone = self._alone
        serial_nanoseconds = (
            min(0, policy.serial_nanoseconds) if self._workers.was_parallel else policy.serial_nanoseconds
        )
        if self._begins_parallel:
            self._begins_parallel = False
            if self._bounds is not None:
                self._bounds.begin(rows.ordinals()[self._source_number])
            self._go_parallel(rows)
        elif not self._serial and alone.cpu > serial_nanoseconds and self._window is None:
            if self._workers.was_parallel or policy.gains(self._threads, alone.cpu, alone.nbytes):
                self._go_parallel(rows)
            else:
                self._serial = True
        started = thread_time_ns()
        item = rows.pull(want if self._serial else min(want, self._serial_rows))
        if item is not END:
            nanoseconds = thread_time_ns() - started
            self._serial_rows = max(
                2 * self._serial_rows, item.rows * policy.serial_nanoseconds // (SERIAL_PULLS * max(1, nanoseconds))
            )
            if self._begun:  # the first rows take time that the others do not: files are opened, functions traced
                alone.cpu += nanoseconds
                alone.nbytes += item.nbytes
            else:
                self._first_row = rows.ordinals()[self._source_number]
            self._begun = True
            self._pace.observe(item, nanoseconds)
            return item
        ordinals = rows.ordinals()
        self._bases = {number: ordinals[number] for number in self._numbers}
        if self._bounds is not None:
            self._bounds.begin(ordinals[self._source_number])
        self._void = self._source_input(rows).stream.voids()
        self._next = None
        rows.close()
        self._input = None
        if self._again is not None:
            self._again.close()
            self._again = None
        return END

    def _source_input(self, rows: Input) -> Input:
        for _ in self._operations:
            (rows,) = rows.inputs
        return rows

    def _go_parallel(self, rows: Input) -> None:
        """Halt the serial scan and run the rest on the pool."""
        place = self._source_input(rows).stream.halt()
        if place is None:
            self._serial = True
            return
        cutter = cutter_of(self._source)
        assert cutter is not None
        inside = place.inside[1] if isinstance(place, ParentPlace) and place.inside is not None else place
        self._strand = inside if isinstance(inside, Strand) else None
        self._ctx.stage.threaded = self._ctx.run.pooled = True
        budget, sharers = self._ctx.run.memory.limit // BUDGET_SHARE, self._ctx.sharers
        buffered = min(budget, max(MIN_BUFFERED_BYTES, self._threads * BUFFERED_BYTES_PER_THREAD)) // sharers
        self._alone.rows = rows.ordinals()[self._source_number] - self._first_row
        self._workers.begin(Work() if self._workers.was_parallel else self._alone)
        found = self._ctx.run.tuner.widths.get(self._ahead_key, 0) if sharers == 1 else 0
        ahead = max(FIRST_MORSELS_AHEAD, min(found, most_ahead(self._workers.width)))
        limits = Limits(self._workers.width, max(self._ctx.run.scan.max_cut_bytes, buffered), ahead)
        morsels = self._morsels(cutter(self._source, self._ctx, place, CutAim(self._size, self._bounds)))
        fetches = isinstance(self._source, Files | OneFile) and self._source.in_store
        self._window = Window(morsels, limits, fetches=fetches)
        self._window.start()
        self._ctx.stage.add_queue(self._window)

    def _morsels(self, cuts: Iterator[Cut]) -> Iterator[Morsel[Item]]:
        try:
            for cut in cuts:
                yield CutMorsel(self._ctx, self._pipeline(cut.source), cut, self._size, self._pace, self._bounds)
        finally:
            if isinstance(cuts, Generator):
                cuts.close()

    def _pipeline(self, node: Node) -> Node:
        """Return the operations on one cut of the source."""
        for operation in reversed(self._operations):
            node = operation.with_inputs((node,))
        return node

    def _pull_from_window(self) -> Made:
        if self._window is None:
            return END
        ended, self._ended = self._ended, None
        found = self._window.take(with_end=True) if ended is None else ([], ended)
        if found is None:
            self._ctx.run.tuner.widths[self._ahead_key] = self._window.ahead
            return END
        items, morsel = found
        assert isinstance(morsel, CutMorsel)
        if self._void is not None and morsel.cut.unit == self._void:
            if not items or morsel.over:
                morsel.close()
            return []
        if items:
            for item in items:
                morsel.apply_events()
                item.mark = self._sealed(item.mark)
            self._next = items[-1].mark.later(items[-1].rows)
            if morsel.over and (morsel.broken or morsel.policy is not None):
                self._ended = morsel  # what happens there is seen when the next row is requested
            elif morsel.over:
                self._end(morsel)
            return items
        if not morsel.broken:
            self._end(morsel)
            return []
        if morsel.policy is not None:
            morsel.policy.go_direct()
        try:
            self._input = self._ctx.open(morsel.pipeline, self._place(), any_order=True, form=OBJECTS)
        except StateError as error:
            if self._next is None or not hasattr(morsel.cut.source, "changed_midway"):
                raise
            return self._file_changed(morsel, self._next, error)
        self._again = morsel
        return []

    def _end(self, morsel: CutMorsel) -> None:
        """Go to the next cut, once all rows of this one were taken."""
        assert self._window is not None
        for number in self._numbers:
            self._bases[number] += morsel.rows[number]
        morsel.apply_events()
        self._next = None
        morsel.close()
        morsel.work.rows = morsel.rows[self._source_number]
        self._workers.learn(morsel.work)
        self._window.resize(self._workers.width)

    def _file_changed(self, morsel: CutMorsel, mark: Mark, cause: StateError) -> Failure:
        """Return one failure in place of the rows that are left of a file that was changed while it was being read."""
        source: AnyNode = morsel.cut.source  # of files: nothing else changes while it is read
        place = self._place()
        error, rest = source.changed_midway(place, self._ctx.prepared)
        error.__cause__ = cause
        for number in self._numbers:
            self._bases[number] = place[number].ordinal + 1
        self._void, self._next = morsel.cut.unit, None
        if rest is None:
            morsel.close()
        else:
            self._input = self._ctx.open(self._pipeline(rest), self._place(), any_order=True, form=OBJECTS)
            self._again = morsel
        return Failure(error, mark)

    def _sealed(self, mark: Mark) -> Mark:
        """Return a mark of a worker with absolute ordinals. Rows of a strand have marks of their source, which are."""
        shift = self._bases.get(mark.number)
        if shift is None:
            return mark
        if mark.number == self._source_number:
            if self._source.positional:
                return Mark(mark.number, mark.ordinal + shift, mark.ordinal + shift)
            return Mark(mark.number, mark.ordinal + shift, mark.offset, mark.own, mark.inputs, mark.takes)
        inputs = tuple(self._sealed(m) if isinstance(m, Mark) else m for m in mark.inputs)
        return Mark(mark.number, mark.ordinal + shift, mark.offset, mark.own, inputs, mark.takes)

    def _place(self) -> Marks:
        """Return the position of the next row of the current cut, for a pipeline on that cut."""
        if self._next is None:
            return {n: Position(self._bases[n], 0) for n in self._numbers if n >= 0}
        marks = dict(self._next.marks())
        here = marks.get(self._source_number)
        if here is not None and self._source.positional:
            marks[self._source_number] = Position(here.ordinal, here.ordinal - self._bases[self._source_number])
        return marks

    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._input is None or self._window is not None:
            return 0
        return self._input.skip(count, replay=replay)

    def announce(self, wanted: Wanted) -> None:
        if self._input is not None and self._window is None:
            self._serial = True  # rows that are not wanted are not made
            self._input.announce(wanted)

    def close(self) -> None:
        if self._window is not None:
            self._ctx.run.tuner.widths[self._rows_key] = self._pace.rows
            self._ctx.stage.remove_queue(self._window)
            self._window.close()
        if self._strand is not None:  # the cutter may not have begun
            self._strand.close()
        for morsel in (self._again, self._ended):
            if morsel is not None:
                morsel.close()


class CutMorsel(Morsel[Item]):
    """A pipeline on one cut. `broken` says that it met an event that must be handled in order, and stopped before it.

    All cuts of a scan share `size` and `pace`. Work is measured in CPU time: a thread that waits for a processor or for
    the GIL does not make its cut a long one.
    """

    def __init__(
        self,
        ctx: Context,
        pipeline: Node,
        cut: Cut,
        size: CutSize,
        pace: Pace,
        bounds: BatchBounds | None = None,
    ) -> None:
        super().__init__()
        self._ctx = ctx
        self.pipeline = pipeline
        self.cut = cut
        self.held_bytes: int = cut.held_bytes
        self._size = size
        self._input: Input | None = None
        self._pace = pace
        self.work: Work = Work()
        self._release = cut.release
        policy = getattr(cut.source, "on_error", None)
        self.policy: PolicyEvents | None = policy if isinstance(policy, PolicyEvents) else None
        self._events: deque[list[Callable[[], None]]] = deque()
        self.broken: bool = cut.in_order
        self.rows: dict[int, int] = {}
        self._bounds = bounds
        self._number = -1 if bounds is None else bounds.add(cut.known_rows)
        self._batches = None if bounds is None or self.policy is not None else BatchedBlocks(bounds, self._number)

    def step(self) -> tuple[list[Item], int, bool]:
        items: list[Item] = []
        nbytes, done = 0, False
        watch = Watch()
        factor = 1 if self._batches is None else BATCHES_STEP_FACTOR
        while not done and nbytes < factor * STEP_BYTES and watch.nanoseconds < factor * STEP_NANOSECONDS:
            item = self._next_item()
            self._record_events()
            if isinstance(item, Block):
                items.append(item)
                nbytes += item.nbytes
            else:
                self.broken = self.broken or isinstance(item, Failure)
                done = True
        if self._batches is not None:
            items = self._in_batches(self._batches, items, done=done)
        watch.add_to(self.work)
        if done:
            self._finish()
        return items, nbytes, done

    def _in_batches(self, batches: BatchedBlocks, items: list[Item], *, done: bool) -> list[Item]:
        """Return what to hand over of the items made so far: whole batches, and what is left once all are made."""
        for number, item in enumerate(items):
            if type(item) is not Block:  # a reference to records: it is joined where its rows are made
                self._batches = None
                return [*batches.take(done=True), *items[number:]]
            batches.add(item)
        return [*batches.take(done=done)]

    def _next_item(self) -> Item | object:
        if self.broken:
            return END
        try:
            return self._pull(thread_time_ns())
        except (Exception, Cancelled, CorruptRecordsError):  # raised again in order, or no longer needed
            self.broken = True
            return END

    def _pull(self, started: int) -> Item | object:
        if self._input is None:
            late = self.pipeline is not self.cut.source  # records are read in place by the first operation
            self._input = self._ctx.open(self.pipeline, any_order=True, form=Form(late=late, objects=True))
        rows = self._pace.rows
        if self._bounds is not None and self._batches is not None:
            rows = self._bounds.request(self._number, self._input.ordinal, rows)
        item = self._input.pull(rows, uncut=True)
        if item is not END:
            self._pace.observe(item, thread_time_ns() - started)
            if self._ctx.objects and type(item) is Block:
                item.box_texts()
        return item

    def _record_events(self) -> None:
        if self.policy is not None:
            self._events.append(self.policy.take())

    def apply_events(self) -> None:
        """Report to the policy what happened up to the next item, or up to the end of the cut."""
        if self._events:
            for event in self._events.popleft():
                event()

    def _finish(self) -> None:
        if not self.broken:
            assert self._input is not None
            self.rows = self._input.ordinals()
            self._size.learn(self.cut, self.work.cpu)
            if self._bounds is not None:
                self._bounds.count(self._number, self._input.ordinal)
        self._ctx.stage.add_work(self.work.cpu)
        if self._input is not None:
            self._input.close()
        if not self.broken:
            self._free()

    def close(self) -> None:
        if self._bounds is not None:
            self._bounds.forget(self._number)
        if self._input is not None:
            self._input.close()
        self._free()

    def _free(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


def without_threads(node: Node, threads: int | None = None) -> Node:
    """Return the same operation, run by the consumer's thread."""
    return replace(node, num_parallel_calls=threads, stands_for=node)  # type: ignore[call-arg]
