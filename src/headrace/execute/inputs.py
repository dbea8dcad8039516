"""Open streams as their consumers see them: rows in exact numbers, counted, timed, and placed."""

from __future__ import annotations

import contextlib
from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING

from headrace.block import Failure, Item
from headrace.errors import ElementError, StateError
from headrace.execute.channel import Cancelled
from headrace.execute.origin import Origin
from headrace.execute.registry import opening
from headrace.execute.stream import END, Pace, Pulled, Stream, Wanted
from headrace.late_block import look_at
from headrace.plan.marks import NOWHERE, At, Mark, Marks, Position, SavedMark
from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.execute.context import Context


FROM_THE_START = At()


class Input:
    """An open stream. It gives no more rows than are wanted, and says of each where it lies.

    A row of a one-to-one node lies where the row of its input does. Of a positional one the ordinal is all there is to
    say; of any other, how many rows it comes after what the operation wrote.
    """

    __slots__ = (
        "_calls", "_closed", "_context", "_counters", "_made", "_mark", "_number", "_opened_by", "_passes",
        "_positional", "_ready", "_rows", "_run", "_stream", "_takes", "ordinal",
    )  # fmt: skip

    def __init__(self, node: Node, context: Context, marks: Marks, opened_by: set[Input]) -> None:
        self._run = context.run
        self._context = context
        self._counters = context.stage.add_stream()
        self._opened_by = opened_by
        self._closed = False
        self._positional = node.positional
        self._takes = node.takes
        self._passes = node.one_to_one
        self._calls = node if node.calls else None
        self._ready: deque[Item] = deque()
        self._number = context.prepared.number(node)
        run = opening(type(node))
        position = self._restored(node, marks) if marks else None
        if not marks and not self._passes:
            at, offset = FROM_THE_START, 0
            self._mark = Mark(self._number, 0, 0)
        elif position is None:  # its own mark, if it is one-to-one and wrote none, is its input's
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
        self._run.add_stream()
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
        mark = self._mark
        if self.skip(offset, replay=True) < offset:
            raise StateError(
                f"{node.operation} ended before element {mark.ordinal}, where the state was taken: its input has "
                "changed since"
            )
        self._mark, self._rows = mark, 0

    def pull(self, want: int) -> Pulled:
        """The next rows, at most `want`, or one failure, or END."""
        counters = self._counters
        while not self._ready:
            if self._run.cancelled:
                raise Cancelled
            started = perf_counter_ns()
            made = self._stream.pull(want)
            counters.nanoseconds += perf_counter_ns() - started
            if made is END:
                return END
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
        if made.rows > want:
            self._ready.append(made)
            return self._next_ready(want)
        self._mark = made.mark
        self._rows = rows = made.rows
        self.ordinal += rows
        return made

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
        """Say where the rows of an item lie."""
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
        counters.nbytes += item.nbytes

    def _note_origin(self, failure: Failure, node: Node) -> None:
        """Have the error of a user's function know how to find the record that its row was made of."""
        error = failure.error
        if error.find_origin is None and (error.operation, error.site) == (node.operation, node.site):
            error.find_origin = Origin(node.inputs[0], self._context, failure.mark.later(failure.offset)).find

    def failed_call(self, error: Exception, mark: Mark, row: int) -> ElementError:
        """The error of a user's function for a row after `mark`, the place of a block of its arguments."""
        node = self._calls
        assert node is not None, "it calls a user's function"
        here = mark.later(row)
        failure = Failure(node.error(error, here.ordinal), here)
        self._note_origin(failure, node)
        return failure.error

    def add_work(self, nanoseconds: int) -> None:
        """Count time that was spent on its rows elsewhere."""
        self._counters.nanoseconds += nanoseconds

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Pass over `count` rows; how many there were."""
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

    def announce(self, wanted: Wanted) -> None:
        """Only these rows will be looked at from here on; see `Stream.announce`."""
        self._stream.announce(wanted)

    def mark(self) -> Mark:
        """The mark of the row that the next pull begins with."""
        return self._ready[0].mark if self._ready else self._mark.later(self._rows)

    @property
    def holds_rows(self) -> bool:
        """Whether rows are made that nobody has taken yet."""
        return bool(self._ready)

    @property
    def stream(self) -> Stream:
        """What the rows come from."""
        return self._stream

    def close(self) -> None:
        """Free the stream and all inputs below it."""
        if self._closed:
            return
        self._closed = True
        stream: Stream | None = getattr(self, "_stream", None)
        try:
            if stream is not None:
                stream.close()
        finally:
            self._opened_by.discard(self)
            self._context.stage.remove_stream(self._counters)
            self._run.remove_stream()
            if self._context.opened:
                close_all(self._context.opened)


def close_all(inputs: set[Input]) -> None:
    """Close these; one that cannot be closed keeps none of the others open."""
    with contextlib.ExitStack() as stack:
        for each in list(inputs):
            stack.callback(each.close)


def _first_mark(context: Context, node: Node, marks: Marks) -> Mark:
    """The mark of the first row, of the node itself or of the one whose marks it passes on."""
    while node.one_to_one:
        (node,) = node.inputs
        number = context.prepared.number(node)
        if number in marks:
            return _mark(number, marks[number], marks)
    return Mark(context.prepared.number(node), 0, 0)


def _mark(number: int, position: Position, marks: Marks) -> Mark:
    """The mark of a node at these positions."""
    inputs = (SavedMark(marks),) if position.rooted else ()
    return Mark(number, position.ordinal, position.offset, position.own, inputs)
