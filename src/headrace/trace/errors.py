"""Why a function is not traced."""

from __future__ import annotations

import dis
from types import FrameType

from headrace.trace.purity import pure_builtins


class Untraceable(BaseException):
    """The function must run row by row. Not an `Exception`, so that a user's `except` does not catch it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MixedText(str):
    """A reason that is an error of the user: traced code compares bytes with str."""

    __slots__ = ()


OPAQUE = "of a component that is not a dense array of known shape"
"""Why an operation is not traced, although the rows may have a known shape."""


TEXT = "makes text of data"
"""Why a function that calls str() on data is not traced, though its other results may have known shapes."""


class VectorisedError(TypeError):
    """`mode="vectorized"` was requested, and the function cannot be."""


class Resized(Exception):  # noqa: N818
    """The rows of a block have another length than assumed."""

    def __init__(self, number: int, size: int) -> None:
        super().__init__(number, size)
        self.number = number
        self.size = size


class Mismatch(Exception):  # noqa: N818
    """Rows differ from the trace's prediction."""


def is_raised_by_user(error: BaseException) -> bool:
    """Return whether a `raise` or an `assert` of the traced function's own code raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_builtins is not pure_builtins():
        return False
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def describe_error(error: BaseException) -> str:
    """Describe an exception, without its message if that would contain data."""
    try:
        return f"{type(error).__name__} ({error})"
    except Untraceable:
        return type(error).__name__


def is_for_raise(frame: FrameType) -> bool:
    """Return whether traced code makes a text only to raise an exception with it, which nothing around it catches."""
    around: FrameType | None = frame
    while around is not None:
        if around.f_builtins is pure_builtins() and around.f_code.co_exceptiontable:
            return False
        around = around.f_back
    if frame.f_builtins is not pure_builtins():
        return False
    calls = 0
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset <= frame.f_lasti:
            continue
        name = instruction.opname
        calls += name.startswith("CALL")
        if name == "RAISE_VARARGS":
            return calls <= 1
        if calls > 1 or any(word in name for word in ("JUMP", "RETURN", "STORE", "FOR_ITER", "YIELD", "SEND")):
            return False
    return False
