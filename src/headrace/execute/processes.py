"""Worker processes: a function of blocks, called where no other thread holds Python's lock.

Each thread of a parallel stage that calls a `Processes` has a worker of its own, so order, limits and states are those
of threads. Workers are new interpreters, not forks of one that has threads. They are killed when the stage closes, and
by the system when this process is gone, however that ended; their memory has no name to leave behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from headrace.block import Block
from headrace.errors import HeadraceError, WorkerError
from headrace.execute.channel import Cancelled
from headrace.execute.shared import Shared, from_message, to_message
from headrace.execute.unpicklable import culprit
from headrace.execute.worker import Interrupted, Raised, Unusable

BlockFunction: TypeAlias = Callable[[Block], list[Block | Exception]]
"""From a block to what became of its rows: blocks, and an exception in the place of each row that could not be made."""

REAP_SECONDS = 5.0
"""How long a worker that hung up may take to end before it is killed."""


class Processes:
    """The function `call`, made by worker processes, one for each thread that asks.

    A block whose worker dies is tried again, row by row, in a new one: what killed it may have been chance, such as
    memory that ran out. A row that kills the second worker too has failed.
    """

    def __init__(self, call: BlockFunction) -> None:
        self._call = call
        self._own = threading.local()
        self._workers: set[Worker] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def __call__(self, block: Block) -> list[Block | Exception]:
        try:
            return self._worker().answer(block)
        except (Died, Unsendable):
            return [part for i in range(block.rows) for part in self._alone(block.slice(i, i + 1))]

    def _alone(self, row: Block) -> list[Block | Exception]:
        try:
            return self._worker().answer(row)
        except Died as death:
            return [WorkerError(f"the worker process {death} while it made this element")]
        except Unsendable as reason:
            return [TypeError(f"the element cannot be sent to another process: {reason}")]

    def _worker(self) -> Worker:
        """The worker of this thread; a new one if there is none, or none any more."""
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is not None and worker.alive:
            return worker
        with contextlib.suppress(Died):
            return self._begun()
        try:
            return self._begun()
        except Died as death:
            raise WorkerError(f"a worker process {death} before it could begin") from None

    def _begun(self) -> Worker:
        with self._lock:
            if self._stopped:
                raise Cancelled
            last: Worker | None = getattr(self._own, "worker", None)
            if last is not None:
                self._workers.remove(last)
                last.close()
            self._own.worker = worker = Worker()
            self._workers.add(worker)
        worker.begin(self._call)
        return worker

    def stop(self) -> None:
        """End all workers, whatever they are doing; a thread that waits for one is Cancelled."""
        with self._lock:
            self._stopped = True
            for worker in self._workers:
                worker.kill()

    def close(self) -> None:
        """Free what is left, once no thread asks any more."""
        self.stop()
        for worker in self._workers:
            worker.close()
        self._workers = set()


class Died(Exception):  # noqa: N818
    """A worker is gone: how it ended."""


class Unsendable(Exception):  # noqa: N818
    """A block holds what cannot be pickled: why."""


class Keeper(threading.Thread):
    """Starts a process with a connection to it and memory for each direction, and waits for its end.

    The system ends a process with the thread that started it: this one lives as long, whichever threads use the
    process. No interrupt comes upon it, as one may upon the main thread, so nothing is ever left half made.
    """

    connection: Connection
    inbox: Shared
    outbox: Shared
    process: subprocess.Popen[bytes]

    def __init__(self) -> None:
        super().__init__(name="headrace-process", daemon=True)
        self._owner = os.getpid()
        self._lock = threading.RLock()  # the collector may free a worker from within
        self._made = threading.Event()
        self._error: BaseException | None = None
        self._freed = False

    def begin(self) -> None:
        """Have the process started."""
        self.start()
        self._made.wait()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            with contextlib.ExitStack() as undo:
                self._make(undo)
                with self._lock:
                    self._made.set()
                    if not self._freed:
                        undo.pop_all()
        except Exception as error:
            self._error = error
            self._made.set()
            return
        self.process.wait()

    def _make(self, undo: contextlib.ExitStack) -> None:
        here, there = socket.socketpair()
        with there:
            self.connection = undo.enter_context(Connection(here.detach()))
            self.inbox = undo.enter_context(contextlib.closing(Shared.create()))
            self.outbox = undo.enter_context(contextlib.closing(Shared.create()))
            fds = there.fileno(), self.inbox.fd, self.outbox.fd
            path = [entry for entry in sys.path if isinstance(entry, str)]
            program = f"import sys; sys.path[:] = {path}; from headrace.execute.worker import serve; serve{fds}"
            # In a group of its own: Ctrl-C is for the process that the user started, and that one ends this one.
            self.process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=fds, process_group=0
            )
            undo.callback(self.process.kill)

    def free(self) -> None:
        """End the process and free the rest; in a process that was forked from this one, only what it has copies of."""
        with self._lock:
            there = self._made.is_set() and self._error is None and not self._freed
            self._freed = True
        if not there:
            return  # if it is in the making, `run` sees to it
        if self._owner == os.getpid():
            self.process.kill()
        self.connection.close()
        self.inbox.close()
        self.outbox.close()
        if self._owner == os.getpid() and threading.current_thread() is not self:
            self.join(REAP_SECONDS)  # not for ever: the collector may call from wherever it likes


class Worker:
    """One process, a connection to it, and memory for each direction. They go with it, however it goes."""

    def __init__(self) -> None:
        if os.name != "posix" or not sys.executable:
            raise HeadraceError('mode="process" needs Linux or macOS and a Python interpreter to start; use threads')
        keeper = Keeper()
        try:
            keeper.begin()
            self._free = weakref.finalize(self, keeper.free)
        except BaseException:
            keeper.free()
            raise
        self._keeper = keeper
        self._connection, self._inbox, self._outbox = keeper.connection, keeper.inbox, keeper.outbox
        self._unanswered = 0
        self._unwanted = 0
        self.alive = True

    def begin(self, call: Callable[[Any], list[Any]]) -> None:
        """Send the function."""
        try:
            message = to_message([call], self._inbox)
        except Exception as error:
            found = culprit(call)
            raise TypeError(
                f'mode="process": the function cannot be sent to another process: {error}'
                + (f" ({found}). Make it inside the function, or when it is first needed there" if found else "")
            ) from error
        self._send(message)
        self.receive()

    def answer(self, block: Block) -> list[Block | Exception]:
        """What the function makes of a block."""
        try:
            message = to_message([block], self._inbox)
        except Exception as error:
            raise Unsendable(str(error)) from error
        self._send(message)
        return self.receive()

    def ask(self, value: Any) -> list[Any]:
        """What the function makes of a value."""
        self.send(value)
        return self.receive()

    def send(self, value: Any) -> None:
        """Ask without waiting."""
        self._send(to_message([value], self._inbox))

    def forget_answers(self) -> None:
        """Nobody will fetch the answers to what was asked so far: the next to ask passes over them."""
        self._unwanted = self._unanswered

    def _send(self, message: bytes) -> None:
        with self._whole():
            self._connection.send_bytes(message)
            self._unanswered += 1

    def _receive(self) -> bytes:
        with self._whole():
            message = self._connection.recv_bytes()
            self._unanswered -= 1
        return message

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What is sent, received or counted half, since an interrupt came, makes the connection useless."""
        try:
            yield
        except BaseException as error:
            self.alive = False
            if isinstance(error, EOFError | OSError):
                raise Died(self._ending()) from None
            raise

    def receive(self) -> list[Any]:
        """The answer to what was asked first and not answered yet."""
        while self._unwanted:
            self._receive()
            self._unwanted -= 1
        answer = from_message(self._receive(), self._outbox)
        first = answer[0] if answer else None
        if isinstance(first, Unusable):
            error = first.exception()
            raise WorkerError(
                f"a worker process cannot use what it was sent: {type(error).__name__}: {error}"
            ) from error
        if isinstance(first, Interrupted):
            raise first.exception()
        return [part.exception() if isinstance(part, Raised) else part for part in answer]

    def _ending(self) -> str:
        self._keeper.join(REAP_SECONDS)
        code = self._keeper.process.returncode
        if code is None:
            return "hung up"
        return f"ended with exit code {code}" + (f" ({signal.Signals(-code).name})" if code < 0 else "")

    def kill(self) -> None:
        """End the process, without more ado."""
        self._keeper.process.kill()

    def close(self) -> None:
        """End the process if it has not ended yet, and free what this side holds."""
        self.alive = False
        self._free()
