"""What a node is opened with: the only way to its inputs, and where the executor attaches itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from headrace.block import Failure, Ids, Indices, Later, Mark, Place, ordinal, shifted, source_ids
from headrace.errors import ElementError, StateError
from headrace.execute.autotune import MOST, Climb, Depth, Tuner
from headrace.execute.budget import Memory, cpus
from headrace.execute.channel import Cancelled, Limits
from headrace.execute.origin import Origin, Patience
from headrace.execute.state import plain
from headrace.execute.stats import Stage
from headrace.execute.stream import END, Pace, Pulled, Source, Stream
from headrace.execute.unordered import Delivery, Remaining
from headrace.execute.workers import Ahead, Work, unchanged
from headrace.keys import ROOT, mix
from headrace.options import AUTOTUNE, NONE, Options
from headrace.plan.node import Node, waits

if TYPE_CHECKING:
    from headrace.execute.processes import Call, Processes

CYCLE = 4
"""How many datasets or files take turns where nobody said; a number of the plan, since the order depends on it."""
AUTOTUNE_TICKETS = 4
"""Hand-overs of about a millisecond that a prefetch(AUTOTUNE) keeps ready; more of them leave the cache."""
AUTOTUNE_ROWS = 8
"""How many elements it keeps ready where they are handed over one by one."""


class Waiting(Protocol):
    """What somebody may wait for, and is told when the pass ends."""

    def cancel(self) -> None:
        """Wake up whoever waits."""
        ...


class Run:
    """What all streams of one pass share."""

    def __init__(
        self,
        optimise: Callable[[Node], Node] | None = None,
        *,
        block_rows: int | None = None,
        options: Options = NONE,
        sizes: dict[str, int] | None = None,
        widths: dict[str, int] | None = None,
    ) -> None:
        self.prepare = optimise or (lambda node: node)
        self.block_rows = block_rows
        self.options = options
        self.stage = Stage("pass")
        self.sizes = {} if sizes is None else sizes
        self.memory = Memory(options.ram_budget)
        self.tuner = Tuner(options.cpu_budget or cpus(), options.frozen, widths)
        self.open_streams = 0
        self.cancelled = False
        self.live = False
        self.shared: dict[Any, Any] = {}
        self.origins: dict[int, str] | None = None
        self.patience = Patience()
        self.threads: set[int] = set()
        self._waiting: set[Waiting] = set()
        self._lock = threading.RLock()  # the collector may close a pass from within

    def pace(self, *, handover: bool = False, remote: bool = False) -> Pace:
        """A fresh measure of how many rows to ask for."""
        return Pace(self.block_rows, handover=handover, remote=remote)

    def cancel(self) -> None:
        """Have every pull of this pass end, and wake up everybody who waits on a channel or for a store."""
        self.cancelled = True
        with self._lock:
            waiting = list(self._waiting)
        for each in waiting:
            each.cancel()

    def opened(self) -> None:
        """One more stream is open."""
        with self._lock:
            self.open_streams += 1

    def closed(self) -> None:
        """One stream less is open."""
        with self._lock:
            self.open_streams -= 1

    def watch(self, waiting: Waiting) -> None:
        """Have `cancel` reach this."""
        with self._lock:
            self._waiting.add(waiting)

    def forget(self, waiting: Waiting) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._waiting.discard(waiting)


class Context:
    """Where in the plan, on which path and in which pass a node is opened."""

    __slots__ = ("_among", "any_order", "boxed", "level", "opened", "path", "run", "stage", "with_ids")

    def __init__(
        self,
        run: Run,
        path: int = ROOT,
        *,
        stage: Stage | None = None,
        level: int = 0,
        with_ids: bool = False,
        any_order: bool = True,
        boxed: bool = False,
        among: int = 1,
    ) -> None:
        self.run = run
        self.path = path
        self.stage = stage or run.stage
        self.opened: set[Input] = set()
        self.level = level
        self._among = among
        self.with_ids = with_ids
        self.any_order = any_order
        self.boxed = boxed

    def _at(self, path: int, level: int) -> Context:
        context = Context(
            self.run,
            path,
            stage=self.stage,
            level=level,
            with_ids=self.with_ids,
            any_order=self.any_order,
            boxed=self.boxed,
            among=self._among,
        )
        context.opened = self.opened
        return context

    def close(self) -> None:
        """Free all that was opened from here; one that cannot be closed keeps none of the others open."""
        with contextlib.ExitStack() as stack:
            for opened in list(self.opened):
                stack.callback(opened.close)

    def epoch(self, number: int) -> Context:
        """The same place in another epoch. Epoch 0 is the place itself; nested repeats do not collide."""
        path = mix(self.path, self.level, number) if number else self.path
        return self._at(path, self.level + 1)

    def branch(self, *values: int) -> Context:
        """The same place under a parent row, or for the second use of one input."""
        return self._at(mix(self.path, *values), self.level)

    def one_among(self, count: int) -> Context:
        """The same place for each of several inputs that are open at a time, and share what memory there is."""
        context = self._at(self.path, self.level)
        context._among = self._among * count
        return context

    def identified(self) -> Context:
        """The same place, with ids for the rows of its inputs."""
        context = self._at(self.path, self.level)
        context.with_ids = True
        return context

    def fixed(self) -> Context:
        """The same place on the path that every pass shares: for rows that outlive a pass."""
        return self._at(ROOT, 0)

    def note_origin(self, name: str) -> None:
        """Rows with ids of this path are those of this file; noted where somebody looks for one."""
        if self.run.origins is not None:
            self.run.origins[self.path] = name

    def ids(self, ordinals: Indices) -> Ids | None:
        """Ids for rows of a source, where somebody downstream wants them."""
        return source_ids(self.path, ordinals) if self.with_ids else None

    def ids_between(self, start: int, stop: int) -> Ids | None:
        """Ids for the rows `start` to `stop` of a source, where somebody downstream wants them."""
        return self.ids(np.arange(start, stop)) if self.with_ids else None

    def open(
        self,
        node: Node,
        mark: Mark = None,
        *,
        slot: int = 0,
        with_ids: bool = False,
        any_order: bool = False,
        boxed: bool = False,
    ) -> Input:
        """The rows of an input from `mark` on. It is closed with the stream that opened it, if not before.

        `any_order` says that each item is passed on by itself, so that a state needs no other item read again: only
        below such operations may `deterministic=False` change the order. `boxed` says that objects are made of text in
        any case: a source may give it as such.
        """
        inner = Context(
            self.run,
            self.path,
            stage=self.stage.input(slot, node),
            level=self.level,
            with_ids=with_ids or self.with_ids,
            any_order=any_order and self.any_order,
            boxed=boxed,
            among=self._among,
        )
        return Input(node, inner, mark, self.opened)

    def open_nested(self, node: Node, mark: Mark = None, *, slot: int = 0) -> Input:
        """The rows of a dataset that a user function made while running."""
        self.run.live = self.run.live or waits(node)
        return self.open(self.run.prepare(node), mark, slot=slot, boxed=self.boxed)

    def ahead(
        self,
        node: Node,
        mark: Mark = None,
        *,
        rows: int | None = None,
        slot: int = 0,
        work: Work = unchanged,
        if_it_helps: str | None = None,
    ) -> Ahead:
        """The rows of an input, read by a thread at most `rows` before they are asked for; None: a sensible number.

        With `work`, what it makes of them, one by one. `if_it_helps` has no thread read them until it is seen to help,
        and is the name under which that is tuned.
        """
        working = work is not unchanged
        one_by_one = working or waits(node)
        source = self.open(node, mark, slot=slot, any_order=True)
        tuner = self.run.tuner
        depth = None
        if rows is None:
            stage = f"{if_it_helps} depth" if if_it_helps else self.stage.path
            found = tuner.frozen(stage)
            sensible = AUTOTUNE_ROWS if one_by_one else AUTOTUNE_TICKETS
            depth = Depth(tuner, stage, found or sensible, fixed=found is not None)
        width = self.tuned(AUTOTUNE, stage=if_it_helps, most=1, hides=True) if if_it_helps else 1

        def limits(size: int) -> Limits:
            return Limits(max(2, rows or size), rows, prompt=working)

        return self._ahead(source, work, width, limits, None, one_by_one=one_by_one, depth=depth)

    def tuned(
        self, width: int, *, start: int = 0, most: int = MOST, hides: bool = False, stage: str | None = None
    ) -> int | Climb:
        """The number of parallel calls: what was said, or found by an earlier pass, else to be found."""
        if width != AUTOTUNE:
            return width
        tuner, stage = self.run.tuner, stage or self.stage.path
        found = tuner.frozen(stage)
        if found is None:
            return Climb(tuner, stage, max(start, tuner.widths.get(stage, 0)), most, hides, start)
        tuner.chose(stage, None, found, "")
        return max(start, found)

    def buffer_rows(self, operation: str, row_bytes: Callable[[int], int]) -> int:
        """How many rows the buffer of an operation holds, if it may take what is set aside for it.

        The order of rows depends on it: so it is found once, and then belongs to the dataset and its states.
        `row_bytes` says how many bytes a row takes, given how many there are.
        """
        run, stage = self.run, f"{self.stage.branch}{operation}"
        room = run.memory.set_aside(stage) // self._among
        size = run.sizes.get(stage) or run.tuner.frozen(stage)
        if size is None:
            each = row_bytes(room)
            size = max(1, room // each)
            run.tuner.chose(stage, 0, size, f"rows of about {each:,} bytes in {room / 1e6:,.0f} MB")
        run.sizes[stage] = size
        run.tuner.chose(stage, None, size, "")
        return size

    def ordered(self, deterministic: bool | None) -> bool:
        """Whether an operation keeps the order: what it says, else what the options say, else yes."""
        chosen = self.run.options.deterministic if deterministic is None else deterministic
        return chosen is not False or not self.any_order

    def processes(self, num_parallel_calls: int | None) -> int:
        """How many processes an operation gets: what it says, else one for each CPU that the pass may use."""
        if num_parallel_calls is not None and num_parallel_calls != AUTOTUNE:
            return num_parallel_calls
        return self.run.tuner.cpus

    def remote(self, call: Call) -> Processes:
        """The same function of blocks, called in worker processes: one for each thread that uses it."""
        from headrace.execute.processes import Processes

        return Processes(call)

    def parallel(
        self,
        node: Node,
        mark: Mark,
        work: Work,
        *,
        width: int,
        ordered: bool,
        one_by_one: bool = True,
        one_to_one: bool = True,
        remote: Processes | None = None,
    ) -> Ahead:
        """What `work` makes of the rows of an input, `one_by_one` or in blocks, on `width` threads.

        `one_to_one` says that it makes one row of each. `remote` are the processes that it calls.
        """
        if not isinstance(mark, dict):
            source: Source = self.open(node, mark)
            delivery = None if ordered else Delivery()
        else:
            delivery = Delivery(mark["done"])
            source = Remaining(lambda m: self.open(node, m), mark, delivery)
        # Reading that shows goes as far ahead as there are calls, which is what the user asked for.
        limits = (lambda n: Limits(2 * n)) if node.pure else (lambda n: Limits(2 * n, n))
        # Out of order, marks are made where threads hand over: then there is always one.
        threads = self.tuned(width, start=0 if delivery is None else 1)
        return self._ahead(
            source, work, threads, limits, delivery, one_by_one=one_by_one, one_to_one=one_to_one, remote=remote
        )

    def _ahead(
        self,
        source: Source,
        work: Work,
        width: int | Climb,
        limits: Callable[[int], Limits],
        delivery: Delivery | None,
        *,
        one_by_one: bool,
        one_to_one: bool = True,
        depth: Depth | None = None,
        remote: Processes | None = None,
    ) -> Ahead:
        """Rows that a user's function makes are taken on one by one: none is held back while the next is made."""
        pace = Pace(1) if one_by_one else self.run.pace(handover=True, remote=remote is not None)
        stream = Ahead(
            source,
            work,
            self.run,
            width=width,
            limits=limits,
            depth=depth,
            delivery=delivery,
            stage=self.stage,
            pace=pace,
            one_to_one=one_to_one,
            remote=remote,
        )
        self.run.watch(stream.channel)
        return stream


def _placed(here: int, own: Mark) -> Place:
    return Place(here, own.inner, own.offset) if isinstance(own, Later) else Place(here, own, 0)


def _own(placed: Mark, row: int) -> Mark:
    """The node's own mark of a row, out of the place of its block."""
    return Later(placed.inner, placed.offset + row) if isinstance(placed, Place) else placed


S = TypeVar("S", bound=Stream)


class Input:
    """An open stream as its consumer sees it: counted, timed, and knowing where it is."""

    __slots__ = (
        "_calls", "_closed", "_context", "_counters", "_mark", "_owner", "_plain", "_positional", "_rows", "_run",
        "_stream", "ordinal",
    )  # fmt: skip

    def __init__(self, node: Node, context: Context, mark: Mark, owner: set[Input]) -> None:
        self._run = context.run
        self._context = context
        self._counters = context.stage.opened()
        self._owner = owner
        self._closed = False
        self._positional = node.positional
        self._calls = node if node.calls else None
        self._plain = node.transparent
        self._rows = 0
        mark = plain(mark)  # a node gets the one form, whether a state or a pass that goes on brings it
        inner, offset = mark, 0
        if not self._plain:
            if self._positional or mark is None or isinstance(mark, int):
                # What can be indexed here may not have been where the state was taken, or the other way round: an
                # ordinal is enough for any node, at the price of passing over the rows before it.
                inner, offset = None, ordinal(mark)
            else:
                inner, offset = mark[1], mark[2]
        self.ordinal = ordinal(mark) - offset
        self._mark: Mark = Place(*mark) if isinstance(mark, list) else mark
        owner.add(self)
        context.run.opened()
        try:
            self._stream = node.open(context, inner)
            if offset and self._stream.skip(offset, replay=True) < offset:
                raise StateError(
                    f"{node.operation} ended before element {self.ordinal + offset}, where the state was taken: "
                    "its input has changed since"
                )
        except BaseException:
            self.close()
            raise
        self.ordinal += offset

    def pull(self, want: int) -> Pulled:
        if self._run.cancelled:
            raise Cancelled
        counters = self._counters
        started = perf_counter_ns()
        item = self._stream.pull(want)
        counters.nanoseconds += perf_counter_ns() - started
        if item is END:
            return END
        here = self.ordinal
        if self._calls is not None and isinstance(item, Failure):
            self._note_origin(item, self._calls)
        if not self._plain:
            item.mark = here if self._positional else _placed(here, item.mark)
        self._mark = item.mark
        self._rows = rows = item.rows
        self.ordinal = here + rows
        counters.rows += rows
        counters.blocks += 1
        counters.nbytes += item.nbytes
        return item

    def _note_origin(self, failure: Failure, node: Node) -> None:
        """Have the error of a user's function know how to find the record that its row was made of."""
        error = failure.error
        if error.find_origin is None and (error.operation, error.site) == (node.operation, node.site):
            own = failure.mark
            mark = shifted(own.inner, own.offset) if isinstance(own, Later) else own
            error.find_origin = Origin(node.inputs[0], self._context, mark).find

    def stream(self, kind: type[S]) -> S | None:
        """What is open, if it is of this kind: for who takes over a part of its work."""
        return self._stream if isinstance(self._stream, kind) else None

    def worked(self, nanoseconds: int) -> None:
        """Count time that was spent on its rows elsewhere."""
        self._counters.nanoseconds += nanoseconds

    def failed_call(self, error: Exception, mark: Mark, row: int) -> ElementError:
        """The error of a user's function for a row after `mark`, the place of a block of its arguments."""
        node = self._calls
        assert node is not None, "it calls a user's function"
        failure = Failure(node.error(error, ordinal(mark) + row), _own(mark, row))
        self._note_origin(failure, node)
        return failure.error

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Pass over `count` rows; returns how many there were."""
        if self._run.cancelled:
            raise Cancelled
        done = self._stream.skip(count, replay=replay)
        self._rows += done
        self.ordinal += done
        if self._mark is None and not self._positional:
            self._mark = Place(0, None, 0)
        return done

    def mark(self) -> Mark:
        """The mark of the row that the next pull begins with."""
        return self.ordinal if self._positional else shifted(self._mark, self._rows)

    @property
    def nbytes(self) -> int:
        """How many bytes have come out so far."""
        return self._counters.nbytes

    def ready(self, heard: threading.Event) -> bool:
        """Whether a pull would not wait for a thread; if it would, `heard` is set once it would not."""
        stream = self._stream
        return stream.ready(heard) if isinstance(stream, Ahead) else True

    def read_ahead(self, on: bool) -> None:
        """Have the thread of a prefetch read before it is asked, or rest from now on."""
        if isinstance(self._stream, Ahead):
            self._stream.resize(int(on))

    def close(self) -> None:
        """Free the stream and all inputs below it."""
        if self._closed:
            return
        self._closed = True
        stream: Stream | None = getattr(self, "_stream", None)
        try:
            if stream is not None:
                stream.close()
                if isinstance(stream, Ahead):
                    self._context.run.forget(stream.channel)
        finally:
            self._owner.discard(self)
            self._context.stage.closed(self._counters)
            self._run.closed()
            self._context.close()
