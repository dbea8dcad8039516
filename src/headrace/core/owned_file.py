"""Open files that own their descriptor from the moment it exists.

Between `descriptor = os.open(...)` and the `try` after it, Ctrl-C leaks the descriptor. `io.FileIO` opens and stores
it in one step of the interpreter.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable


class OwnedFile(io.FileIO):
    """A raw file that closes its descriptor silently when nothing refers to it any more."""

    def __del__(self) -> None:
        self.close()  # without the ResourceWarning of the base class


class OwnedDirectory:
    """An open directory, closed when nothing refers to it any more; `io.FileIO` cannot open one."""

    descriptor = -1

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def with_flags(flags: int) -> Callable[[str, int], int]:
    """Return an `opener` that opens with exactly these flags of `os.open`, and closes on exec."""
    flags |= getattr(os, "O_CLOEXEC", 0)
    return lambda path, _: os.open(path, flags, 0o666)
