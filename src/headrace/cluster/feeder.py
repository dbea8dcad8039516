"""Threads that request rows from one worker, as long as a pass needs any."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from headrace.cluster.members import ClusterWorker, Gone
from headrace.cluster.requests import Poll, Release, SplitWant

if TYPE_CHECKING:
    from headrace.cluster.session import Session

JOIN_SECONDS = 5.0


REQUESTS_IN_FLIGHT = 2
"""How many requests to one worker are in flight, each for some of its splits: rows of one arrive while the other is
between an answer and the next request.
"""


class Feeder:
    """Polls a worker for the splits that it has."""

    def __init__(self, session: Session, member: ClusterWorker) -> None:
        self._session = session
        self._member = member
        self._threads = [
            threading.Thread(target=self._feed, args=[i], name=f"headrace-worker-{member.name}", daemon=True)
            for i in range(REQUESTS_IN_FLIGHT)
        ]

    def begin(self, split: int) -> None:
        """Begin to request this split, if no thread does yet."""
        thread = self._threads[split % REQUESTS_IN_FLIGHT]
        if thread.ident is None:
            thread.start()

    def _feed(self, stream: int) -> None:
        session, member = self._session, self._member
        known = False
        try:
            while (wants := self._next_wants(stream)) is not None:
                request = Poll(session.name, wants, None if known else session.setting)
                known = True
                with contextlib.closing(member.poll(request)) as answer:
                    for label, data in answer:
                        known = known and label.what != "unknown"
                        if label.what == "no fragment":
                            member.send_fragment(session.packed)
                        else:
                            session.deliver(member, label, data)
        except Gone as gone:
            if not session.closed:
                session.lost(member, gone)
        except BaseException as error:
            if not session.closed:
                session.refuse(error)
        finally:
            if member.alive:
                member.release(Release(session.name, wait=session.ending_seconds))

    def _next_wants(self, stream: int) -> list[SplitWant] | None:
        """Return what to request next, as soon as there is something; None once this worker is no longer needed."""
        session = self._session
        with session.changed:
            while not session.closed and session.has(self._member):
                wants = session.wants(self._member, lambda split: split % REQUESTS_IN_FLIGHT == stream)
                if wants:
                    return wants
                session.changed.wait()
            return None

    def stop(self) -> None:
        """End soon: a call in flight is aborted."""
        self._member.cancel(self._session.name)

    def end(self) -> None:
        """Wait for it."""
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                with contextlib.suppress(RuntimeError):
                    thread.join(JOIN_SECONDS)
