"""Waits and starts of threads that an interrupt cannot break."""

from __future__ import annotations

import _thread
import contextlib
import threading


class Bell:
    """Wake one thread that waits for a change of what a lock guards.

    The waiting thread looks at the state under the lock, releases the lock, waits here, and looks again. A ring that
    comes before the wait is kept, so none is missed. `threading.Condition` waits inside the lock: Ctrl-C while it
    acquires the lock again leaves it to its caller to release a lock that another thread holds.
    """

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """End a wait, this or the next. Any thread may call it, with or without the lock that guards the state."""
        if self._silent.locked():
            with contextlib.suppress(RuntimeError):  # another thread rang it meanwhile
                self._silent.release()

    def wait(self) -> None:
        """Wait for a ring. The caller does not hold the lock, and looks at the state again whatever comes of this."""
        self._silent.acquire()

    def clear(self) -> None:
        """Forget a ring."""
        self._silent.acquire(blocking=False)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread. An interrupt in here is raised as it is, once the thread has an identity.

    A thread that an interrupt kept from starting has none, and never runs.

    `Thread.start` waits for the thread by an event. An interrupt in there becomes an error of the event's lock, or
    releases the lock while the new thread holds it. Then that thread ends before it runs, and stays in
    `threading.enumerate()`. Interrupts come to the main thread alone, so another thread makes the call.

    Finalizers must not call this: the garbage collector may run them while `threading` holds a lock of its own that
    only the same thread can acquire again.
    """
    if threading.current_thread() is not threading.main_thread():
        thread.start()
        return
    bell, failures = Bell(), list[BaseException]()
    over: list[bool] = []

    def start() -> None:
        try:
            thread.start()
        except BaseException as error:
            failures.append(error)
        finally:
            over.append(True)
            bell.ring()

    interrupt: BaseException | None = None
    try:
        _thread.start_new_thread(start, ())
    except (RuntimeError, MemoryError):  # there can be no more threads
        raise
    except BaseException as error:  # after the call: the interpreter looks for signals at its end
        interrupt = error
    while not over:
        try:
            bell.wait()
        except BaseException as error:
            interrupt = error
    failure = interrupt or next(iter(failures), None)
    try:
        if failure is not None:
            raise failure
    finally:
        del failure, interrupt  # no cycle with the traceback, which leads to all that the pass holds
        failures.clear()
