"""Workers that were started elsewhere, for example by Kubernetes: `headrace serve`."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence

from headrace.cluster.members import PATIENCE_SECONDS, TIMEOUT_SECONDS, Cluster, ClusterWorker, Gone
from headrace.core.paths import local_only
from headrace.errors import WorkerError
from headrace.remote.redact import show_path

RETRY_SECONDS = 1.0
"""How often an address that does not answer is retried."""


class AddressCluster(Cluster):
    """Workers at addresses. One that does not answer is tried again until it does."""

    kind = "addresses"

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        token: str | None,
        tls: bytes | None,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__(timeout=timeout, patience=patience)
        self._token = token
        self._tls = tls
        self._wanted: dict[str, str] = {}
        self._refused: set[str] = set()
        self._wake = threading.Event()
        self._caller = threading.Thread(
            target=_call_missing, args=(weakref.ref(self), self._wake), name="addresses of workers", daemon=True
        )
        self._finalizer = weakref.finalize(self, self._wake.set)
        for address in addresses:
            self._wanted[location_of(address, tls=tls is not None)] = "not asked yet"
        self._caller.start()

    def add(self, address: str) -> None:
        """Add a worker, from the moment it answers."""
        with self._changed:
            self._wanted.setdefault(location_of(address, tls=self._tls is not None), "not asked yet")
        self._wake.set()

    def remove(self, address: str) -> None:
        """Remove one worker: its splits continue elsewhere."""
        location = location_of(address, tls=self._tls is not None)
        with self._changed:
            self._wanted.pop(location, None)
            members = [m for m in self._members if m.location == location]
        for member in members:
            self.leave(member)

    def replace(self, member: ClusterWorker, reason: str) -> None:
        with self._changed:
            if member.location in self._wanted:
                self._wanted[member.location] = reason
        self._wake.set()

    def call_missing(self) -> bool:
        """Try the addresses that have not answered; whether there are others to be tried again."""
        with self._changed:
            if self._closed:
                return False
            there = {member.location for member in self._members}
            missing = [location for location in self._wanted if location not in there]
        for location in missing:
            member = ClusterWorker(location, token=self._token, tls=self._tls, timeout=self.timeout)
            try:
                member.status(timeout=min(self.timeout, 5.0))
            except (Gone, WorkerError) as error:
                member.close()
                with self._changed:
                    if location in self._wanted:
                        self._wanted[location] = str(error)
                        self._note_refusal(location, refused=isinstance(error, WorkerError))
                continue
            with self._changed:
                wanted = location in self._wanted and not self._closed
                self._note_refusal(location, refused=False)
            if wanted:
                self.join(member)
            else:
                member.close()
        return True

    def _note_refusal(self, location: str, *, refused: bool) -> None:
        """Note that a worker rejects this process's token. The caller holds the lock."""
        (self._refused.add if refused else self._refused.discard)(location)
        self._changed.notify_all()

    def may_have(self, workers: int) -> bool:
        with self._changed:
            there = {member.location for member in self._members}
            return len(there | (self._wanted.keys() - self._refused)) >= workers or not self._refused

    def why_not(self) -> str:
        with self._changed:
            there = {member.location for member in self._members}
            told = [f"{loc.rpartition('/')[2]}: {why}" for loc, why in self._wanted.items() if loc not in there]
        return "; ".join(told) or "no address was given"

    def close(self) -> None:
        super().close()
        self._wake.set()
        if threading.current_thread() is not self._caller:
            self._caller.join()


def _call_missing(known: weakref.ref[AddressCluster], wake: threading.Event) -> None:
    while True:
        wake.clear()
        cluster = known()
        if cluster is None or not cluster.call_missing():
            return
        del cluster
        wake.wait(RETRY_SECONDS)


def location_of(address: str, *, tls: bool) -> str:
    """Return how Flight names an address."""
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not port.isdecimal():
        raise ValueError(f'an address is "host:port", as headrace serve prints it, not {show_path(address)!r}')
    return f"grpc{'+tls' if tls else ''}://{host}:{port}"


def addresses(
    addresses: Sequence[str],
    *,
    token: str | None = None,
    tls_root_cert: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
    patience: float = PATIENCE_SECONDS,
) -> AddressCluster:
    """Connect to running workers at "host:port", each started by `headrace serve --port PORT`.

    `token` is what they were started with, HEADRACE_TOKEN unless it is given; `tls_root_cert` a file with the
    certificate that signs theirs, if they use TLS. Addresses that do not answer are tried again and again;
    a pass that finds only workers that refuse the token fails at once.

    Args:
        addresses: Workers, as "host:port".
        token: Secret that the workers were started with.
        tls_root_cert: Certificate that signed those of the workers.
        timeout: Seconds to wait for an answer before giving up on a worker.
        patience: Seconds to wait while no worker is available.

    >>> from headrace.cluster.server import start_server
    >>> worker = start_server(token="secret")
    >>> with hr.cluster.addresses([f"127.0.0.1:{worker.port}"], token="secret") as workers:
    ...     list(hr.Dataset.range(3).distribute_over(workers, splits=2))
    [np.int64(0), np.int64(1), np.int64(2)]
    >>> worker.shutdown()
    """
    if isinstance(addresses, str):
        raise TypeError(f'addresses takes a list of "host:port", not {addresses!r}')
    tls = None if tls_root_cert is None else local_only(tls_root_cert, "tls_root_cert").read_bytes()
    return AddressCluster(
        addresses, token=token or os.environ.get("HEADRACE_TOKEN"), tls=tls, timeout=timeout, patience=patience
    )
