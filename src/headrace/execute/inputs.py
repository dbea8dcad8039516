"""Inputs: open streams as their consumers see them, with exact row counts, statistics and marks."""

from __future__ import annotations

import contextlib
from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Literal

from headrace.columns.block import Block, Failure, Item
from headrace.columns.lazy_block import look_at
from headrace.errors import ElementError, StateError
from headrace.execute.origin import Origin, attach_origin
from headrace.execute.registry import opening
from headrace.execute.row_by_row import IsLast, rows_until
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stream import END, DroppedFailure, End, Pace, Pulled, Stream, Wanted
from headrace.plan.marks import NOWHERE, At, Mark, Marks, Position, SavedMark
from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.execute.context import Context


FROM_THE_START = At()


class Opened(set["Input"]):
    """The inputs that one stream has opened, and the first failure that they dropped with an incomplete group.

    Such a failure is no row. It is kept here until the stream that opened the inputs ends too, and is then passed to
    the stream above it, up to an input that is opened with `flush`. `flushed` is the first failure that became a row
    this way: a stream that takes rows by number reads on to learn of it.
    """

    dropped: ElementError | None = None
    flushed: ElementError | None = None

    def drop(self, error: ElementError | None) -> None:
        """Keep this failure, unless there is one already."""
        self.dropped = self.dropped or error

    def flush(self, error: ElementError | None) -> None:
        """Keep a failure that became a row, unless there is one already."""
        self.flushed = self.flushed or error


class Input:
    """An open stream that returns at most the requested number of rows and marks each item.

    A row of a one-to-one node has the mark of its input's row. A positional node needs only the ordinal. Any other node
    needs the offset of the row from the last mark that the operation wrote.

    A failure that was dropped with an incomplete group comes after the last row: as one more row with `flush`, else it
    is left with the stream that opened this input.
    """

    __slots__ = (
        "_calls", "_closed", "_context", "_counters", "_flush", "_made", "_mark", "_number", "_opened_by", "_passes",
        "_positional", "_ready", "_rows", "_run", "_settled", "_stream", "_takes", "ordinal",
    )  # fmt: skip

    def __init__(self, node: Node, context: Context, marks: Marks, opened_by: Opened, *, flush: bool = False) -> None:
        self.ordinal: int
        self._flush = flush
        self._settled = False
        self._run = context.run
        self._context = context
        self._counters = context.stage.add_stream()
        self._opened_by = opened_by
        self._closed = False
        self._positional = node.positional
        self._takes = node.takes
        self._passes = node.one_to_one
        self._ready: deque[Item] = deque()
        self._number = context.prepared.number(node)
        run = opening(type(node))
        self._calls = node if run.calls else None
        position = self._restored(node, marks) if marks else None
        if not marks and not self._passes:
            at, offset = FROM_THE_START, 0
            self._mark = Mark(self._number, 0, 0)
        elif position is None:  # a one-to-one node that wrote no mark has its input's mark
            at, offset = At(None, marks), 0
            self._mark = _first_mark(context, node, marks)
        else:
            counted = self._positional or not (position.rooted or position.own)
            own = run.own.from_json(position.own) if isinstance(position.own, list) and not counted else position.own
            at = At() if counted else At(own, marks)
            offset = position.ordinal if counted else position.offset
            self._mark = _mark(self._number, position, marks)
        self._rows = 0
        self._made = self.ordinal = self._mark.ordinal - offset
        opened_by.add(self)
        self._run.open_streams.add(self)
        try:
            self._stream: Stream = run.open(node, context, at)
            if offset:
                self._seek(node, offset)
        except BaseException:
            self.close()
            raise

    def _restored(self, node: Node, marks: Marks) -> Position | None:
        position = marks.get(self._number)
        if position is None and not self._passes:
            raise StateError(f"the state is damaged: it does not say where {node.operation} stands")
        return position

    def _seek(self, node: Node, offset: int) -> None:
        mark, before = self._mark, self._opened_by.dropped
        done = self.skip(offset, replay=True)
        if done == offset - 1 and self._context.opened.dropped is not None:
            self._opened_by.dropped = before  # the state was taken after the dropped failure had been raised
            self._settled = True
        elif done < offset:
            raise StateError(
                f"{node.operation} ended before element {mark.ordinal}, at which the state was taken: its input has "
                "changed since"
            )
        self._mark, self._rows = mark, 0

    def pull(self, want: int, *, uncut: bool = False) -> Pulled:
        """Return the next rows, at most `want`, or one failure, or END.

        An `uncut` block may have more rows than `want`, if the stream has made them at once.
        """
        counters = self._counters
        while not self._ready:
            if self._run.cancelled:
                raise Cancelled
            started = perf_counter_ns()
            made = self._stream.pull(want)
            counters.nanoseconds += perf_counter_ns() - started
            if made is END or isinstance(made, DroppedFailure):
                return self._end(made)
            if not isinstance(made, list):
                break
            if len(made) == 1:
                made = made[0]
                break
            for item in made:
                self._place(item)
            self._ready.extend(made)
        else:
            return self._next_ready(want)
        self._place(made)
        if made.rows > want and not uncut:
            self._ready.append(made)
            return self._next_ready(want)
        self._mark = made.mark
        self._rows = rows = made.rows
        self.ordinal += rows
        return made

    def pull_until(self, want: int, is_last: IsLast) -> list[Item] | Literal[End.END]:
        """Return the next rows, at most `want`, ending with the first that `is_last` accepts, or with a failure.

        No row is made after that one. `is_last` is called once for each, in order; see `row_by_row`.
        """
        while not self._ready:
            if self._run.cancelled:
                raise Cancelled
            started = perf_counter_ns()
            made = self._stream.pull_until(want, is_last)
            asked = made is not None
            if made is None:
                made = self._stream.pull(min(want, self._stream.unseen_rows))
            self._counters.nanoseconds += perf_counter_ns() - started
            if made is END or isinstance(made, DroppedFailure):
                end = self._end(made)
                return END if end is END else [end]
            items = made if isinstance(made, list) else [made]
            for item in items:
                self._place(item)
            if not asked:
                self._ready.extend(items)
            elif items:
                self._mark, self._rows = items[-1].mark, items[-1].rows
                self.ordinal += sum(item.rows for item in items)
                return items
        head = self._ready[0]
        return [self._next_ready(rows_until(head, want, is_last) if isinstance(head, Block) else 1)]

    def _end(self, made: DroppedFailure | Literal[End.END]) -> Pulled:
        """Return END, or before it the failure that was dropped, if that is to be a row."""
        opened = self._context.opened
        if isinstance(made, DroppedFailure):
            opened.drop(made.error)
        self._opened_by.flush(opened.flushed)
        if opened.dropped is None or self._settled:
            return END
        if not self._flush:
            self._opened_by.drop(opened.dropped)
            return END
        self._settled = True
        self._opened_by.flush(opened.dropped)
        end = self.mark()
        self._mark = Mark(end.number, end.ordinal, end.offset, end.own, end.inputs)  # no rows of the input follow it
        self._rows = 1
        self._made += 1
        self.ordinal += 1
        return Failure(opened.dropped, self._mark)

    def _next_ready(self, want: int) -> Item:
        item = self._ready.popleft()
        if item.rows > want:
            self._ready.appendleft(item.slice(want, item.rows))
            item = item.slice(0, want)
        self._mark = item.mark
        self._rows = rows = item.rows
        self.ordinal += rows
        return item

    def _place(self, item: Item) -> None:
        """Set the marks of an item's rows."""
        here, rows, mark = self._made, item.rows, item.mark
        if self._calls is not None and isinstance(item, Failure):
            self._note_origin(item, self._calls)
        if self._passes and item.own is None and mark is not NOWHERE:
            if item.offset:
                item.mark = mark.later(item.offset)
                item.offset = 0
        else:
            if self._positional:
                item.mark = Mark(self._number, here, here)
            else:
                inputs = () if mark is NOWHERE else (mark,)
                item.mark = Mark(self._number, here, item.offset, item.own, inputs, self._takes)
            item.own, item.offset = None, 0
        self._made = here + rows
        counters = self._counters
        counters.rows += rows
        counters.blocks += 1
        if counters.blocks == counters.look:
            counters.measure(rows, item.nbytes)

    def _note_origin(self, failure: Failure, node: Node) -> None:
        """Attach to the error of a user's function how to find the record that its row was made from."""
        error = failure.error
        if error.find_origin is None and (error.operation, error.site) == (node.operation, node.site):
            attach_origin(error, Origin(node.inputs[0], self._context, failure.mark.later(failure.offset)), node)

    def failed_call(self, error: Exception, mark: Mark, row: int) -> ElementError:
        """Return the error of a user's function for row `row` of a block of arguments that begins at `mark`."""
        node = self._calls
        assert node is not None, "it calls a user's function"
        here = mark.later(row)
        failure = Failure(node.error(error, here.ordinal), here)
        self._note_origin(failure, node)
        return failure.error

    def add_work(self, nanoseconds: int, mark: Mark, row: int) -> None:  # noqa: ARG002 - for inputs that are observed
        """Count time that was spent elsewhere on row `row` of a block that begins at `mark`."""
        self._counters.nanoseconds += nanoseconds

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Skip `count` rows and return how many there were."""
        done = 0
        while done < count and self._ready and (item := self.pull(count - done)) is not END:
            look_at(item)
            done += item.rows
        if done < count:
            if self._run.cancelled:
                raise Cancelled
            passed = self._stream.skip(count - done, replay=replay)
            self._rows += passed
            self._made += passed
            self.ordinal += passed
            done += passed
        pace = Pace()
        while done < count:
            started = perf_counter_ns()
            item = self.pull(min(pace.rows, count - done))
            if item is END:
                break
            look_at(item)
            pace.observe(item, perf_counter_ns() - started)
            done += item.rows
        return done

    def settle(self) -> None:
        """Make the next row if its mark may differ from the one that was restored, so that `mark` returns its own."""
        if self._ready or not self._stream.restates_marks:
            return
        mark, rows = self._mark, self._rows
        item = self.pull(1)
        if item is not END:
            self._ready.appendleft(item)
            self.ordinal -= item.rows
            self._mark, self._rows = mark, rows

    def announce(self, wanted: Wanted) -> None:
        """Announce that only these rows will be read from here on; see `Stream.announce`."""
        self._stream.announce(wanted)

    def mark(self) -> Mark:
        """Return the mark of the row that the next pull begins with."""
        return self._ready[0].mark if self._ready else self._mark.later(self._rows)

    @property
    def holds_rows(self) -> bool:
        """Return whether rows are made that the consumer has not taken yet."""
        return bool(self._ready)

    @property
    def stream(self) -> Stream:
        """Return the stream that the rows come from."""
        return self._stream

    @property
    def inputs(self) -> list[Input]:
        """Return the open inputs of its stream."""
        return list(self._context.opened)

    def ordinals(self) -> dict[int, int]:
        """Return the ordinal of the next row, for this node and each node below it, by node number."""
        same_plan = [each for each in self.inputs if each._context.prepared is self._context.prepared]
        found = {number: rows for each in same_plan for number, rows in each.ordinals().items()}
        return {**found, self._number: self.ordinal}

    def close(self) -> None:
        """Close the stream and all inputs below it. Can be called again after an interrupt."""
        if self._closed:
            return
        stream: Stream | None = getattr(self, "_stream", None)
        try:
            if stream is not None:
                stream.close()
        except Exception:
            self._leave()
            raise
        self._leave()

    def _leave(self) -> None:
        if self._context.opened:
            close_all(self._context.opened)
        self._context.stage.remove_stream(self._counters)
        self._run.open_streams.discard(self)
        self._opened_by.discard(self)
        self._closed = True


class OneRowInput(Input):
    """An input whose rows are requested one by one, however many its consumer would take."""

    __slots__ = ()

    def pull(self, want: int, *, uncut: bool = False) -> Pulled:  # noqa: ARG002 - one is enough
        return super().pull(1)


def close_all(inputs: set[Input]) -> None:
    """Close these inputs, all of them even if one fails to close."""
    with contextlib.ExitStack() as stack:
        for each in list(inputs):
            stack.callback(each.close)


def _first_mark(context: Context, node: Node, marks: Marks) -> Mark:
    """Return the mark of the first row, of the node itself or of the node whose marks it passes on."""
    while node.one_to_one:
        (node,) = node.inputs
        number = context.prepared.number(node)
        if number in marks:
            return _mark(number, marks[number], marks)
    return Mark(context.prepared.number(node), 0, 0)


def _mark(number: int, position: Position, marks: Marks) -> Mark:
    """Return the mark of a node at these positions."""
    inputs = (SavedMark(marks),) if position.rooted else ()
    return Mark(number, position.ordinal, position.offset, position.own, inputs)
