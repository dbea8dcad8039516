"""A Unix socket through which `headrace top PID` sees the passes of a process. It is open only if the process asks."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.core.types import JsonObject
from headrace.errors import HeadraceError
from headrace.observe.live import live_iterators, snapshot

TIMEOUT_SECONDS = 5.0


def socket_path(pid: int) -> Path:
    """Where the socket of a process of this user is."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"headrace-{os.getuid()}" / f"{pid}.sock"


class TopServer:
    """Answers each connection with one JSON value until it is closed. Also a context manager."""

    def __init__(self) -> None:
        self.path: Path = socket_path(os.getpid())
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.parent.stat().st_uid != os.getuid():
            raise HeadraceError(f"{self.path.parent} belongs to another user")
        self.path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self._socket.bind(str(self.path))
        finally:
            os.umask(before)
        self._socket.listen()
        self._thread = threading.Thread(target=self._answer, name="headrace-top", daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # it is closed
                return
            with connection:
                connection.settimeout(TIMEOUT_SECONDS)
                body = json.dumps([snapshot(it) for it in live_iterators()], default=str).encode()
                try:
                    connection.sendall(body)
                except OSError:  # the other side has gone, which is its own business
                    continue

    def close(self) -> None:
        """Remove the socket."""
        self.path.unlink(missing_ok=True)
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # already closed
            return
        finally:
            self._socket.close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def serve_top() -> TopServer:
    """Open a Unix socket of mode 0600 through which `headrace top PID` shows the passes of this process.

    Returns:
        A server with `path` and `close()`.

    >>> with hr.observe.serve_top() as server:
    ...     oct(server.path.stat().st_mode & 0o777)
    '0o600'
    """
    return TopServer()


def ask_process(pid: int) -> list[JsonObject]:
    """The passes of a process that has called `serve_top`."""
    path = socket_path(pid)
    if not path.exists():
        raise HeadraceError(f"process {pid} shows nothing: it must call hr.observe.serve_top()")
    parts = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT_SECONDS)
        try:
            client.connect(str(path))
        except ConnectionRefusedError as error:
            raise HeadraceError(f"process {pid} has ended") from error
        while part := client.recv(1 << 16):
            parts.append(part)
    found: list[JsonObject] = json.loads(b"".join(parts))
    return found
