"""Read inputs in blocks and hand them out row by row, alone or interleaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Literal

from headrace.columns.block import Block, Item
from headrace.columns.lazy_block import held_bytes
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.pool.bell import Bell
from headrace.execute.row_by_row import IsLast, rows_until
from headrace.execute.stages.autotune import Climb
from headrace.execute.stages.parallel import tuned_width, width_up_to
from headrace.execute.stages.workers import WorkerStream
from headrace.execute.stream import ASSUMED_READER_THREADS, END, End, Pace, Pending, Pulled, Source
from headrace.plan.access import comes_late, is_at_hand
from headrace.plan.marks import Mark
from headrace.plan.node import Node
from headrace.plan.structure import Structure

BRIEF_ROWS = 1 << 10
"""How many rows to request at a time from an input of few rows."""


class RowBuffer:
    """An input that is read in blocks and handed out in the requested sizes.

    For consumers that take few rows at a time. Without `in_blocks`, making rows is observable, and none is read too
    early. A `brief` input is read at once, or nearly so. Similar inputs may share a `pace`.
    """

    def __init__(
        self, source: Source, *, in_blocks: bool = True, brief: bool = False, pace: Pace | None = None
    ) -> None:
        self._source = source
        self._in_blocks = in_blocks
        self._rows = Pending()
        self._pace = Pace(BRIEF_ROWS) if brief else pace or Pace()
        self.ended: bool = False
        """Whether all remaining rows are ready."""

    @classmethod
    def of_block(cls, block: Block) -> RowBuffer:
        """Return a buffer over a block that holds all rows of an input."""
        made = cls(_NoMore(block.mark.later(block.rows)))
        made.ended = True
        if block.rows:
            made._rows.add([block])
        return made

    def pull(self, want: int) -> Pulled:
        """Return the next rows."""
        if self._rows:
            return self._rows.pull(want)
        item = self._read(max(want, self._pace.rows)) if self._in_blocks else self._source.pull(want)
        if item is END or item.rows <= want:
            return item
        self._rows.add([item])
        return self._rows.pull(want)

    def pull_until(self, want: int, is_last: IsLast) -> list[Item] | Literal[End.END]:
        """Return the next rows, at most `want`, ending with the first that `is_last` accepts, or with a failure."""
        if not self._rows:
            item = self._read(self._pace.rows)
            if item is END:
                return END
            self._rows.add([item])
        head = self._rows.block()
        return [self._rows.pull(1 if head is None else rows_until(head, want, is_last))]

    def _read(self, rows: int) -> Pulled:
        started = perf_counter_ns()
        item = self._source.pull(rows)
        if item is not END:
            self._pace.learn(item.rows, held_bytes(item), perf_counter_ns() - started)
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Skip rows. Return how many there were."""
        done = self._rows.drop(count)
        return done + self._source.skip(count - done, replay=replay)

    def read_more(self) -> bool:
        """Read more rows, or find the end. Return False if rows must not be made before they are requested."""
        if not self._in_blocks or self.ended:
            return False
        item = self._read(self._pace.rows)
        if item is END:
            self.ended = True
        else:
            self._rows.add([item])
        return True

    def head(self) -> Block | None:
        """Return the ready rows if they are a block."""
        return self._rows.block()

    def ready_rows(self, structure: Structure | None) -> tuple[int, bool]:
        """Return how many rows are ready in blocks of this structure, and whether these are all that are ready."""
        return self._rows.run_of(structure)

    def put_back(self, item: Item) -> None:
        """Put these rows back to the front."""
        self._rows.put_back(item)

    def take_blocks(self, count: int) -> list[Block]:
        """Return the next rows, which must be ready in blocks."""
        blocks = []
        while count:
            block = self._rows.pull(count)
            assert isinstance(block, Block)
            blocks.append(block)
            count -= block.rows
        return blocks

    def mark(self) -> Mark:
        """Return the mark of the next row."""
        return self._rows.mark() if self._rows else self._source.mark()

    def ready(self, heard: Bell) -> bool:
        """Return whether a pull would not wait for a thread. If False, `heard` is rung when to ask again."""
        return bool(self._rows) or not (stream := self._workers()) or stream.ready(heard)

    def read_ahead(self, on: bool) -> None:
        """Let its thread read ahead, or pause it."""
        if stream := self._workers():
            stream.resize(int(on))

    def _workers(self) -> WorkerStream | None:
        stream = self._source.stream if isinstance(self._source, Input) else None
        return stream if isinstance(stream, WorkerStream) else None

    def close(self) -> None:
        """Free the input."""
        self._source.close()


class _NoMore:
    """The end of an input."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self.ordinal = mark.ordinal

    def pull(self, want: int) -> Pulled:  # noqa: ARG002
        return END

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        return 0

    def mark(self) -> Mark:
        return self._mark

    def close(self) -> None:
        """There is nothing to free."""


class ReadersAhead:
    """Choose which of several buffers are read ahead by threads: as many as were requested, or as prove good.

    If rows are in memory and reading ahead is unobservable, a requested number is an upper limit.
    """

    def __init__(self, ctx: Context, num_parallel_calls: int | None, most: int) -> None:
        self._ctx = ctx
        self._said = num_parallel_calls or 0
        self._most = most
        self._use(tuned_width(ctx, self._said, most=most))
        self._heard = Bell()

    def _use(self, width: int | Climb) -> None:
        self._climb = width if isinstance(width, Climb) else None
        self._count = width.width if isinstance(width, Climb) else width

    def expect(self, node: Node) -> None:
        """Prepare for the next buffer before it is opened. The first one determines how many threads to try."""
        if self._said and node.pure and is_at_hand(node):
            late = self._ctx.late and comes_late(node)  # reading then only collects references, which takes no time
            self._use(0 if late else width_up_to(self._ctx, self._said, most=self._most))
        self._said = 0

    def pace(self, ctx: Context) -> Pace:
        """Return the Pace shared by all buffers: they are similar, so measurements of one apply to the next."""
        return ctx.run.pace(threads=ASSUMED_READER_THREADS) if self.needs_thread(0) else Pace()

    def needs_thread(self, index: int) -> bool:
        """Return whether this buffer may ever be read ahead."""
        return self._climb is not None or index < self._count

    def begin(self, index: int, buffer: RowBuffer) -> None:
        """Start reading this buffer ahead, if it is selected."""
        if self._climb is not None:
            buffer.read_ahead(index < self._count)

    def pull(
        self, make: Callable[[int], Item | None], want: int, buffers: Callable[[], Sequence[RowBuffer | None]]
    ) -> Item | None:
        """Return what `make` returns. If the number of threads is being tuned, measure how long that took."""
        climb = self._climb
        if climb is None:
            return make(want)
        started = perf_counter_ns()
        item = make(want)
        if self._climb is not climb:  # the first buffer has shown that there is nothing to find
            return item
        if item is not None and climb.learn_delivery(1, item.rows, perf_counter_ns() - started):
            self._count = climb.width
            for index, buffer in enumerate(buffers()):
                if buffer is not None:
                    buffer.read_ahead(index < self._count)
        return item

    def next_ready(self, buffers: Sequence[RowBuffer | None], first: int, *, fill: bool) -> int:
        """Return the next buffer, from `first` on, that has rows or is to be filled. Wait until there is one."""
        count = len(buffers)
        while True:
            self._heard.clear()
            for step in range(count):
                index = (first + step) % count
                buffer = buffers[index]
                if buffer.ready(self._heard) if buffer is not None else fill:
                    return index
            if not any(buffers):
                return first
            self._heard.wait()
