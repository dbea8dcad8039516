"""Workers inside the workers of a Dask cluster, one in each."""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Callable

from headrace.cluster.members import PATIENCE_SECONDS, TIMEOUT_SECONDS, Cluster, ClusterWorker
from headrace.core.types import JsonObject, LibraryObject
from headrace.errors import WorkerError

START_SECONDS = 60.0
"""How long a Dask worker may take to report its address: one that hangs does not block requests to the others."""
LOOK_SECONDS = 1.0
"""How often the list of Dask workers is requested."""
NO_WORKERS = "Dask has no workers"
NO_WORKERS_ANY_MORE = (
    "Dask has no workers any more, of up to {}. It gives up those that are not back within "
    "distributed.deploy.lost-worker-timeout (15 seconds unless it is set), which is short on a busy machine, and those "
    "that end while they start: client.cluster.scale(n) has it start others"
)

NO_SCHEDULER = "the Client of Dask has lost its scheduler, and is {}: start the scheduler again, or a new cluster"

_servers: JsonObject = {}
"""Those of this process, which is a worker of Dask."""


def serve_in_dask(name: str, token: str, cpus: int, host: str) -> str:
    """Run in a Dask worker: listen, and return the address."""
    from headrace.cluster.serve import warm_up
    from headrace.cluster.server import start_server

    server = _servers.get(name)
    if server is None:
        _servers[name] = server = start_server(host, token=token, cpus=cpus)
        warm_up(server.work)
    return f"{host}:{server.port}"


def stop_in_dask(name: str) -> None:
    """End the worker in a Dask worker."""
    from headrace.cluster.serve import stop_server

    server = _servers.pop(name, None)
    if server is not None:
        stop_server(server)


def _what_is_missing() -> Callable[[], str]:
    """What a worker is asked first: made here, so that it travels as it is and needs no headrace over there."""

    def missing() -> str:
        import importlib.util
        import sys

        try:
            there = importlib.util.find_spec("headrace") is not None
        except (ImportError, ValueError):
            there = False
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return "" if there else f"headrace is not installed there, in Python {version} ({sys.executable}): install it"

    return missing


class DaskCluster(Cluster):
    """One worker in each of Dask's, those that come later included."""

    kind = "dask"

    def __init__(self, client: LibraryObject, *, timeout: float, patience: float) -> None:
        super().__init__(timeout=timeout, patience=patience)
        self._client = client
        self._token = secrets.token_hex(16)
        self._name = f"headrace-{secrets.token_hex(4)}"
        self._problem = ""
        self._lacking: set[str] = set()
        self._found: set[str] = set()
        self._most = 0
        self._wake = threading.Event()
        self._finalizer = weakref.finalize(self, _stop_all, client, self._name, self._wake)
        self._looker = threading.Thread(
            target=_look, args=(weakref.ref(self), self._wake), name="workers of Dask", daemon=True
        )
        self._looker.start()

    def look(self) -> bool:
        """Start workers in Dask workers that have none yet. Return whether to check again."""
        if self._closed:
            return False
        if self._client.status != "running":  # a request would wait for the scheduler, and `close` for the request
            self._problem = NO_SCHEDULER.format(self._client.status)
            return True
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        self._most = max(self._most, len(found))
        self._found = set(found)
        if not found:
            self._problem = NO_WORKERS if self._most == 0 else NO_WORKERS_ANY_MORE.format(self._most)
        with self._changed:
            there = {member.handle: member for member in self._members}
        for worker, member in there.items():
            if worker not in found:
                self.report(member, "Dask has it no more")
        for worker, about in found.items():
            if worker not in there and worker not in self._lacking:
                self._begin(worker, about)
        return True

    def _begin(self, worker: str, about: JsonObject) -> None:
        try:
            client = self._client
            lacking = client.sync(client._run, _what_is_missing(), workers=[worker], callback_timeout=START_SECONDS)
            if lacking[worker]:
                self._give_up_on(worker, lacking[worker])
                return
            answers = client.sync(
                client._run, serve_in_dask, self._name, self._token, about["nthreads"], about["host"],
                workers=[worker], callback_timeout=START_SECONDS,
            )  # fmt: skip
            member = ClusterWorker(f"grpc://{answers[worker]}", token=self._token, timeout=self.timeout)
            member.status(timeout=min(self.timeout, 5.0))
        except Exception as error:  # of a worker that goes while it is asked, or cannot import headrace
            self._problem = f"{worker}: {str(error).strip().splitlines()[0] if str(error) else type(error).__name__}"
            return
        member.handle = worker
        self.join(member)

    def replace(self, member: ClusterWorker, reason: str) -> None:
        self._problem = f"{member.handle}: {reason}"
        self._wake.set()

    def _give_up_on(self, worker: str, reason: str) -> None:
        """Report at once that a worker cannot import headrace: it never will."""
        self._problem = f"{worker}: {reason}"
        with self._changed:
            self._lacking.add(worker)
            self._changed.notify_all()

    def may_have(self, workers: int) -> bool:
        lacking = self._found & self._lacking
        return not lacking or len(self._found - lacking) >= workers

    def why_not(self) -> str:
        return self._problem or NO_WORKERS

    def close(self) -> None:
        super().close()
        self._wake.set()
        if threading.current_thread() is not self._looker:
            self._looker.join()
        self._finalizer()


def _look(known: weakref.ref[DaskCluster], wake: threading.Event) -> None:
    while True:
        wake.clear()
        cluster = known()
        if cluster is None:
            return
        try:
            if not cluster.look():
                return
        except Exception as error:  # of a scheduler that does not answer just now
            cluster._problem = f"the scheduler: {error}"
        del cluster
        wake.wait(LOOK_SECONDS)


def _stop_all(client: LibraryObject, name: str, wake: threading.Event) -> None:
    wake.set()
    if client.status == "running":
        client.run(stop_in_dask, name, on_error="ignore")


def dask(client: LibraryObject, *, timeout: float = TIMEOUT_SECONDS, patience: float = PATIENCE_SECONDS) -> DaskCluster:
    """Return a cluster within the one that a `dask.distributed.Client` is connected to, one worker in each Dask worker.

    Those that Dask starts later, adaptively or in the place of dead ones, are used from then on.

    Args:
        client: A `dask.distributed.Client`.
        timeout: Seconds to wait for an answer before giving up on a worker.
        patience: Seconds to wait while no worker is available.
    """
    if not hasattr(client, "scheduler_info") or not hasattr(client, "run"):
        raise TypeError(f"hr.cluster.dask takes a dask.distributed.Client, not {type(client).__qualname__}")
    if client.status != "running":
        raise WorkerError(f"the Client is {client.status}: connect it first")
    return DaskCluster(client, timeout=timeout, patience=patience)
