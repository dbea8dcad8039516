"""Worker processes: call a function of blocks outside this process's GIL.

Each thread of a parallel stage that calls a `Processes` has its own worker, so order, limits and states are those of
threads. When the stage closes, finished workers wait for the next pass of the plan, and the others are killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

from headrace.columns.block import Block, Item
from headrace.core.types import Reduced
from headrace.errors import WorkerError
from headrace.execute.processes.remote_worker import Died, Unsendable, Worker, take_call_apart
from headrace.execute.processes.shared_values import PackedValues
from headrace.execute.stages.channel import Cancelled

BlockFunction: TypeAlias = Callable[[Block], list[Block | Exception]]
"""A function from a block to results: blocks, and an exception in place of each row that failed."""


class IdleWorker(NamedTuple):
    """A worker that waits for a pass, and what it was started with."""

    owner: int
    start: Any
    worker: Worker


class IdleWorkers:
    """Keeps the workers of an operation from one pass to the next, while the plan lives.

    A worker keeps the state of its function. New workers are started if the function or what it holds has changed, or
    if the working directory, the path or the environment differ.
    """

    def __init__(self) -> None:
        self._idle: deque[IdleWorker] = deque()
        self._ends_with_the_plan = False

    def __reduce__(self) -> Reduced:
        return IdleWorkers, ()

    def take(self, start: object) -> Worker | None:
        """Return a waiting worker that was started with `start`, or None."""
        while self._idle:
            try:
                owner, known, worker = self._idle.popleft()
            except IndexError:  # another pass took it first
                return None
            if owner == os.getpid() and known == start and worker.comes_to_rest(0):
                return worker
            worker.close()
        return None

    def keep(self, start: object, workers: list[Worker]) -> None:
        """Keep these workers for the next pass, and no others."""
        if not self._ends_with_the_plan:  # most plans have no workers and are created over and over
            weakref.finalize(self, _end, self._idle)
            self._ends_with_the_plan = True
        _end(self._idle)
        self._idle.extend(IdleWorker(os.getpid(), start, worker) for worker in workers)


def _folder() -> str:
    """Return the directory in which a worker would start; it may have been removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _end(idle: deque[IdleWorker]) -> None:
    while idle:
        idle.popleft().worker.close()


class Seat(threading.local):
    """The state of one thread: its worker, and which blocks that was sent."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.sent: deque[Block] = deque()
        self.waited = False


class Processes:
    """Run the function `call` in worker processes, one for each calling thread.

    If a worker dies, its block is tried again row by row in a new one: the cause may have been chance, such as memory
    running out. A row that kills the second worker too has failed.
    """

    def __init__(self, call: BlockFunction, idle: IdleWorkers) -> None:
        self._call = call
        self._idle = idle
        self._packed: tuple[PackedValues, Any] | None = None
        self._seat = Seat()
        self._workers: dict[int, Worker] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def __call__(self, block: Block) -> list[Block | Exception]:
        """Return the results for a block; of those that were sent ahead, for the one that was sent first."""
        seat = self._seat
        try:
            worker = self._worker()
            if seat.sent:
                assert seat.sent[0] is block, "answers come in the order of the questions"
            else:
                worker.send_block(block)
                seat.sent.append(block)
            answer = worker.receive()
            seat.sent.popleft()
            return answer
        except (Died, Unsendable):
            seat.sent.clear()
            return [part for i in range(block.rows) for part in self._alone(block.slice(i, i + 1))]

    def start(self) -> None:
        """Start the worker of this thread, or reuse one of an earlier pass. It need not be ready on return."""
        if self._seat.worker is None:
            self._begin()

    def send_ahead(self, item: Item) -> bool:
        """Queue a block for this thread's worker. Return whether it was sent.

        A block that cannot be sent, or finds no worker, is handled when it is called for.
        """
        seat, worker = self._seat, self._seat.worker
        if not isinstance(item, Block) or item in seat.sent:
            return True
        if worker is None or not worker.ready or not worker.alive:
            return False
        with contextlib.suppress(Died, Unsendable):
            if worker.send_block(item, ahead=bool(seat.sent)):
                seat.sent.append(item)
                return True
        return False

    def had_to_wait(self) -> bool:
        """Return, once, whether the last call of this thread waited for a worker to start."""
        waited, self._seat.waited = self._seat.waited, False
        return waited

    def _alone(self, row: Block) -> list[Block | Exception]:
        try:
            worker = self._worker()
            worker.send_block(row)
            return worker.receive()
        except Died as death:
            return [WorkerError(f"the worker process {death} while it made this element")]
        except Unsendable as reason:
            return [TypeError(f"the element cannot be sent to another process: {reason}")]

    def _worker(self) -> Worker:
        """Return the ready worker of this thread. Start one if it has none, or if its worker died."""
        seat = self._seat
        if seat.worker is not None and seat.worker.alive and seat.worker.ready:
            return seat.worker
        with contextlib.suppress(Died):
            return self._made_ready()
        try:
            return self._made_ready()
        except Died as death:
            raise WorkerError(f"a worker process {death} before it could begin") from None

    def _made_ready(self) -> Worker:
        seat = self._seat
        worker = seat.worker if seat.worker is not None and seat.worker.alive else self._begin()
        if not worker.ready:
            seat.waited = True
            worker.receive()
            worker.ready = True
        return worker

    def _begin(self) -> Worker:
        """Return a worker for this thread that has received the function or is about to."""
        seat = self._seat
        seat.sent.clear()
        with self._lock:
            if self._stopped:
                raise Cancelled
            if self._packed is None:
                call = take_call_apart(self._call)
                self._packed = call, (call.digest(), tuple(sys.path), _folder(), tuple(os.environ.items()))
            call, start = self._packed
            last = self._workers.pop(threading.get_ident(), None)
            if last is not None:
                last.close()
            seat.worker = worker = self._idle.take(start) or Worker()
            self._workers[threading.get_ident()] = worker
        if not worker.ready:
            worker.hand_over(call)
        return worker

    def stop(self, at_work: set[int], deadline: float) -> None:
        """Begin no more calls.

        End the workers of threads that are still `at_work`, which get Cancelled; end the others at the latest at the
        deadline.
        """
        with self._lock:
            self._stopped = True
            workers = list(self._workers.items())
        for thread, worker in workers:
            if thread in at_work or not worker.comes_to_rest(deadline):
                worker.kill()

    def close(self) -> None:
        """Keep idle workers for another pass and end the others. No thread may call any more."""
        now = monotonic()
        rested = [worker for worker in self._workers.values() if worker.ready and worker.comes_to_rest(now)]
        for worker in self._workers.values():
            if worker not in rested:
                worker.close()
        self._workers = {}
        if rested and self._packed is not None:
            self._idle.keep(self._packed[1], rested)
