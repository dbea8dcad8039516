"""The morsels of one stream: run by the pool ahead of the consumer, handed over in order."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from headrace.execute.pool.bell import Bell, start_thread
from headrace.execute.pool.scheduler import Job, Pool, pool

T = TypeVar("T")

FIRST_MORSELS_AHEAD = 2


def most_ahead(threads: int) -> int:
    """Return how many morsels are ahead at most: each worker has one and another to go on with."""
    return 2 * threads + 2


@dataclass(frozen=True)
class Limits:
    """How far a window may run ahead of its consumer."""

    threads: int
    """How many workers may run its morsels at a time."""
    buffered_bytes: int
    """What all its morsels may hold, ready or not yet run. A head without items runs whatever the others hold."""
    ahead: int = FIRST_MORSELS_AHEAD
    """How many morsels may be ahead at first."""


class Morsel(ABC, Generic[T]):
    """A bounded piece of work that gives items in order. At most one thread runs it at a time."""

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self.nbytes = 0
        self.held_bytes = 0
        """What it holds from the beginning until it is done, beside its items."""
        self.running = False
        self.done = False
        self.over = False
        """Whether the consumer took its end together with its last items; see `Window.take`."""

    @abstractmethod
    def step(self) -> tuple[list[T], int, bool]:
        """Make some items: these, their size in bytes, and whether the morsel is done. Must not block or raise."""

    @abstractmethod
    def close(self) -> None:
        """Free what it holds. Called once no thread runs it."""


class Window(Generic[T]):
    """Morsels in order, of which several are run at a time.

    The pool's lock guards everything here. The rules that keep it from deadlock:

    - Workers never wait. A worker steps a morsel while its output fits, puts it down otherwise, and takes it up again
      after the consumer has made room.
    - The head, the morsel that the consumer takes items from, may always run while none of its items is ready.
    - A consumer that finds nothing ready runs the head itself, unless a worker is at it.

    Read-ahead starts with few morsels and doubles every time the consumer has to wait, up to the limits: a consumer
    that takes ten rows and leaves has read little more than these. A pass after one that took all morsels starts with
    as many as that one needed.

    With `fetches`, finding the next morsel may wait for a network. Then a thread of the window's own does it, and
    workers only see morsels that are ready.
    """

    def __init__(self, morsels: Iterator[Morsel[T]], limits: Limits, *, fetches: bool = False) -> None:
        self._source = morsels
        self._limits = limits
        self._pool: Pool = pool()
        self._ready = Bell()
        self._morsels: deque[Morsel[T]] = deque()
        self._buffered = 0
        self._largest = 0
        self._cutting = False
        self._exhausted = False
        self._failure: BaseException | None = None
        self._closed = False
        self.ahead: int = limits.ahead
        self._attached = False
        self._fetcher: threading.Thread | None = None
        self._fetch = threading.Condition(self._pool.lock) if fetches else None
        self.threads: int = limits.threads
        self.busy = 0
        self.full_nanoseconds: int = 0  # workers never wait
        self.memory_nanoseconds: int = 0
        self.idle: Bell = Bell()

    def depth(self) -> tuple[int, int]:
        """Return how many morsels have items ready, and how many may be ahead."""
        morsels = list(self._morsels)  # one step of the interpreter: no lock is needed for numbers to look at
        return sum(bool(morsel.items) for morsel in morsels), self.ahead

    def start(self) -> None:
        """Let workers run ahead from here on."""
        if not self._attached:
            self._attached = True
            self._pool.attach(self)
        if self._fetch is not None and self._fetcher is None:
            thread = threading.Thread(target=self._fetch_cuts, name="headrace-fetch", daemon=True)
            try:
                start_thread(thread)
            finally:
                if thread.ident is not None:
                    self._fetcher = thread

    def resize(self, threads: int) -> None:
        """Let this many workers run its morsels at a time; with none, the consumer runs them."""
        if threads != self.threads:
            self.threads = threads
            if self._attached and threads:
                self._pool.grow(self)

    def _fetch_cuts(self) -> None:
        """Find morsels whenever there is room for another."""
        assert self._fetch is not None
        with self._pool.lock:
            while not self._closed and not self._exhausted:
                if not self._wants_cut():
                    self._fetch.wait()
                    continue
                job = self._claim_cut()
                self._pool.lock.release()
                try:
                    job.run()
                finally:
                    self._pool.lock.acquire()
                    job.end()

    def _wake(self) -> None:
        """Wake as many idle threads as there are jobs. The caller holds the lock."""
        room = self._has_room()
        jobs = sum(self._startable(place, morsel, room) for place, morsel in enumerate(self._morsels))
        jobs += self._fetch is None and self._wants_cut()
        self._pool.wake(min(jobs, self.threads - self.busy))
        if self._fetch is not None:
            self._fetch.notify()

    def take(self, *, with_end: bool = False) -> tuple[list[T], Morsel[T]] | None:
        """Return the next items and their morsel: no items at the morsel's end, None after the last morsel.

        Args:
            with_end: Whether the end of a morsel may come with its last items, which saves a call: it is then `over`.
        """
        waited = False
        while True:
            with self._pool.lock:
                job = self._next_for_consumer(with_end=with_end)
                if job is None or isinstance(job, tuple):
                    return job
                if isinstance(job, Bell) and not waited:
                    self.ahead = min(2 * self.ahead, most_ahead(self.threads))
                    self._wake()
            if isinstance(job, Bell):
                waited = True
                job.wait()
                continue
            waited = False
            try:
                job.run()
            finally:
                with self._pool.lock:
                    job.end()

    def _next_for_consumer(self, *, with_end: bool) -> tuple[list[T], Morsel[T]] | Job | Bell | None:
        """Return ready items, else a job that the consumer runs itself, or what a worker that makes them will ring."""
        head = self._morsels[0] if self._morsels else None
        if head is None:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if not self._cutting:
                return None if self._exhausted else self._claim_cut()
        elif head.items:
            items = list(head.items)
            head.items.clear()
            if with_end and head.done and not head.running:
                head.over = True
                self._morsels.popleft()
            self._release(head)
            return items, head
        elif head.done and not head.running:
            self._morsels.popleft()
            self._wake()
            return [], head
        elif not head.running:
            head.running = True
            return _Step(self, head)
        return self._ready

    def _release(self, head: Morsel[T]) -> None:
        self._buffered -= head.nbytes
        head.nbytes = 0
        self._wake()

    def claim(self) -> Job | None:
        """Return the earliest morsel to run, or the next cut. The caller holds the lock.

        If idle workers suffice for the morsels there are, they take these, and the caller finds more: a worker that has
        just cut goes on, instead of leaving it to one that must be woken up first.
        """
        if self._closed:
            return None
        room = self._has_room()
        startable = (morsel for place, morsel in enumerate(self._morsels) if self._startable(place, morsel, room))
        cuts = self._fetch is None and self._wants_cut()
        others = max(0, min(self._pool.idle, self.threads - self.busy - 1)) if cuts else 0
        waiting = list(islice(startable, others + 1))
        if cuts and len(waiting) <= others:
            return self._claim_cut()
        if not waiting:
            return None
        first = waiting[0]
        first.running = True
        return _Step(self, first)

    def _has_room(self) -> bool:
        return self._buffered < self._limits.buffered_bytes

    def _startable(self, place: int, morsel: Morsel[T], room: bool) -> bool:
        """Return whether a worker may run a morsel; the first one without items also if there is no room."""
        return not (morsel.running or morsel.done) and (room or (place == 0 and not morsel.items))

    def _wants_cut(self) -> bool:
        """Return whether the next morsel should be found now."""
        if self._cutting or self._exhausted:
            return False
        return len(self._morsels) < self.ahead and self._room_for_another()

    def _room_for_another(self) -> bool:
        """Return whether one more morsel would fit if it became as large as the largest so far."""
        pending = sum(not morsel.done for morsel in self._morsels)
        return self._buffered + (pending + 1) * self._largest <= self._limits.buffered_bytes or not self._morsels

    def _claim_cut(self) -> Job:
        self._cutting = True
        return _Cut(self)

    def close(self) -> None:
        """End the read-ahead. Return when no worker runs a morsel of this window; all of them are then closed."""
        with self._pool.lock:
            self._closed = True
            if self._fetch is not None:
                self._fetch.notify_all()
        if self._fetcher is not None and self._fetcher is not threading.current_thread():
            self._fetcher.join()
        if self._attached:
            self._pool.detach(self)
        morsels, self._morsels = list(self._morsels), deque()
        if isinstance(self._source, Generator):
            self._source.close()
        for morsel in morsels:
            morsel.close()


class _Step(Generic[T]):
    """One step of a morsel."""

    def __init__(self, window: Window[T], morsel: Morsel[T]) -> None:
        self._window = window
        self._morsel = morsel
        self._made: tuple[list[T], int, bool] = [], 0, True

    def run(self) -> None:
        self._made = self._morsel.step()

    def end(self) -> None:
        window, morsel = self._window, self._morsel
        items, nbytes, done = self._made
        morsel.items.extend(items)
        morsel.nbytes += nbytes
        morsel.done = done
        morsel.running = False
        window._buffered += nbytes
        if done:
            window._largest = max(window._largest, morsel.nbytes)
            window._buffered -= morsel.held_bytes
            if window._fetch is not None:
                window._fetch.notify()
        if window._morsels and morsel is window._morsels[0]:
            window._ready.ring()


class _Cut(Generic[T]):
    """Find the next morsel. Serial: only one thread of a window does it at a time."""

    def __init__(self, window: Window[T]) -> None:
        self._window = window
        self._found: Morsel[T] | None = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._found = next(self._window._source, None)
        except BaseException as error:  # raised when the consumer gets there
            self._failure = error

    def end(self) -> None:
        window, found = self._window, self._found
        window._cutting = False
        if found is not None:
            window._morsels.append(found)
            window._buffered += found.held_bytes
            window._wake()
        else:
            window._exhausted = True
            window._failure = self._failure
        window._ready.ring()
