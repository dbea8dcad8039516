"""Locks of the operating system, which are released when their process ends, however it ends."""

from __future__ import annotations

import contextlib

from headrace.core.owned_file import DescriptorFile
from headrace.errors import StorageError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Lock an open file until it is closed.

    Return False if another process has it, None if the file system has no locks.
    """
    if fcntl is None:
        raise StorageError("files of rows are written and waited for on Linux and macOS only: the system has no flock")
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def unlock(descriptor: int) -> None:
    """Release a lock explicitly: closing the file is not enough if a process was forked meanwhile."""
    with contextlib.suppress(OSError):  # there are no locks here
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class HeldLock(DescriptorFile):
    """An open file that is locked. The lock ends with `release`, or when nothing refers to this any more.

    `close` leaves the lock to processes that were forked meanwhile.
    """

    def release(self) -> None:
        """Let others lock the file, whatever processes were forked meanwhile."""
        if not self.closed:
            unlock(self.fileno())
        self.close()
