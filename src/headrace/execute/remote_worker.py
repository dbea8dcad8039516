"""One worker process as its parent sees it: started, asked, ended.

A worker is a new interpreter, not a fork of one that has threads. It is killed when nobody wants it any more, and by
the system when this process is gone, however that ended; its memory has no name to leave behind.
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
from pathlib import Path
from time import monotonic
from typing import Any

from headrace.block import Block
from headrace.errors import HeadraceError, WorkerError
from headrace.execute.shared import PackedValues, Shared, from_message, take_apart
from headrace.execute.unpicklable import culprit
from headrace.execute.worker import Interrupted, NewCall, Raised, Unusable

REAP_SECONDS = 5.0
"""How long a worker that hung up may take to end before it is killed."""
SEND_BYTES = 1 << 15
"""What a connection takes beside another message though nobody reads."""
LIGHT_IMPORT = str(Path(__file__).with_name("light_import.py"))
AHEAD = 2
"""So many questions may be under way at a time: a worker has the next one when it has answered the last."""


class Died(Exception):  # noqa: N818
    """A worker is gone: how it ended."""


class Unsendable(Exception):  # noqa: N818
    """A block holds what cannot be pickled: why."""


class Keeper(threading.Thread):
    """Starts a process with a connection to it and memory for each question and answer, and waits for its end.

    The system ends a process with the thread that started it: this one lives as long, whichever threads use the
    process. No interrupt comes upon it, as one may upon the main thread, so nothing is ever left half made.
    """

    connection: Connection
    inboxes: list[Shared]
    outboxes: list[Shared]
    process: subprocess.Popen[bytes]

    def __init__(self, *, light: bool) -> None:
        super().__init__(name="headrace-process", daemon=True)
        self._light = light
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
            memory = [undo.enter_context(contextlib.closing(Shared.create())) for _ in range(2 * AHEAD)]
            self.inboxes, self.outboxes = memory[:AHEAD], memory[AHEAD:]
            fds = there.fileno(), *(each.fd for each in memory)
            path = [entry for entry in sys.path if isinstance(entry, str)]
            light = f"exec(open({LIGHT_IMPORT!r}).read()); import_lightly(); " if self._light else ""
            serving = f"from headrace.execute.worker import serve_calls; serve_calls{fds}"
            program = f"import sys; sys.path[:] = {path}; {light}{serving}"
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
        for memory in (*self.inboxes, *self.outboxes):
            memory.close()
        if self._owner == os.getpid() and threading.current_thread() is not self:
            self.join(REAP_SECONDS)  # not for ever: the collector may call from wherever it likes


class Worker:
    """One process, a connection to it, and memory for what goes there and back. They go with it, however it goes.

    Answers come in the order of the questions, of which no more than AHEAD that hold arrays may be under way. A `light`
    one imports of the package only what it needs.
    """

    def __init__(self, *, light: bool = False) -> None:
        if os.name != "posix" or not sys.executable:
            raise HeadraceError('mode="process" needs Linux or macOS and a Python interpreter to start; use threads')
        keeper = Keeper(light=light)
        try:
            keeper.begin()
            self._free = weakref.finalize(self, keeper.free)
        except BaseException:
            keeper.free()
            raise
        self._keeper = keeper
        self._connection = keeper.connection
        self._sent = self._received = 0
        self._wanted = 0  # the first answer that somebody wants
        self.alive = True
        self.ready = False

    def begin(self, call: Callable[[Any], list[Any]]) -> None:
        """Send the function, and wait until it is there."""
        self.hand_over(take_call_apart(call))
        self.receive()
        self.ready = True

    def hand_over(self, call: PackedValues) -> None:
        """Send the function; once the next answer is there, it is `ready`."""
        self._send(call)

    def send_block(self, block: Block, *, ahead: bool = False) -> bool:
        """Ask what the function makes of a block; whether it was sent.

        `ahead` of an answer nothing goes that could fill up the connection: the two would wait for each other.
        """
        try:
            message = take_apart([block])
        except Exception as error:
            raise Unsendable(str(error)) from error
        return self._send(message, most=SEND_BYTES if ahead else None)

    def ask(self, value: Any) -> list[Any]:
        """What the function makes of a value."""
        self.send(value)
        return self.receive()

    def send(self, value: Any) -> None:
        """Ask without waiting."""
        self.send_packed(take_apart([value]))

    def send_packed(self, question: PackedValues) -> None:
        """Ask what has been asked before, and is ready to be sent again."""
        self._send(question)

    def forget_answers(self) -> None:
        """Nobody will fetch the answers to what was asked so far: the next to ask passes over them."""
        self._wanted = self._sent

    def comes_to_rest(self, deadline: float) -> bool:
        """Whether it lives and has answered all that was asked, or does so in time; nobody wants those answers."""
        self.forget_answers()
        try:
            while self.alive and self._received < self._sent:
                if not self._connection.poll(max(0.0, deadline - monotonic())):
                    return False
                self._receive()
        except (Died, OSError):  # it ended, or was freed at the interpreter's exit
            return False
        return self.alive and self._keeper.is_alive()

    def _send(self, value: PackedValues, most: int | None = None) -> bool:
        message = value.write(self._keeper.inboxes[self._sent % AHEAD])
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
        """What is sent, received or counted half, since an interrupt came, makes the connection useless."""
        try:
            yield
        except BaseException as error:
            self.alive = False
            if isinstance(error, EOFError | OSError):
                raise Died(self._ending()) from None
            raise

    def receive(self, *, lent: bool = False) -> list[Any]:
        """The answer to what was asked first and not answered yet.

        If it is `lent`, columns lie where the worker put them, until the next but one is asked for.
        """
        while self._received < self._wanted:
            self._receive()
        memory = self._keeper.outboxes[self._received % AHEAD]
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
        """End the process, without more ado."""
        self._keeper.process.kill()

    def close(self) -> None:
        """End the process if it has not ended yet, and free what this side holds."""
        self.alive = False
        self._free()


def take_call_apart(call: Callable[[Any], list[Any]]) -> PackedValues:
    """A function on its way to workers; what keeps it from going there is named."""
    try:
        return take_apart([NewCall(call)])
    except Exception as error:
        found = culprit(call)
        raise TypeError(
            f'mode="process": the function cannot be sent to another process: {error}'
            + (f" ({found}). Make it inside the function, or when it is first needed there" if found else "")
        ) from error
