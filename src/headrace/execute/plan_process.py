"""A pipeline in a process of its own: its rows are made where no thread of this one holds Python's lock.

The process is asked for rows one block ahead, and waits with the next pass for the dataset's next: it need not begin
anew. If it dies, another one goes on after the last block that came; if that dies too before it gave any, there is an
error.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from headrace.block import Block, Failure, Item, concat
from headrace.errors import ElementError, WorkerError
from headrace.execute.context import Context
from headrace.execute.passes import Pass
from headrace.execute.remote_worker import Died, Worker
from headrace.execute.shared import PackedValues, take_apart
from headrace.execute.state import description, drawn_seeds
from headrace.execute.stream import END, DroppedFailure, Made, Pulled, Stream
from headrace.execute.workers import LOT_BYTES, WorkerStream
from headrace.options import Options
from headrace.plan.marks import Mark, Marked, Marks, SavedMark
from headrace.plan.node import Node
from headrace.plan.prepared import Prepared


class Begin(NamedTuple):
    """Where and how to open the pipeline."""

    marks: Marks
    path: int
    level: int
    with_ids: bool
    any_order: bool
    options: Options
    sizes: dict[str, int]
    prepare: Callable[[Node], Prepared]
    block_rows: int | None


class Want(NamedTuple):
    """How many rows are asked for."""

    rows: int


@lru_cache(256)
def _ask_for(rows: int) -> PackedValues:
    """So many rows, ready to be sent: to pickle it takes as long as to read an answer."""
    return take_apart([Want(rows)])


class Stop(NamedTuple):
    """Close the pipeline; nobody wants the rest."""


class Sent(NamedTuple):
    """What goes with an item, or, without a mark, stands for the end."""

    mark: Mark | None
    sizes: dict[str, int]
    over: bool = False


class Pipeline:
    """What the other process does: opens a plan, as often as it is told to, and gives out its rows."""

    def __init__(self, prepared: Prepared) -> None:
        self.node = prepared.plan
        self._prepared = prepared
        self._run: Pass | None = None
        self._left: Pulled | None = None  # that came too early
        self._widths: dict[str, int] = {}  # from one pass to the next

    def __call__(self, request: Begin | Want | Stop) -> list[Any]:
        """What is asked for: an item and what goes with it; nothing, where that is an order."""
        if not isinstance(request, Want):
            self._close()
            if isinstance(request, Begin):
                self._open(request)
            return []
        assert self._run is not None, "rows are asked for after a Begin"
        item = self._pull(self._run, request.rows)
        sizes = self._run.sizes
        if item is END:
            return [self._run.dropped, Sent(None, sizes, over=True)]
        return [item.error if isinstance(item, Failure) else item, Sent(item.mark, sizes)]

    def _pull(self, run: Pass, want: int) -> Pulled:
        """The next rows, with those after them that lie ready: a message costs as much as many a row."""
        first, self._left = run.pull(want) if self._left is None else self._left, None
        if not isinstance(first, Block):
            return first
        parts, rows, nbytes = [first], first.rows, first.nbytes
        while rows < want and nbytes + nbytes // rows <= LOT_BYTES and self._has_rows(run):
            item = run.pull(want - rows)
            if not isinstance(item, Block) or item.structure != first.structure:
                self._left = item
                break
            parts.append(item)
            rows, nbytes = rows + item.rows, nbytes + item.nbytes
        return concat(parts)

    def _has_rows(self, run: Pass) -> bool:
        """Whether more can be had at once."""
        stream = run.root.stream
        return run.root.holds_rows or (isinstance(stream, WorkerStream) and stream.ready(threading.Event()))

    def _open(self, begin: Begin) -> None:
        self._left = None
        self._run = run = Pass(
            begin.prepare,
            block_rows=begin.block_rows,
            options=begin.options,
            sizes=begin.sizes,
            widths=self._widths,
        )
        context = run.context(
            self._prepared, path=begin.path, level=begin.level, with_ids=begin.with_ids, any_order=begin.any_order
        )
        try:
            run.open(context, begin.marks, flush=False)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()


class Idle(NamedTuple):
    """A process that waits for a pass."""

    owner: int
    plan: list[str]
    worker: Worker


class ProcessKeeper:
    """Keeps the process of a plan from one pass to the next, while the plan lives."""

    def __init__(self) -> None:
        self._idle: list[Idle] = []
        weakref.finalize(self, _end, self._idle)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessKeeper, ()

    def take(self, plan: list[str]) -> Worker | None:
        """The process that waits, if it is this one's, runs this plan and lives."""
        while self._idle:
            owner, known, worker = self._idle.pop()
            if owner == os.getpid() and known == plan:
                return worker
            worker.close()
        return None

    def keep(self, plan: list[str], worker: Worker) -> None:
        """Have this one for the next pass; one is enough."""
        _end(self._idle)
        self._idle.append(Idle(os.getpid(), plan, worker))


def _end(idle: list[Idle]) -> None:
    while idle:
        idle.pop().worker.close()


class ProcessStream(Stream):
    """The rows of a plan, made by another process; `lent` ones lie in its memory, until others are asked for."""

    def __init__(self, node: Node, ctx: Context, marks: Marks, keeper: ProcessKeeper, *, lent: bool = False) -> None:
        self._node = node
        self._ctx = ctx
        self._keeper = keeper
        self._lent = lent
        self._plan = [*description(node), *map(str, drawn_seeds(node))]  # a restored state may bring other seeds
        self._next: Marked = SavedMark(marks)
        self._asked = self._over = self._died = False
        self._dropped: ElementError | None = None
        self._worker: Worker | None = None

    def pull(self, want: int) -> Made:
        while not self._over:
            try:
                item = self._receive(want)
            except Died as death:
                self._restart(death)
            else:
                if item is not None:
                    return item
        return END if self._dropped is None else DroppedFailure(self._dropped)

    def _receive(self, want: int) -> Item | None:
        worker = self._worker or self._begin_worker()
        if not self._asked:
            worker.send_packed(_ask_for(want))
        self._asked = False  # what comes is the answer, though it be an exception
        *made, sent = worker.receive(lent=self._lent)
        self._died = False
        self._ctx.run.sizes.update(sent.sizes)
        if sent.over:
            self._over = True
            (self._dropped,) = made
            self.close()
            return None
        item = self._item(made[0], sent.mark)
        self._next = sent.mark.later(item.rows)
        try:
            worker.send_packed(_ask_for(want))  # the other process goes on while this one has something to do
            self._asked = True
        except Died as death:
            self._restart(death)
        return item

    def _item(self, made: Block | BaseException, mark: Mark) -> Item:
        if isinstance(made, Block):
            made.mark = mark
            return made
        error = made if isinstance(made, ElementError) else self._node.error(made, mark.ordinal)
        return Failure(error, mark)

    def _begin_worker(self) -> Worker:
        """The process of an earlier pass, or a new one, told where to begin."""
        run, ctx = self._ctx.run, self._ctx
        worker = self._keeper.take(self._plan)
        begin = Begin(
            self._next.marks(), ctx.path, ctx.level, ctx.with_ids, ctx.any_order, run.options, run.sizes, run.prepare,
            run.block_rows,
        )  # fmt: skip
        if worker is not None:
            with contextlib.suppress(Died), _closed_unless_done(worker):
                worker.ask(begin)
                self._worker = worker
                return worker
        worker = Worker()
        with _closed_unless_done(worker):
            worker.begin(Pipeline(self._ctx.prepared.cut_out(self._node)))
            worker.ask(begin)
        self._worker = worker
        return worker

    def _restart(self, death: Died) -> None:
        worker, self._worker = self._worker, None
        self._asked = False
        if worker is not None:
            worker.close()
        if self._died:
            raise WorkerError(f"the process of prefetch {death} before the next element was made") from None
        self._died = True

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if not worker.alive:
            worker.close()
            return
        with contextlib.suppress(Died), _closed_unless_done(worker):
            worker.send(Stop())
            worker.forget_answers()
            self._keeper.keep(self._plan, worker)


@contextlib.contextmanager
def _closed_unless_done(worker: Worker) -> Iterator[None]:
    try:
        yield
    except BaseException:
        worker.close()
        raise
