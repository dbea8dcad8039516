"""Tell workers that hang or are unreachable from workers that are busy.

An answer needs the worker's GIL and CPU time, so a missing one proves nothing: the worker may be importing modules, run
a function that holds the GIL, or be one of twenty processes on two cores. A new connection is greeted by the threads of
its transport, which need neither. A worker is given up if neither a label nor a greeting comes.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import threading
import weakref
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from headrace.cluster.members import Cluster, ClusterWorker

BEATS = 8
"""How many times in `timeout` seconds a worker is checked, and how many checks in a row it may miss."""
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of HTTP/2 begins, with empty settings; the server greets with its own."""


class Greeting:
    """A connection that waits for the first byte of a worker, without ever blocking. No token is sent.

    Of the addresses that a name stands for, each attempt takes another.
    """

    def __init__(self, location: str, attempt: int = 0) -> None:
        parts = urlsplit(location)
        self._unsent = _client_hello() if parts.scheme.endswith("tls") else HTTP2_PREFACE
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        address = found[attempt % len(found)]
        self._socket = socket.socket(*address[:3])
        self._socket.setblocking(False)
        self._socket.connect_ex(address[4])

    def heard(self) -> bool:
        """Return whether the worker has greeted. Raise OSError if the connection failed."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            if not self._socket.recv(1):
                raise ConnectionResetError("closed without a greeting")
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOTCONN):  # it is being connected, or has nothing to say yet
                return False
            raise
        return True

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _client_hello() -> bytes:
    """Return how a client of TLS begins. Certificates do not matter: nothing is sent or believed."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(coming, going).do_handshake()
    return going.read()


class Probe:
    """Ask a server for one greeting after the other, without ever blocking."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._failures = 0
        self._greeting: Greeting | None = None

    def greeted(self) -> bool:
        """Return whether a greeting has come since the last call that returned True."""
        try:
            if self._greeting is None:
                self._greeting = Greeting(self._location, self._failures)
            if not self._greeting.heard():
                return False
        except OSError:  # such as a refused connection: a call under way reports it, too
            self._failures += 1
            self.close()
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close the connection, if there is one."""
        greeting, self._greeting = self._greeting, None
        if greeting is not None:
            greeting.close()


class WorkerPulse:
    """The silence of one worker, in checks: a check that comes late, on a busy machine, counts as one."""

    def __init__(self, member: ClusterWorker) -> None:
        self._member = member
        self._heard = member.heard
        self._missed = 0
        self._probe = Probe(member.location)

    def check(self) -> bool:
        """Return whether the worker is to be believed alive. What has come since the last check is seen first."""
        if not self._member.is_waiting or self._member.heard != self._heard:
            self._heard, self._missed = self._member.heard, 0
            self._probe.close()
        else:
            self._missed = 0 if self._probe.greeted() else self._missed + 1
        return self._missed < BEATS

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._probe.close()


class Pulse(threading.Thread):
    """Check the workers of a cluster, as long as it is open and referenced."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="pulse of workers", daemon=True)
        self._cluster = weakref.ref(cluster)
        self._interval = cluster.timeout / BEATS
        self._ended = threading.Event()
        self._known: dict[ClusterWorker, WorkerPulse] = {}
        weakref.finalize(cluster, self._ended.set)

    def run(self) -> None:
        try:
            while not self._ended.wait(self._interval):
                cluster = self._cluster()
                if cluster is None:
                    return
                self.check(cluster.members())
                del cluster
        finally:
            self.check([])

    def check(self, members: list[ClusterWorker]) -> None:
        """Give up the workers that have been silent for too long."""
        for gone in self._known.keys() - set(members):
            self._known.pop(gone).close()
        for member in members:
            if not self._known.setdefault(member, WorkerPulse(member)).check():
                member.give_up(f"neither an answer nor a greeting for {member.timeout:g} seconds")

    def end(self) -> None:
        """End the thread, and wait for it."""
        self._ended.set()
        if self.ident is not None and self is not threading.current_thread():
            self.join()
