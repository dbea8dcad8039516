"""A thread that asks one worker for rows, as long as a pass wants any of it."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from headrace.cluster.members import ClusterWorker, Gone
from headrace.cluster.requests import Poll, Release

if TYPE_CHECKING:
    from headrace.cluster.session import Session

JOIN_SECONDS = 5.0


class Feeder:
    """Polls a worker for the splits that it has."""

    def __init__(self, session: Session, member: ClusterWorker) -> None:
        self._session = session
        self._member = member
        self._told = False
        self._thread = threading.Thread(target=self._feed, name=f"headrace-worker-{member.name}", daemon=True)

    def begin(self) -> None:
        """Begin to ask, if it has not begun."""
        if self._thread.ident is None:
            self._thread.start()

    def _feed(self) -> None:
        session, member = self._session, self._member
        try:
            while (request := self._next_request()) is not None:
                with contextlib.closing(member.poll(request)) as answer:
                    for label, data in answer:
                        self._told = self._told and label.what != "unknown"
                        if label.what == "no fragment":
                            member.send_fragment(session.packed)
                        else:
                            session.deliver(member, label, data)
        except Gone as gone:
            if not session.closed:
                session.lost(member, str(gone))
        except BaseException as error:
            if not session.closed:
                session.refuse(error)
        finally:
            if member.alive:
                member.release(Release(session.name))

    def _next_request(self) -> Poll | None:
        """What to ask for next, as soon as there is something; None once nobody wants anything of this worker."""
        session = self._session
        with session.changed:
            while not session.closed and session.has(self._member):
                wants = session.wants(self._member)
                if wants:
                    setting = None if self._told else session.setting
                    self._told = True
                    return Poll(session.name, wants, setting)
                session.changed.wait()
            return None

    def stop(self) -> None:
        """Have it end soon: a call that is under way is cut off."""
        self._member.cancel(self._session.name)

    def end(self) -> None:
        """Wait for it."""
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            with contextlib.suppress(RuntimeError):
                self._thread.join(JOIN_SECONDS)
