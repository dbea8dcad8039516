"""The worker threads of a process, and how they choose what to run next."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

from headrace.execute.pool.bell import Bell, start_thread


class Job(Protocol):
    """Work that one thread does without waiting for anything."""

    def run(self) -> None:
        """Do it. Exceptions are kept as a result, never raised."""
        ...

    def end(self) -> None:
        """Hand over the result. The caller holds the pool's lock."""
        ...


class Jobs(Protocol):
    """Where workers get jobs from: the window of one stream."""

    threads: int
    """How many workers may run its jobs at a time."""
    busy: int
    """How many do. Only the pool writes this."""
    idle: Bell
    """Rung when none does any more, once the window is detached."""

    def claim(self) -> Job | None:
        """Take the next job, if there is one. The caller holds the pool's lock."""
        ...


class Pool:
    """Worker threads that run the jobs of all windows of this process.

    Threads start when a window asks for them and end with the last window. All windows and the pool share one lock:
    what is done under it takes microseconds, and no lock order can be violated. A worker never blocks inside a job, so
    that every window whose consumer waits gets a thread in the end.

    The pool refers to windows weakly. It lives as long as the process, and a window leads to all that its pass holds.
    Otherwise an iterator in a reference cycle, such as by the traceback of a failed row, could never be collected.
    """

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        self._work = threading.Condition(self.lock)
        self._windows: list[weakref.ref[Jobs]] = []
        self._threads: set[threading.Thread] = set()
        self._ended: set[threading.Thread] = set()
        """Threads about to end, until `detach` has joined them, which an interrupt may keep it from at first."""
        self.idle: int = 0
        """How many workers wait for a job."""
        self._next = 0
        self._full = False
        """Whether the system allowed no more threads."""

    def attach(self, window: Jobs) -> None:
        """Let workers run the jobs of this window.

        The caller starts one thread at most, and each thread starts another as long as there are too few: the first one
        works already while the others are started. An interrupt in here leaves no thread uncounted, which `detach`
        would not wait for, and counts none that never runs.
        """
        with self.lock:
            self._windows.append(weakref.ref(window))
            self._full = False
            self._bring_workers(window)

    def grow(self, window: Jobs) -> None:
        """Start more threads if a window may now use more."""
        with self.lock:
            self._bring_workers(window)

    def _bring_workers(self, window: Jobs) -> None:
        self._work.notify(window.threads)
        if self._lacks_threads():
            self._start_thread()

    def _lacks_threads(self) -> bool:
        return len(self._threads) < max((each.threads for each in self._live_windows()), default=0)

    def _start_another(self) -> None:
        """Start a thread on a worker; if the system allows no more threads, go on with those there are."""
        try:
            self._start_thread()
        except (RuntimeError, MemoryError):
            self._full = True

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"headrace-pool-{len(self._threads)}", daemon=True)
        try:
            start_thread(thread)
        finally:
            if thread.ident is not None:
                self._threads.add(thread)

    def detach(self, window: Jobs) -> None:
        """Remove a window. Return when no worker runs a job of it. The last window's threads end, too."""
        while True:
            with self.lock:
                self._windows = [each for each in self._windows if each() not in (window, None)]
                if not window.busy or self._runs_here():
                    ending = [] if self._windows else [*self._threads, *self._ended]
                    self._work.notify_all()
                    window.idle.ring()  # another thread may close it, too
                    break
            window.idle.wait()
        for thread in ending:
            if thread is not threading.current_thread():
                thread.join()
        if ending:
            with self.lock:
                self._ended.difference_update(ending)

    def wake(self, jobs: int = 1) -> None:
        """Wake idle workers for new jobs. The caller holds the lock."""
        if self.idle and jobs > 0:
            self._work.notify(jobs)

    def _live_windows(self) -> list[Jobs]:
        return [window for each in self._windows if (window := each()) is not None]

    def _runs_here(self) -> bool:
        return threading.current_thread() in self._threads

    def _run(self) -> None:
        with self.lock:
            self._threads.add(threading.current_thread())
            while True:
                if not self._full and self._lacks_threads():
                    self._start_another()
                found = self._claim()
                if found is None:
                    if not self._windows:
                        break
                    self.idle += 1
                    self._work.wait()
                    self.idle -= 1
                    continue
                window, job = found
                window.busy += 1
                self.lock.release()
                try:
                    job.run()
                finally:
                    self.lock.acquire()
                    job.end()
                    window.busy -= 1
                    if not window.busy:
                        window.idle.ring()
                    del window, job, found
            self._threads.discard(threading.current_thread())
            self._ended.add(threading.current_thread())

    def _claim(self) -> tuple[Jobs, Job] | None:
        """Return the next job, round-robin over the windows so that no pass starves."""
        windows = self._live_windows()
        count = len(windows)
        for step in range(count):
            window = windows[(self._next + step) % count]
            if window.busy < window.threads and (job := window.claim()) is not None:
                self._next = (self._next + step + 1) % count
                return window, job
        return None


_pools: dict[int, Pool] = {}


def pool() -> Pool:
    """Return the pool of this process. A forked child has its own: it inherits neither threads nor locks."""
    pid = os.getpid()
    found = _pools.get(pid)
    if found is None:
        _pools.clear()
        found = _pools.setdefault(pid, Pool())
    return found
