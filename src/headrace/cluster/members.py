"""Clusters: which workers there are, however they were started."""

from __future__ import annotations

import contextlib
import json
import pickle
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self

from headrace.cluster.metrics import serve_status
from headrace.cluster.parcels import Label, read_label
from headrace.cluster.pulse import Pulse
from headrace.cluster.requests import PUT_BYTES, RESPONSE_SECONDS, PackedFragment, Poll, Release
from headrace.core.types import Argument, JsonObject, LibraryObject, Reduced
from headrace.errors import WorkerError

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    from pyarrow import flight

    from headrace.columns.block import Block
    from headrace.dataset import Dataset
    from headrace.feature_column.learners import Learner
    from headrace.observe.metrics_server import MetricsServer

TIMEOUT_SECONDS = 60.0
"""Seconds after which a worker that neither answers nor greets is assumed to hang: it normally answers in 0.1 s."""
MAX_BUSY_TIMEOUTS = 10
"""A worker that greets, but has not answered for this many times as long, is given up, too."""
PATIENCE_SECONDS = 120.0
"""Seconds that a pass waits for a worker while there is none."""


class Gone(Exception):  # noqa: N818
    """A worker's connection broke, or it is `silent`: why."""

    def __init__(self, reason: str, *, silent: bool = False) -> None:
        super().__init__(reason)
        self.silent = silent


class ClusterWorker:
    """One worker as a trainer sees it: its address, and the messages."""

    def __init__(
        self, location: str, *, token: str | None = None, tls: bytes | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self.location = location
        self.name: str = location.rpartition("/")[2]
        self.timeout = timeout
        self.alive: bool = True
        self.heard: int = 0
        self._silence = ""
        self.handle: LibraryObject = None
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._tls = tls
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._under_way: dict[Any, str] = {}

    def __repr__(self) -> str:
        return f"<worker {self.name}{'' if self.alive else ', gone'}>"

    def _connected(self) -> flight.FlightClient:
        from pyarrow import flight

        with self._lock:
            if not self.alive:
                raise Gone("it was given up")
            if self._client is None:
                more = {} if self._tls is None else {"tls_root_certs": self._tls}
                self._client = flight.FlightClient(self.location, **more)
            return self._client

    def _options(self, timeout: float | None = None) -> LibraryObject:
        from pyarrow import flight

        return flight.FlightCallOptions(timeout=timeout or self.timeout, headers=self._headers)

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Raise Gone for faults of the connection; raise errors of the request as they are."""
        import pyarrow as pa
        from pyarrow import flight

        try:
            yield
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as error:
            raise WorkerError(f"worker {self.name}: {_first_line(error)}") from None
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            silent = bool(self._silence) or isinstance(error, flight.FlightTimedOutError)
            raise Gone(self._silence or _first_line(error), silent=silent) from None

    def poll(self, request: Poll) -> Generator[tuple[Label, pa.RecordBatch | None], None, None]:
        """Yield labels and rows that are ready. Raise Gone if the connection breaks."""
        from pyarrow import flight

        descriptor = flight.FlightDescriptor.for_command(pickle.dumps(request, protocol=5))
        with self._faults():
            most = self.timeout * MAX_BUSY_TIMEOUTS + RESPONSE_SECONDS
            writer, reader = self._connected().do_exchange(descriptor, self._options(most))
            self._under_way[reader] = request.session
            if self._silence or not self.alive:  # given up before this call could be cancelled
                reader.cancel()
            try:
                writer.done_writing()
                while True:
                    try:
                        chunk = reader.read_chunk()
                    except StopIteration:
                        break
                    self.heard += 1
                    yield read_label(chunk.app_metadata.to_pybytes()), chunk.data
            finally:
                self._under_way.pop(reader, None)
                with contextlib.suppress(Exception):  # it says again why the call has failed
                    writer.close()

    def send_fragment(self, fragment: PackedFragment) -> None:
        """Send a fragment to the worker."""
        import pyarrow as pa
        from pyarrow import flight

        schema = pa.schema([pa.field("data", pa.large_binary())])
        with self._faults():
            descriptor = flight.FlightDescriptor.for_command(fragment.digest.encode())
            timeout = self.timeout + len(fragment.data) / (1 << 20)
            writer, _ = self._connected().do_put(descriptor, schema, self._options(timeout))
            try:
                for start in range(0, max(1, len(fragment.data)), PUT_BYTES):
                    part = memoryview(fragment.data)[start : start + PUT_BYTES]
                    writer.write_batch(pa.record_batch([pa.array([part], pa.large_binary())], schema=schema))
            finally:
                writer.close()

    def release(self, request: Release) -> None:
        """Tell the worker which splits are no longer needed; a worker that misses this finds out by a timeout."""
        with contextlib.suppress(Gone, WorkerError):
            self._act("release", pickle.dumps(request, protocol=5), timeout=request.wait + 1.0)

    def status(self, timeout: float | None = None) -> JsonObject:
        """Return the worker's status. Raise Gone if it does not answer."""
        (found,) = self._act("status", b"", timeout=timeout)
        made: JsonObject = json.loads(found)
        return made

    def _act(self, kind: str, body: bytes, timeout: float | None) -> list[bytes]:
        from pyarrow import flight

        with self._faults():
            results = self._connected().do_action(flight.Action(kind, body), self._options(timeout))
            return [result.body.to_pybytes() for result in results]

    @property
    def is_waiting(self) -> bool:
        """Whether a call is in progress."""
        return bool(self._under_way)

    def give_up(self, reason: str) -> None:
        """End the calls that are in progress: the worker has been silent for too long."""
        self._silence = reason
        self.cancel()

    def cancel(self, session: str | None = None) -> None:
        """End the calls that are in progress, of one session or of all."""
        for reader, owner in list(self._under_way.items()):
            if session in (None, owner):
                with contextlib.suppress(Exception):  # one that has ended meanwhile
                    reader.cancel()

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self.alive = False
            client, self._client = self._client, None
        self.cancel()
        if client is not None:
            with contextlib.suppress(Exception):  # of a connection that is broken already
                client.close()


def _first_line(error: BaseException) -> str:
    text = str(error).partition("\n")[0].partition(". gRPC client debug context")[0]
    return text or type(error).__name__


class Listener(Protocol):
    """An object that is notified when workers come and go."""

    def joined(self, member: ClusterWorker) -> None: ...
    def left(self, member: ClusterWorker) -> None: ...
    def status(self) -> JsonObject: ...


class Cluster:
    """Workers that run splits of pipelines, made by `hr.cluster.local` and similar functions.

    A cluster belongs to the process that made it. It is closed by `close()`, at the end of a `with`, and when it is
    garbage-collected; this ends what it started.

    Args:
        timeout: Seconds to wait for an answer before giving up on a worker.
        patience: Seconds to wait while no worker is available.
    """

    kind = "none"

    def __init__(self, *, timeout: float = TIMEOUT_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        self.timeout = timeout
        self.patience = patience
        self._members: list[ClusterWorker] = []
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._lost = 0
        self._pulse = Pulse(self)
        self._metrics: list[MetricsServer] = []

    def __reduce__(self) -> Reduced:
        raise TypeError(
            "a cluster belongs to the process that made it: have distribute_over after what is sent elsewhere"
        )

    def __repr__(self) -> str:
        return f"<hr.cluster.{self.kind}: {len(self.members())} workers{', closed' if self._closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def gather(self, ds: Dataset, learners: Sequence[Learner], take: Callable[[Block], None], **how: Argument) -> None:
        """Let the workers show all blocks of a dataset to copies of `learners`, and merge what these have learned."""
        from headrace.cluster.gather_rows import gather_on

        gather_on(self, ds, learners, take, **how)

    def members(self) -> list[ClusterWorker]:
        """Return the workers that are believed to be there."""
        with self._changed:
            return list(self._members)

    def starting(self) -> int:
        """Return how many workers are being started, and will join."""
        return 0

    def listen(self, listener: Listener) -> list[ClusterWorker]:
        """Register a listener for workers that come and go. Return the present workers."""
        with self._changed:
            if self._closed:
                raise WorkerError("the cluster is closed")
            if self._pulse.ident is None:
                self._pulse.start()
            self._listeners.add(listener)
            return list(self._members)

    def forget(self, listener: Listener) -> None:
        """Unregister a listener."""
        with self._changed:
            self._listeners.discard(listener)

    def join(self, member: ClusterWorker) -> None:
        """Add a worker."""
        with self._changed:
            closed = self._closed
            if not closed:
                self._members.append(member)
            listeners = list(self._listeners)
            self._changed.notify_all()
        if closed:
            member.close()
            return
        for each in listeners:
            each.joined(member)

    def leave(self, member: ClusterWorker) -> bool:
        """Remove one worker. Return whether it was one."""
        with self._changed:
            known = member in self._members
            if known:
                self._members.remove(member)
            listeners = list(self._listeners)
            self._changed.notify_all()
        if known:
            for each in listeners:
                each.left(member)
            member.close()
        return known

    def report(self, member: ClusterWorker, reason: str) -> None:
        """Handle a pass's report that a worker is gone: it is dropped in any case."""
        if self.leave(member):
            self._lost += 1
            self.replace(member, reason)

    def replace(self, member: ClusterWorker, reason: str) -> None:
        """See to it that another one takes the place of a worker that is gone."""

    def wait_for(self, workers: int, timeout: float | None = None) -> None:
        """Wait until this many workers are there; raises WorkerError if they do not come in time.

        >>> with hr.cluster.local(2) as workers:
        ...     workers.wait_for(2)
        ...     len(workers.members())
        2
        """
        until = monotonic() + (self.patience if timeout is None else timeout)
        with self._changed:
            while len(self._members) < workers and not self._closed and self.may_have(workers):
                left = until - monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            if len(self._members) < workers:
                raise WorkerError(f"{len(self._members)} of {workers} workers are there: {self.why_not()}")

    def may_have(self, workers: int) -> bool:  # noqa: ARG002
        """Return whether there may yet be this many workers: not if the missing ones have rejected this process."""
        return True

    def why_not(self) -> str:
        """Return why workers are missing, as far as it is known."""
        return "none was started"

    def status(self, timeout: float = 2.0) -> JsonObject:
        """Return the status of the workers and of the passes of this process, as JSON values.

        >>> with hr.cluster.local(1) as workers:
        ...     workers.wait_for(1)
        ...     status = workers.status()
        >>> status["kind"], len(status["workers"]), status["passes"], status["lost"]
        ('local', 1, [], 0)
        """
        with self._changed:
            members, listeners = list(self._members), list(self._listeners)
        workers: list[JsonObject] = []
        for member in members:
            try:
                workers.append({"worker": member.name, **member.status(timeout)})
            except (Gone, WorkerError) as error:
                workers.append({"worker": member.name, "error": str(error)})
        passes = [each.status() for each in listeners]
        return {"kind": self.kind, "workers": workers, "passes": passes, "lost": self._lost}

    def serve_metrics(self, port: int = 0, host: str = "127.0.0.1") -> int:
        """Serve Prometheus metrics on a port until the cluster is closed. Return the port.

        >>> from urllib.request import urlopen
        >>> with hr.cluster.local(1) as workers:
        ...     workers.wait_for(1)
        ...     port = workers.serve_metrics()
        ...     b"headrace_workers 1" in urlopen(f"http://127.0.0.1:{port}/metrics").read()
        True
        """
        itself = weakref.ref(self)

        def status() -> JsonObject:
            found = itself()
            return {"workers": [], "passes": [], "lost": 0} if found is None else found.status()

        server = serve_status(status, port, host)
        weakref.finalize(self, server.close)
        self._metrics.append(server)
        return server.port

    def close(self) -> None:
        """End what was started, and let go of the rest."""
        while self._metrics:
            self._metrics.pop().close()
        with self._changed:
            self._closed = True
            members, self._members = self._members, []
            listeners = list(self._listeners)
            self._changed.notify_all()
        self._pulse.end()
        for member in members:
            for each in listeners:
                each.left(member)
            member.close()
