"""Open files that own their descriptor from the moment it exists.

Ctrl-C may arrive after any call, so a descriptor that a call returns leaks before it is stored: neither
`descriptor = os.open(...)` before a `try`, nor an `opener` written in Python, is safe. `io.FileIO` opens and stores in
one step of the interpreter. For everything that it cannot open, `Descriptor` stores within one call of C code.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Self

PERMISSIONS = 0o666
"""Those of a new file, less the umask."""


class Descriptor:
    """A descriptor that is closed when nothing refers to it any more."""

    def __init__(self, opening: Callable[..., int], *args: object) -> None:
        """Store what `opening`, which must be a function of C such as `os.open`, returns for these arguments."""
        self._held: list[int] = []
        self._held.extend(map(opening, *([each] for each in args)))

    @classmethod
    def of_path(cls, path: str | os.PathLike[str], flags: int) -> Descriptor:
        """Open a path with exactly these flags of `os.open`, and closed on exec."""
        return cls(os.open, path, flags | getattr(os, "O_CLOEXEC", 0), PERMISSIONS)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._held[0]

    def close(self) -> None:
        """Close the descriptor, once."""
        with suppress(IndexError, AttributeError):  # it is closed, or was never open
            list(map(os.close, map(self._held.pop, [0])))  # neither closed twice nor forgotten after an interrupt

    def __del__(self) -> None:
        self.close()


class OwnedFile(io.FileIO):
    """A raw file that closes its descriptor silently when nothing refers to it any more.

    An `opener` has to be a function of C. What needs flags of its own is a `DescriptorFile`.
    """

    def __del__(self) -> None:
        self.close()  # without the ResourceWarning of the base class

    def _dealloc_warn(self, source: object) -> None:
        """Say nothing of a buffered file over this one that an interrupt left open: it is closed, too."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a file, as `Path.read_bytes` does, which an interrupt can leave open with a warning."""
    with OwnedFile(path) as file:
        return file.readall()


class DescriptorFile(OwnedFile):
    """A raw file on a `Descriptor`; not for buffered files, which cannot be closed after an interrupt in `close`."""

    _descriptor: Descriptor | None = None

    @classmethod
    def over(cls, descriptor: Descriptor, path: str | os.PathLike[str], mode: str = "rb") -> Self:
        """Return a file that reads or writes a descriptor, and closes it."""
        file = cls(descriptor.fileno(), mode, closefd=False)
        file._descriptor = descriptor
        file.name = path
        return file

    @classmethod
    def with_flags(cls, path: str | os.PathLike[str], flags: int, mode: str = "rb") -> Self:
        """Open a path with exactly these flags of `os.open`."""
        return cls.over(Descriptor.of_path(path, flags), path, mode)

    def close(self) -> None:
        """Close the file and its descriptor."""
        super().close()
        if self._descriptor is not None:
            self._descriptor.close()
