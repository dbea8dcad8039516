"""Why a function is not traced."""

from __future__ import annotations


class Untraceable(BaseException):
    """The function must run row by row. No `Exception`, so that a user's `except` does not take it for its own."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


OPAQUE = "of a component that is not a dense array of known shape"
"""Why an operation is not traced, where rows may yet show what they are."""


class VectorisedError(TypeError):
    """`mode="vectorized"` was asked for, and the function cannot be."""


class Resized(Exception):  # noqa: N818
    """The rows of a block have another length than was supposed."""

    def __init__(self, number: int, size: int) -> None:
        super().__init__(number, size)
        self.number = number
        self.size = size


class Mismatch(Exception):  # noqa: N818
    """Rows turned out other than the trace said."""
