"""The main loop of a worker process: receive blocks, return the results of a user's function."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from headrace import _native
from headrace.columns.block import Block
from headrace.core.types import AnyFunction, Component
from headrace.errors import WorkerError
from headrace.execute.processes.shared_values import Shared, from_message, to_message

SWITCH_SECONDS = 1e-4
"""How long the answering thread may wait for the GIL: the default of 5 ms is as long as many an answer takes."""


@dataclass
class Raised:
    """An exception on its way to another process, with the traceback as text."""

    pickled: bytes | None
    name: str
    text: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Pack an exception for sending."""
        trace = "".join(traceback.format_exception(error)).rstrip()
        try:
            pickled = cloudpickle.dumps(error)
            cloudpickle.loads(pickled)  # some can be pickled but not unpickled
        except Exception:
            pickled = None
        return cls(pickled, type(error).__name__, str(error), trace)

    def exception(self) -> BaseException:
        """Return the same exception, or one with the same name and message if it cannot be rebuilt."""
        try:
            error: BaseException = cloudpickle.loads(self.pickled)
        except Exception:
            error = type(self.name, (WorkerError,), {})(self.text)
        error.add_note(f"\nIn a worker process:\n{self.trace}")
        return error


@dataclass
class Unusable(Raised):
    """The worker cannot work at all: why."""


@dataclass
class Interrupted(Raised):
    """An exception that ends the pass, because it is no error of an element."""


@dataclass
class NewCall:
    """Replace the function."""

    call: Any


def serve_calls(connection: int, *memory: int) -> None:
    """Receive the function, then answer one block after another, until the connection closes or the parent dies.

    `memory` lists the memory of requests, which is used in rotation, and then that of answers.
    """
    _native.die_with_parent()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        half = len(memory) // 2
        _serve(Connection(connection), [*map(Shared, memory[:half])], [*map(Shared, memory[half:])])
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _serve(connection: Connection, inboxes: list[Shared], outboxes: list[Shared]) -> None:
    call: Any = None
    for inbox, outbox in cycle(zip(inboxes, outboxes, strict=True)):
        message = connection.recv_bytes()
        try:
            (value,) = from_message(message, inbox)
        except Exception as error:
            answer: list[Component] = [Unusable.of(error)]
        else:
            if isinstance(value, NewCall):
                call, answer = value.call, []
            else:
                answer = _answer(call, value)
        sys.stdout.flush()  # the process is killed without warning
        sys.stderr.flush()
        connection.send_bytes(_pack(answer, outbox))


def _answer(call: AnyFunction, block: Block) -> list[Block | Raised]:
    try:
        return [Raised.of(part) if isinstance(part, Exception) else part for part in call(block)]
    except BaseException as error:  # such as SystemExit, which belongs to the parent
        return [Interrupted.of(error)]


def _pack(answer: list[Component], outbox: Shared) -> bytes:
    try:
        return to_message(answer, outbox)
    except WorkerError as error:  # no shared memory is left: no fault of a row
        return to_message([Interrupted.of(error)], outbox)
    except Exception:
        return to_message([sendable for part in answer for sendable in _rows(part, outbox)], outbox)


def _rows(part: Block | Raised, outbox: Shared) -> list[Block | Raised]:
    """Return the rows one by one, with the reason in place of each that cannot be sent."""
    if isinstance(part, Raised):
        return [part]
    rows: list[Block | Raised] = []
    for i in range(part.rows):
        row = part.slice(i, i + 1)
        try:
            to_message([row], outbox)
            rows.append(row)
        except Exception as error:
            rows.append(Raised.of(TypeError(f"the result cannot be sent to another process: {error}")))
    return rows
