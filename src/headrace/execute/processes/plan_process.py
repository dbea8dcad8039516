"""Run a pipeline in a separate process, away from this process's GIL.

Requests run one block ahead. The process stays alive for the dataset's next pass. If it dies, a new one continues after
the last block received; if that one dies before it returned a block, an error is raised.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from headrace.columns.block import Block, Failure, Item, concat
from headrace.core.types import Component, Reduced
from headrace.errors import ElementError, WorkerError
from headrace.execute.context import Context
from headrace.execute.pool.bell import Bell
from headrace.execute.processes.remote_worker import Died, Worker
from headrace.execute.processes.shared_values import PackedValues, take_apart
from headrace.execute.run import Pass
from headrace.execute.stages.workers import MAX_LOT_BYTES, WorkerStream
from headrace.execute.state import description, drawn_seeds
from headrace.execute.stream import END, DroppedFailure, Made, Pulled, Stream
from headrace.options import Options
from headrace.plan.marks import Mark, Marked, Marks, SavedMark
from headrace.plan.node import Node
from headrace.plan.prepared import Prepared


class Begin(NamedTuple):
    """Request: open the pipeline at a position."""

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
    """Request: return up to this many rows."""

    rows: int


@lru_cache(256)
def _ask_for(rows: int) -> PackedValues:
    """Return a packed `Want`. Cached, because pickling it takes as long as reading an answer."""
    return take_apart([Want(rows)])


class Stop(NamedTuple):
    """Request: close the pipeline and discard the rest."""


class Sent(NamedTuple):
    """What accompanies an item; without a mark it stands for the end."""

    mark: Mark | None
    sizes: dict[str, int]
    over: bool = False


class Pipeline:
    """The other process's side: open a plan whenever requested, and return its rows."""

    def __init__(self, prepared: Prepared) -> None:
        self.node: Node = prepared.plan
        self._prepared = prepared
        self._run: Pass | None = None
        self._left: Pulled | None = None  # pulled too early
        self._widths: dict[str, int] = {}  # kept from one pass to the next

    def __call__(self, request: Begin | Want | Stop) -> list[Component]:
        """Answer a request with an item and what accompanies it, or with an empty list."""
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
        """Return the next rows with those after them that are ready: a message costs as much as many rows."""
        first, self._left = run.pull(want) if self._left is None else self._left, None
        if not isinstance(first, Block):
            return first
        parts, rows, nbytes = [first], first.rows, first.nbytes
        while rows < want and nbytes + nbytes // rows <= MAX_LOT_BYTES and self._has_rows(run):
            item = run.pull(want - rows)
            if not isinstance(item, Block) or item.structure != first.structure:
                self._left = item
                break
            parts.append(item)
            rows, nbytes = rows + item.rows, nbytes + item.nbytes
        return concat(parts)

    def _has_rows(self, run: Pass) -> bool:
        """Return whether more rows are available without waiting."""
        stream = run.root.stream
        return run.root.holds_rows or (isinstance(stream, WorkerStream) and stream.ready(Bell()))

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

    def __reduce__(self) -> Reduced:
        return ProcessKeeper, ()

    def take(self, plan: list[str]) -> Worker | None:
        """Return the waiting process if it belongs to this process, runs this plan and is alive."""
        while self._idle:
            owner, known, worker = self._idle.pop()
            if owner == os.getpid() and known == plan:
                return worker
            worker.close()
        return None

    def keep(self, plan: list[str], worker: Worker) -> None:
        """Keep this process for the next pass; one is enough."""
        _end(self._idle)
        self._idle.append(Idle(os.getpid(), plan, worker))


def _end(idle: list[Idle]) -> None:
    while idle:
        idle.pop().worker.close()


class ProcessStream(Stream):
    """The rows of a plan, made by another process. `lent` rows stay in its memory until the next request."""

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
        self._asked = False  # what comes is the answer, even if it is an exception
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
            worker.send_packed(_ask_for(want))  # the other process continues while this one is busy
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
        """Return the process of an earlier pass, or a new one, after sending it the start position."""
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
