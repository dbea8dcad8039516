"""A worker: an Arrow Flight server that runs splits of fragments for clients with its token."""

from __future__ import annotations

import json
import os
import pickle
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from hmac import compare_digest
from traceback import format_exception
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.cluster.parcels import Label, Parcel, pack_by_value, thin_parcel
from headrace.cluster.requests import RESPONSE_BYTES, RESPONSE_SECONDS, Poll, Release, Setting, SplitWant, digest_of
from headrace.cluster.runner import Runner
from headrace.cluster.shared_split import SharedReader, SharedSplit
from headrace.cluster.splits import Fragment
from headrace.core.types import JsonObject, LibraryObject
from headrace.errors import WorkerError
from headrace.execute.processes.worker import Raised

if TYPE_CHECKING:
    from pyarrow import flight

T = TypeVar("T")

MAX_CACHED_FRAGMENTS = 16
"""How many fragments are cached: a trainer resends one that was evicted."""
IDLE_SECONDS = 120.0
"""A split that is not requested for this long is closed: its trainer is gone, or has it elsewhere."""


@dataclass
class ServedSession:
    """One pass of one trainer."""

    setting: Setting
    runners: dict[int, Runner | SharedReader] = field(default_factory=dict)
    used: float = field(default_factory=time.monotonic)


class WorkerService:
    """The work of a worker, independent of the transport: it holds nothing that could not be recomputed."""

    def __init__(self, *, cpus: int | None = None) -> None:
        self._ready = threading.Condition()
        self._fragments: OrderedDict[str, Fragment | bytes] = OrderedDict()
        self._sessions: dict[str, ServedSession] = {}
        self._shared: dict[tuple[str, int], list[SharedSplit]] = {}
        self._cpus = cpus
        self._rows = self._nbytes = 0
        self._began = time.monotonic()

    def add_fragment(self, digest: str, data: bytes) -> None:
        """Keep a fragment; it is read when it is first run. One that did not come whole is none."""
        if digest_of(data) != digest:
            return
        with self._ready:
            self._fragments[digest] = data
            while len(self._fragments) > MAX_CACHED_FRAGMENTS:
                self._fragments.popitem(last=False)

    def _fragment(self, digest: str) -> Fragment | None:
        with self._ready:
            found = self._fragments.get(digest)
        if not isinstance(found, bytes):
            return found
        made: Fragment = pickle.loads(found)
        with self._ready:
            self._fragments[digest] = made
        return made

    def poll(self, request: Poll) -> Iterator[Parcel]:
        """Yield what is ready of the requested splits, and what becomes ready while that is sent.

        It ends when nothing has come for as long as the trainer waits, when there is no more room for one of the
        splits, and when one of them has ended. The next request says how much room there is by then, and which split is
        to be begun instead.
        """
        answer, begins = self._open(request)
        try:  # the trainer has this answer before a row could end the process
            yield from answer
        finally:
            for begun in begins or ():
                begun.begin()
        if begins is None:
            return
        with self._ready:
            session = self._sessions.get(request.session)
            if session is None:
                return
            wanted = [(session.runners[want.split], want.room) for want in request.wants]
        began, room, schema = time.monotonic(), RESPONSE_BYTES, None
        while min(room, *(left for _, left in wanted)) > 0 and time.monotonic() - began < RESPONSE_SECONDS:
            taken, schema = self._take(wanted, room, schema, request.wait)
            if not any(taken):
                return
            session.used = time.monotonic()
            sizes = [sum(parcel.nbytes for parcel in parcels) for parcels in taken]
            wanted = [(runner, left - size) for (runner, left), size in zip(wanted, sizes, strict=True)]
            room -= sum(sizes)
            for (runner, _), parcels in zip(wanted, taken, strict=True):
                share = runner.share
                yield from parcels if share is None else (thin_parcel(parcel, share) for parcel in parcels)
            if any(parcel.last for parcels in taken for parcel in parcels):
                return

    def _take(
        self, wanted: list[tuple[Runner | SharedReader, int]], room: int, schema: LibraryObject, wait: float
    ) -> tuple[list[Any], Any]:
        """Return what is ready of each, once any of them has something; nothing, if none has in time."""
        until = time.monotonic() + wait
        taken: list[list[Parcel]] = []
        with self._ready:
            while not any(runner.has_rows for runner, _ in wanted):
                left = until - time.monotonic()
                if left <= 0 or not self._ready.wait(left):
                    break
            for runner, most in wanted:
                parcels = runner.take(min(room, most), schema) if room > 0 else []
                taken.append(parcels)
                room -= sum(parcel.nbytes for parcel in parcels)
                schema = schema or next((p.data.schema for p in parcels if p.data is not None), None)
                self._rows += sum(parcel.rows for parcel in parcels)
                self._nbytes += sum(parcel.nbytes for parcel in parcels)
        return taken, schema

    def _open(self, request: Poll) -> tuple[list[Parcel], list[Runner] | None]:
        """Open every requested split at the requested position.

        Return the labels that the trainer gets first, and the runners that begin once it has them: a split that ends
        the process is then told from one whose worker was lost before. None if the trainer must answer first.
        """
        self._close_idle()
        with self._ready:
            session = self._sessions.get(request.session)
            if session is None and request.setting is not None:
                session = self._sessions[request.session] = ServedSession(self._fitted(request.setting))
            missing = [w for w in request.wants if session is None or not self._has(session, w.split, w.ordinal)]
            unknown = [w for w in missing if w.opening is None or session is None]
        if not missing:
            return [], []
        if unknown or session is None:
            return [Parcel(pack_by_value(Label(w.split, "unknown"))) for w in unknown], None
        try:
            fragment = self._fragment(session.setting.fragment)
        except Exception as error:  # such as a module that is not there
            value = Raised.of(WorkerError(f"a worker cannot use what it was sent: {type(error).__name__}: {error}"))
            value.trace = "".join(format_exception(error)).rstrip()
            return [Parcel(pack_by_value(Label(w.split, "raised", w.ordinal, value=value))) for w in missing], None
        if fragment is None:
            return [Parcel(pack_by_value(Label(-1, "no fragment")))], None
        begins = []
        for want in missing:
            assert want.opening is not None
            runner = Runner(fragment, session.setting, want, self._ready)
            with self._ready:
                self._stop(session, [want.split])
                reader = self._reader(session.setting, runner, want) if session.setting.shared else None
                session.runners[want.split] = reader or runner
                if reader is None or reader.reads(runner):
                    begins.append(runner)
        return [Parcel(pack_by_value(Label(want.split, "opened"))) for want in missing], begins

    def _reader(self, setting: Setting, runner: Runner, want: SplitWant) -> SharedReader:
        """Return a place in what is made for other sessions already, else in what the runner will make."""
        assert want.opening is not None
        known = self._shared.setdefault((setting.rows_key, want.split), [])
        found = next((s for s in known if not s.runner.failed and s.covers(want.ordinal, want.opening.sizes)), None)
        if found is None:
            known.append(found := SharedSplit(runner, want.ordinal))
        return SharedReader(found, want.ordinal, want.opening.share)

    def _stop(self, session: ServedSession, splits: Iterable[int]) -> list[Runner]:
        """End the runners of these splits, and return those without other readers; the caller holds the lock."""
        alone = []
        for number in splits:
            runner = session.runners.pop(number, None)
            if runner is not None:
                runner.stop()
            if isinstance(runner, Runner):
                alone.append(runner)
            if isinstance(runner, SharedReader):
                key = (session.setting.rows_key, number)
                self._shared[key] = [shared for shared in self._shared[key] if shared.readers]
                if not self._shared[key]:
                    del self._shared[key]
        return alone

    @staticmethod
    def _has(session: ServedSession, split: int, ordinal: int) -> bool:
        runner = session.runners.get(split)
        return runner is not None and runner.ordinal == ordinal

    def _fitted(self, setting: Setting) -> Setting:
        if self._cpus is None or setting.options.cpu_budget is not None:
            return setting
        return setting._replace(options=replace(setting.options, cpu_budget=self._cpus))

    def release(self, request: Release) -> None:
        """Close what is no longer needed."""
        with self._ready:
            session = self._sessions.get(request.session)
            if session is None:
                return
            stopped = self._stop(session, list(session.runners) if request.splits is None else request.splits)
            if request.splits is None:
                del self._sessions[request.session]
        until = time.monotonic() + request.wait
        for runner in stopped:
            runner.join(until - time.monotonic())

    def _close_idle(self) -> None:
        old = time.monotonic() - IDLE_SECONDS
        with self._ready:
            gone = [name for name, session in self._sessions.items() if session.used < old]
        for name in gone:
            self.release(Release(name))

    def status(self) -> JsonObject:
        """Return what it is at, as JSON values."""
        with self._ready:
            sessions = [
                {
                    "session": name,
                    "splits": [
                        {"split": r.split, "rows": r.rows, "waiting_bytes": r.waiting_bytes}
                        for r in session.runners.values()
                    ],
                }
                for name, session in self._sessions.items()
            ]
            return {
                "host": platform.node(),
                "pid": os.getpid(),
                "seconds": time.monotonic() - self._began,
                "rows_sent": self._rows,
                "bytes_sent": self._nbytes,
                "fragments": len(self._fragments),
                "shared_splits": sum(map(len, self._shared.values())),
                "sessions": sessions,
            }

    def close(self) -> None:
        """Close every split."""
        with self._ready:
            names = list(self._sessions)
        for name in names:
            self.release(Release(name))


def _request(data: bytes | None, kind: type[T]) -> T:
    """Return a request of a trainer, whose token has been checked.

    Raises:
        ValueError: It is of another kind, or did not come whole.
    """
    try:
        made = pickle.loads(data or b"")
    except Exception as error:  # pickles raise what they like
        raise ValueError(f"a request that cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(made, kind):
        raise ValueError(f"a request of kind {kind.__name__} is needed, not {type(made).__name__}")
    return made


@cache
def _server_class() -> type[flight.FlightServerBase]:
    from pyarrow import flight

    class TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
        """Reject clients without the token."""

        def __init__(self, token: str) -> None:
            self._expected = f"Bearer {token}"

        def start_call(self, _: object, headers: dict[str, list[str]]) -> None:
            given = next((values[0] for name, values in headers.items() if name.lower() == "authorization"), "")
            if not compare_digest(given.encode(), self._expected.encode()):
                raise flight.FlightUnauthenticatedError("the token is missing or wrong: give the one of headrace serve")

    class FlightWorker(flight.FlightServerBase):  # type: ignore[misc]
        """The messages."""

        def __init__(
            self, location: str, work: WorkerService, token: str | None, tls: list[tuple[bytes, bytes]] | None
        ) -> None:
            middleware = {} if token is None else {"token": TokenCheck(token)}
            super().__init__(location, middleware=middleware, tls_certificates=tls or [])
            self.work = work

        def do_put(self, _: object, descriptor: LibraryObject, reader: LibraryObject, __: object) -> None:
            data = b"".join(bytes(chunk.data.column(0)[0].as_buffer()) for chunk in reader)
            self.work.add_fragment((descriptor.command or b"").decode(errors="replace"), data)

        def do_exchange(self, _: object, descriptor: LibraryObject, __: object, writer: LibraryObject) -> None:
            schema = None
            for parcel in self.work.poll(_request(descriptor.command, Poll)):
                if parcel.data is None:
                    writer.write_metadata(parcel.label)
                    continue
                if schema is None:
                    schema = parcel.data.schema
                    writer.begin(schema)
                writer.write_with_metadata(parcel.data, parcel.label)

        def do_action(self, _: object, action: LibraryObject) -> Iterator[bytes]:
            if action.type == "release":
                self.work.release(_request(action.body.to_pybytes(), Release))
                return iter(())
            if action.type == "status":
                return iter([json.dumps(self.work.status()).encode()])
            raise NotImplementedError(f"a worker knows no action {action.type!r}")

    return FlightWorker


def start_server(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str | None = None,
    tls: tuple[bytes, bytes] | None = None,
    cpus: int | None = None,
) -> LibraryObject:
    """Start a worker that listens; its `port` is a free one if none was requested."""
    scheme = "grpc" if tls is None else "grpc+tls"
    shown = f"[{host}]" if ":" in host else host
    return _server_class()(
        f"{scheme}://{shown}:{port}", WorkerService(cpus=cpus), token, None if tls is None else [tls]
    )
