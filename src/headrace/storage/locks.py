"""Locks of the operating system: they are gone with the process that held them, however it ended."""

from __future__ import annotations

from typing import Any

from headrace.errors import StorageError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


def lock(file: Any, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file until it is closed; BlockingIOError where another process has it, unless it is to `wait`."""
    if fcntl is None:
        raise StorageError("files of rows are written and waited for on Linux and macOS only: the system has no flock")
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
