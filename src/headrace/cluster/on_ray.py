"""Workers that are actors of Ray."""

from __future__ import annotations

import secrets
import threading
import weakref
from typing import Any

from headrace.cluster.members import PATIENCE_SECONDS, TIMEOUT_SECONDS, Cluster, ClusterWorker
from headrace.cluster.pulse import Probe
from headrace.core.override import override
from headrace.core.types import LibraryObject
from headrace.errors import WorkerError
from headrace.ops.shared.arguments import positive

FIRST_HEAD_CHECK_SECONDS = 0.01
"""After this time, and twice as long each time, the head is checked until it answers for the first time."""
HEAD_CHECK_SECONDS = 1.0
MAX_MISSED_HEAD_CHECKS = 20
"""How many checks in a row the head may miss. After 60 seconds, Ray ends the trainer's process without an error."""
HEAD_GONE = (
    "the head of Ray at {} has not answered for {:.0f} seconds. Ray ends this process soon unless it calls "
    "ray.shutdown(): save the state, start the head again, and go on in a new process or after ray.init()"
)


class RayWorker:
    """An actor that listens, and ends with its process."""

    def __init__(self, token: str, cpus: int) -> None:
        import ray

        from headrace.cluster.serve import warm_up
        from headrace.cluster.server import start_server

        host = str(ray.util.get_node_ip_address())
        self._server = start_server(host, token=token, cpus=cpus)
        warm_up(self._server.work)
        self._address = f"{host}:{self._server.port}"

    def address(self) -> str:
        """Return the address it listens on."""
        return self._address

    def stay(self) -> None:
        """Do nothing, for as long as the actor lives: waiting for it detects its end."""
        threading.Event().wait()


class RayCluster(Cluster):
    """Actors, one worker each. One that ends, or does not answer, is replaced."""

    kind = "ray"

    def __init__(self, workers: int, options: dict[str, Any], *, timeout: float, patience: float) -> None:
        super().__init__(timeout=timeout, patience=patience)
        self._options = options
        self._token = secrets.token_hex(16)
        self._actors: dict[Any, ClusterWorker | None] = {}
        self._problem = ""
        self._has_head = True
        self.head_answers: threading.Event = threading.Event()
        """Set once Ray's head has answered: from then on its silence is an error."""
        self._ended = threading.Event()
        self._finalizer = weakref.finalize(self, _end, self._ended, self._actors)
        self._watcher = threading.Thread(
            target=_watch_head,
            args=(weakref.ref(self), _head_address(), self.head_answers, self._ended),
            name="the head of Ray",
            daemon=True,
        )
        self._watcher.start()
        self.resize(workers)

    def resize(self, workers: int) -> None:
        """Change the number of actors; running passes continue with them."""
        if self._closed:
            raise WorkerError("the cluster is closed")
        with self._changed:
            extra = list(self._actors)[workers:]
            missing = workers - len(self._actors)
        for actor in extra:
            self._drop(actor)
        for _ in range(missing):
            self._start()

    def lose_head(self, address: str) -> None:
        """Handle a head that is gone: passes end with an error while the process can still save their states."""
        self._problem = HEAD_GONE.format(address, MAX_MISSED_HEAD_CHECKS * HEAD_CHECK_SECONDS)
        self._has_head = False
        with self._changed:
            self._actors.clear()  # requests to end them would wait for the head
            members = list(self._members)
            self._changed.notify_all()
        for member in members:
            self.leave(member)

    def _start(self) -> None:
        if not self._has_head:
            return  # a request would wait for it
        import ray

        cpus = int(self._options.get("num_cpus", 1)) or 1
        actor = ray.remote(RayWorker).options(**self._options).remote(self._token, cpus)
        with self._changed:
            self._actors[actor] = None
        threading.Thread(target=_follow, args=(weakref.ref(self), actor), name="an actor of Ray", daemon=True).start()

    def begin(self, actor: LibraryObject, address: str) -> ClusterWorker | None:
        """Wait until an actor listens. Return its worker, if it is still wanted."""
        member = ClusterWorker(f"grpc://{address}", token=self._token, timeout=self.timeout)
        member.handle = actor
        with self._changed:
            known = actor in self._actors and not self._closed
            if known:
                self._actors[actor] = member
        if not known:
            member.close()
            _kill(actor)
            return None
        self.join(member)
        return member

    def fail(self, actor: object, problem: str) -> None:
        """Handle an actor that could not be started: start another, unless too many failed."""
        again = not self._problem
        self._problem = problem
        with self._changed:
            known = self._actors.pop(actor, self) is not self
            self._changed.notify_all()
        if known and again and not self._closed:
            self._start()

    @override
    def replace(self, member: ClusterWorker, reason: str) -> None:
        with self._changed:
            known = not self._closed and member.handle in self._actors
        self._drop(member.handle)
        if known:
            self._start()

    def _drop(self, actor: object) -> None:
        with self._changed:
            member = self._actors.pop(actor, None)
        if member is not None:
            self.leave(member)
        _kill(actor)

    @override
    def may_have(self, workers: int) -> bool:
        return self._has_head and "No module named 'headrace'" not in self._problem

    def why_not(self) -> str:
        return self._problem or "Ray has not started them yet: are there as many processors free?"

    def close(self) -> None:
        super().close()
        self._finalizer()
        if threading.current_thread() is not self._watcher:
            self._watcher.join()


def _head_address() -> str:
    import ray

    return str(getattr(ray.get_runtime_context(), "gcs_address", ""))


def _watch_head(known: weakref.ref[RayCluster], address: str, answers: threading.Event, ended: threading.Event) -> None:
    """Check whether Ray's head still greets connections, if it ever did: it may be out of reach, as for Ray Client."""
    probe, missed, wait_seconds = Probe(f"grpc://{address}"), 0, FIRST_HEAD_CHECK_SECONDS
    while address and missed < MAX_MISSED_HEAD_CHECKS and not ended.wait(wait_seconds):
        if probe.greeted():
            answers.set()
            missed = 0
        elif answers.is_set():
            missed += 1
        wait_seconds = HEAD_CHECK_SECONDS if answers.is_set() else min(2 * wait_seconds, HEAD_CHECK_SECONDS)
    probe.close()
    cluster = known()
    if cluster is not None and not ended.is_set() and missed:
        cluster.lose_head(address)


def _end(ended: threading.Event, actors: dict[Any, Any]) -> None:
    ended.set()
    _kill_all(actors)


def _follow(known: weakref.ref[RayCluster], actor: LibraryObject) -> None:
    import ray

    try:
        address = ray.get(actor.address.remote())
    except Exception as error:  # of whatever kept the actor from starting
        cluster = known()
        if cluster is not None:
            cluster.fail(actor, f"an actor could not be started: {str(error).strip().splitlines()[-1]}")
        return
    cluster = known()
    if cluster is None:
        _kill(actor)
        return
    member = cluster.begin(actor, address)
    if member is None:
        return
    del cluster
    try:
        ray.get(actor.stay.remote())
    except Exception as error:  # it died, was killed, or Ray is shut down
        cluster = known()
        if cluster is not None:
            cluster.report(member, type(error).__name__)


def _kill(actor: object) -> None:
    import ray

    if ray.is_initialized():
        ray.kill(actor)


def _kill_all(actors: dict[Any, Any]) -> None:
    while actors:
        _kill(actors.popitem()[0])


def ray(
    workers: int, *, timeout: float = TIMEOUT_SECONDS, patience: float = PATIENCE_SECONDS, **options: object
) -> RayCluster:
    """Return a cluster of `workers` actors of the Ray that this process is connected to (`ray.init`).

    `options` are those of Ray's actors: `num_cpus=2`, `resources={...}`, `runtime_env={...}`. Actors that end, with
    their node or by themselves, are replaced by others; `close()` ends them all.

    Args:
        workers: Number of workers.
        timeout: Seconds to wait for an answer before giving up on a worker.
        patience: Seconds to wait while no worker is available.
        **options: Options of Ray's actors, such as `num_cpus=2`.
    """
    import ray as engine

    if not engine.is_initialized():
        raise WorkerError("hr.cluster.ray needs a Ray to run on: call ray.init() first, with an address or without")
    given = {"num_cpus": 1, "max_restarts": 0, **options}
    return RayCluster(positive("workers", workers), given, timeout=timeout, patience=patience)
