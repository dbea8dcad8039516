"""What a worker process runs: blocks come in, what a user's function makes of them goes out."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from headrace import _native
from headrace.block import Block
from headrace.errors import WorkerError
from headrace.execute.shared import Shared, from_message, to_message

SWITCH_SECONDS = 1e-4
"""How long the thread that answers may wait for those that work: the usual 5 ms are as much as many an answer takes."""


@dataclass
class Raised:
    """An exception on its way to another process, with the traceback as text."""

    pickled: bytes | None
    name: str
    text: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Ready to be sent."""
        trace = "".join(traceback.format_exception(error)).rstrip()
        try:
            pickled = cloudpickle.dumps(error)
            cloudpickle.loads(pickled)  # some can be written and not read
        except Exception:
            pickled = None
        return cls(pickled, type(error).__name__, str(error), trace)

    def exception(self) -> BaseException:
        """The same exception here; one of the same name and message where it cannot be made again."""
        try:
            error: BaseException = cloudpickle.loads(self.pickled)
        except Exception:
            error = type(self.name, (WorkerError,), {})(self.text)
        error.add_note(f"\nIn a worker process:\n{self.trace}")
        return error


@dataclass
class Unusable(Raised):
    """Why the worker cannot do its work at all."""


@dataclass
class Interrupted(Raised):
    """What ends the pass, since it is no error of an element."""


@dataclass
class NewCall:
    """The function that answers from here on."""

    call: Any


def serve_calls(connection: int, *memory: int) -> None:
    """Take the function, then answer one block after another, until the other end is closed or its process is gone.

    `memory` is that of questions, which take turns, and then that of answers.
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
            answer: list[Any] = [Unusable.of(error)]
        else:
            if isinstance(value, NewCall):
                call, answer = value.call, []
            else:
                answer = _answer(call, value)
        sys.stdout.flush()  # the end comes without warning
        sys.stderr.flush()
        connection.send_bytes(_pack(answer, outbox))


def _answer(call: Any, block: Block) -> list[Block | Raised]:
    try:
        return [Raised.of(part) if isinstance(part, Exception) else part for part in call(block)]
    except BaseException as error:  # such as SystemExit, which belongs to whoever reads
        return [Interrupted.of(error)]


def _pack(answer: list[Any], outbox: Shared) -> bytes:
    try:
        return to_message(answer, outbox)
    except Exception:
        return to_message([sendable for part in answer for sendable in _rows(part, outbox)], outbox)


def _rows(part: Block | Raised, outbox: Shared) -> list[Block | Raised]:
    """The rows one by one, in the place of each that cannot be sent the reason why."""
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
