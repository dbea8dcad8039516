"""Workers that are processes on this machine, started and ended with the cluster."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import subprocess
import sys
import threading
import weakref
from multiprocessing.connection import wait as wait_for_any
from typing import Any, NamedTuple

from headrace.cluster.members import PATIENCE_SECONDS, TIMEOUT_SECONDS, Cluster, ClusterWorker
from headrace.core.override import override
from headrace.errors import HeadraceError, WorkerError
from headrace.execute.budget import cpus

START_SECONDS = 120.0
"""How long a process may take to begin to listen: on a busy machine imports take long."""
MAX_FAILED_STARTS = 3
"""Give up after this many processes in a row end before they listen."""


class Launched(NamedTuple):
    """A process, a pipe on which it reports its port and that breaks when it ends, and a pipe that ends it when it
    breaks.
    """

    process: subprocess.Popen[bytes]
    said: int
    lifeline: int


class Launcher(threading.Thread):
    """Start processes, wait for their end, and replace them.

    The system ends a process with the thread that started it, so this thread lives as long as they do. It holds the
    cluster by a weak reference, so that an unreferenced cluster ends.
    """

    def __init__(self, cluster: LocalCluster, token: str) -> None:
        super().__init__(name="local workers", daemon=True)
        self._cluster = weakref.ref(cluster)
        self._token = token
        self._orders: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._wake_end, self._woken_end = os.pipe()[::-1]
        self._launched: dict[int, Launched] = {}
        self._members: dict[int, ClusterWorker] = {}
        self._wanted = 0
        self._bad_starts = 0
        self.problem: str = ""
        self._owner = os.getpid()

    def order(self, what: str, value: object = None) -> None:
        """Queue an order: "resize" to a number, "kill" a member, "end"."""
        if self._owner != os.getpid():
            return
        self._orders.put((what, value))
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._wake_end, b".")

    def run(self) -> None:
        import pyarrow.flight  # noqa: F401  # which takes as long as workers do to begin

        try:
            while self._obey():
                self._watch(wait_for_any([self._woken_end, *self._launched]))
        finally:
            for said in list(self._launched):
                self._end(said)
            os.close(self._wake_end)
            os.close(self._woken_end)

    def _obey(self) -> bool:
        """Execute queued orders, and start or end processes as needed. Return whether to continue."""
        while True:
            try:
                what, value = self._orders.get_nowait()
            except queue.Empty:
                break
            if what == "end":
                return False
            if what == "resize":
                self._wanted, self._bad_starts = value, 0
            for said, member in list(self._members.items()) if what == "kill" else ():
                if member is value:
                    self._end(said)
        while len(self._launched) > self._wanted:
            self._end(next(reversed(self._launched)))
        while len(self._launched) < self._wanted and self._bad_starts < MAX_FAILED_STARTS:
            self._start()
        return True

    def _start(self) -> None:
        heard, said = os.pipe()
        held, lifeline = os.pipe()
        path = [entry for entry in sys.path if isinstance(entry, str)]
        share = max(1, cpus() // max(1, self._wanted))
        program = (
            f"import sys; sys.path[:] = {path}; from headrace.cluster.serve import serve_child; "
            f"serve_child({said}, {held}, {share})"
        )
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                pass_fds=(said, held),
                process_group=0,
                env={**os.environ, "HEADRACE_TOKEN": self._token},
            )
        finally:
            os.close(said)
            os.close(held)
        self._launched[heard] = Launched(process, heard, lifeline)

    def _watch(self, ready: list[Any]) -> None:
        for end in ready:
            if end == self._woken_end:
                os.read(end, 4096)
            elif end in self._launched:
                self._hear(end)

    def _hear(self, said: int) -> None:
        """Handle a process that reports its port, or is gone."""
        data = os.read(said, 64)
        cluster = self._cluster()
        if data and cluster is not None:
            port = int(data)
            member = ClusterWorker(f"grpc://127.0.0.1:{port}", token=self._token, timeout=cluster.timeout)
            member.handle = self._launched[said].process.pid
            self._members[said] = member
            self._bad_starts = 0
            cluster.join(member)
            return
        if said not in self._members:
            self._bad_starts += 1
            self.problem = "a worker process ended before it listened; its own words are above, on stderr"
        self._end(said)

    def _end(self, said: int) -> None:
        launched = self._launched.pop(said)
        launched.process.kill()
        launched.process.wait()
        os.close(launched.said)
        os.close(launched.lifeline)
        member = self._members.pop(said, None)
        cluster = self._cluster()
        if member is not None and (cluster is None or not cluster.leave(member)):
            member.close()


class LocalCluster(Cluster):
    """Processes on this machine. One that ends, or does not answer, is replaced."""

    kind = "local"

    def __init__(self, workers: int, *, timeout: float = TIMEOUT_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        super().__init__(timeout=timeout, patience=patience)
        if os.name != "posix" or not sys.executable:
            raise HeadraceError("hr.cluster.local needs Linux or macOS and a Python interpreter to start")
        self._launcher = Launcher(self, secrets.token_hex(16))
        self._launcher.start()
        self._end = weakref.finalize(self, _end_launcher, self._launcher)
        self._launcher.order("resize", workers)
        self._target = workers

    def starting(self) -> int:
        return 0 if self._launcher.problem else max(0, self._target - len(self.members()))

    def resize(self, workers: int) -> None:
        """Change the number of workers; running passes continue with them.

        >>> with hr.cluster.local(1) as workers:
        ...     workers.resize(2)
        ...     workers.wait_for(2)
        """
        if workers < 0:
            raise ValueError(f"a cluster has 0 workers or more, not {workers}")
        if self._closed:
            raise WorkerError("the cluster is closed")
        self._target = workers
        self._launcher.order("resize", workers)

    @override
    def replace(self, member: ClusterWorker, reason: str) -> None:
        self._launcher.order("kill", member)

    def why_not(self) -> str:
        return self._launcher.problem or "they are being started"

    def close(self) -> None:
        super().close()
        self._end()


def _end_launcher(launcher: Launcher) -> None:
    launcher.order("end")
    if launcher._owner == os.getpid() and threading.current_thread() is not launcher:
        launcher.join(START_SECONDS)


def local(workers: int, *, timeout: float = TIMEOUT_SECONDS, patience: float = PATIENCE_SECONDS) -> LocalCluster:
    """Start a cluster of `workers` processes on this machine.

    One that does not answer for `timeout` seconds is replaced; a pass waits `patience` seconds while there is none.

    Args:
        workers: Number of workers.
        timeout: Seconds to wait for an answer before giving up on a worker.
        patience: Seconds to wait while no worker is available.

    >>> with hr.cluster.local(2) as workers:
    ...     sum(hr.Dataset.range(10).distribute_over(workers, splits=4))
    np.int64(45)
    """
    from headrace.ops.shared.arguments import positive

    return LocalCluster(positive("workers", workers), timeout=timeout, patience=patience)
