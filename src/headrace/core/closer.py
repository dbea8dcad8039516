"""Close what an object holds once the object is garbage, even if the two refer to each other."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable


class Closer:
    """Run a function once: when called, when the owner of this object is collected, or at exit.

    Only the owner may refer to it. `weakref.finalize` would keep alive whatever the function refers to. If that refers
    to the owner, for example through the traceback of an error that it holds, the owner would never be collected.
    """

    __slots__ = ("__weakref__", "_close")

    def __init__(self, close: Callable[[], object]) -> None:
        self._close: Callable[[], object] | None = close
        _open.add(self)

    def __call__(self) -> None:
        """Run the function, unless it has run."""
        close, self._close = self._close, None
        _open.discard(self)
        if close is not None:
            close()

    def detach(self) -> None:
        """Forget the function: what it would close has been closed."""
        self._close = None
        _open.discard(self)

    def __del__(self) -> None:
        close = getattr(self, "_close", None)  # an interrupt may have come before there was one
        if close is not None:
            self._close = None
            close()


_open: weakref.WeakSet[Closer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for each in list(_open):
        each()
