"""One worker process as its parent sees it: start, request, end.

A worker is a new interpreter, not a fork of a process that has threads. It is killed when it is no longer needed, and
by the operating system when this process is gone, however that ended. Its memory is anonymous, so nothing is left
behind.
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
from time import monotonic
from typing import Any

from headrace.columns.block import Block
from headrace.core.types import Component
from headrace.errors import HeadraceError, WorkerError
from headrace.execute.processes.shared_values import PackedValues, Shared, from_message, take_apart
from headrace.execute.processes.unpicklable import culprit
from headrace.execute.processes.worker import Interrupted, NewCall, Raised, Unusable

REAP_SECONDS = 5.0
"""How long a worker that closed its connection may take to exit before it is killed."""
MAX_UNREAD_BYTES = 1 << 15
"""How many bytes fit into a connection besides another message although no process reads."""
MAX_REQUESTS_IN_FLIGHT = 2
"""How many requests may be in flight: a worker has the next one when it has answered the last."""


class Died(Exception):  # noqa: N818
    """A worker died: how it ended."""


class Unsendable(Exception):  # noqa: N818
    """A block contains an object that cannot be pickled: why."""


class Keeper(threading.Thread):
    """Start a process with a connection and shared memory for each request and answer, and wait for its end.

    The operating system ends a process with the thread that started it. This thread lives as long as the process,
    whichever threads use it. It receives no interrupt, unlike the main thread, so nothing is ever left half created.
    """

    connection: Connection
    inboxes: list[Shared]
    outboxes: list[Shared]
    process: subprocess.Popen[bytes]

    def __init__(self) -> None:
        super().__init__(name="headrace-process", daemon=True)
        self._owner = os.getpid()
        self._lock = threading.RLock()  # reentrant: the garbage collector may free a worker while it is held
        self._made = threading.Event()
        self._error: BaseException | None = None
        self._freed = False

    def begin(self) -> None:
        """Start the process."""
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
            memory = [
                undo.enter_context(contextlib.closing(Shared.create())) for _ in range(2 * MAX_REQUESTS_IN_FLIGHT)
            ]
            self.inboxes, self.outboxes = memory[:MAX_REQUESTS_IN_FLIGHT], memory[MAX_REQUESTS_IN_FLIGHT:]
            fds = there.fileno(), *(each.fd for each in memory)
            path = [entry for entry in sys.path if isinstance(entry, str)]
            serving = f"from headrace.execute.processes.worker import serve_calls; serve_calls{fds}"
            program = f"import sys; sys.path[:] = {path}; {serving}"
            # In its own process group: Ctrl-C is for the process that the user started, which ends this one.
            self.process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=fds, process_group=0
            )
            undo.callback(self.process.kill)

    def free(self) -> None:
        """End the process and free its resources; in a forked child, free only the copies."""
        with self._lock:
            there = self._made.is_set() and self._error is None and not self._freed
            self._freed = True
        if not there:
            return  # if it is starting, `run` ends it
        if self._owner == os.getpid():
            self.process.kill()
        self.connection.close()
        for memory in (*self.inboxes, *self.outboxes):
            memory.close()
        if self._owner == os.getpid() and threading.current_thread() is not self:
            self.join(REAP_SECONDS)  # with a limit: the garbage collector may call this from anywhere


class Worker:
    """One process, a connection to it, and shared memory for requests and answers, freed together.

    Answers come in the order of the requests. At most MAX_REQUESTS_IN_FLIGHT of them hold arrays.
    """

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
        self._connection = keeper.connection
        self._sent = self._received = 0
        self._wanted = 0  # the first answer that is wanted
        self.alive: bool = True
        self.ready: bool = False

    def begin(self, call: Callable[[Any], list[Component]]) -> None:
        """Send the function, and wait until it has arrived."""
        self.hand_over(take_call_apart(call))
        self.receive()
        self.ready = True

    def hand_over(self, call: PackedValues) -> None:
        """Send the function. The worker is `ready` once the next answer has arrived."""
        self._send(call)

    def send_block(self, block: Block, *, ahead: bool = False) -> bool:
        """Send a block to the function. Return whether it was sent.

        With `ahead`, nothing is sent that could fill the connection, because both sides would wait for each other.
        """
        try:
            message = take_apart([block])
        except Exception as error:
            raise Unsendable(str(error)) from error
        return self._send(message, most=MAX_UNREAD_BYTES if ahead else None)

    def ask(self, value: object) -> list[Component]:
        """Return the function's result for a value."""
        self.send(value)
        return self.receive()

    def send(self, value: object) -> None:
        """Send a value without waiting."""
        self.send_packed(take_apart([value]))

    def send_packed(self, question: PackedValues) -> None:
        """Send a request that was packed before."""
        self._send(question)

    def forget_answers(self) -> None:
        """Discard the answers to all requests so far: the next `receive` skips them."""
        self._wanted = self._sent

    def comes_to_rest(self, deadline: float) -> bool:
        """Return whether it is alive and has answered all requests by the deadline. Those answers are discarded."""
        self.forget_answers()
        try:
            while self.alive and self._received < self._sent:
                if not self._connection.poll(max(0.0, deadline - monotonic())):
                    return False
                self._receive()
        except (Died, OSError):  # it died, or was freed at the interpreter's exit
            return False
        return self.alive and self._keeper.is_alive()

    def _send(self, value: PackedValues, most: int | None = None) -> bool:
        message = value.write(self._keeper.inboxes[self._sent % MAX_REQUESTS_IN_FLIGHT])
        if most is not None and len(message) > most:
            return False
        with self._whole():
            self._connection.send_bytes(message)
            self._sent += 1
        return True

    def _receive(self) -> bytes:
        with self._whole():
            message = self._connection.recv_bytes()
            self._received += 1
        return message

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Make the connection unusable if an interrupt leaves a message half sent, received or counted."""
        try:
            yield
        except BaseException as error:
            self.alive = False
            if isinstance(error, EOFError | OSError):
                raise Died(self._ending()) from None
            raise

    def receive(self, *, lent: bool = False) -> list[Component]:
        """Return the answer to the oldest unanswered request.

        If it is `lent`, columns stay in the worker's memory until the next request but one.
        """
        while self._received < self._wanted:
            self._receive()
        memory = self._keeper.outboxes[self._received % MAX_REQUESTS_IN_FLIGHT]
        answer = from_message(self._receive(), memory, lent=lent)
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
        """Kill the process."""
        self._keeper.process.kill()

    def close(self) -> None:
        """End the process if it is running, and free this side's resources."""
        self.alive = False
        self._free()


def take_call_apart(call: Callable[[Any], list[Component]]) -> PackedValues:
    """Pack a function for workers. Raise an error that names what cannot be pickled."""
    try:
        return take_apart([NewCall(call)])
    except Exception as error:
        found = culprit(call)
        raise TypeError(
            f'mode="process": the function cannot be sent to another process: {error}'
            + (f" ({found}). Make it inside the function, or when it is first needed there" if found else "")
        ) from error
