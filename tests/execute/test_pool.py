"""The thread pool: order, back-pressure, deadlock freedom, forks and the life of its threads."""

import contextlib
import os
import sys
import threading

import pytest
from tests.chaos.interrupts import Interruption

from headrace.execute.pool import Limits, Morsel, Window
from headrace.execute.pool import scheduler as scheduler_module
from headrace.execute.pool import window as window_module
from headrace.execute.pool.bell import Bell, start_thread
from headrace.execute.pool.scheduler import Pool, pool
from headrace.testing import our_threads

WAIT_SECONDS = 60
RESEND_SECONDS = 0.05


class Numbers(Morsel):
    """Gives `count` numbers from `first` on, one a step, each of `nbytes` bytes."""

    def __init__(self, first, count, nbytes=1, before_step=None):
        super().__init__()
        self.next, self.stop, self.size = first, first + count, nbytes
        self.before_step = before_step
        self.threads = set()
        self.closed = 0

    def step(self):
        if self.before_step is not None:
            self.before_step(self)
        self.threads.add(threading.current_thread())
        if self.next == self.stop:
            return [], 0, True
        self.next += 1
        return [self.next - 1], self.size, False

    def close(self):
        self.closed += 1


def drain(window):
    found = []
    while (taken := window.take()) is not None:
        found += taken[0]
    return found


def numbers(morsels, count, **more):
    return (Numbers(i * count, count, **more) for i in range(morsels))


def test_the_end_of_a_morsel_may_come_with_its_last_items():
    window = Window(numbers(20, 3), Limits(2, 100))
    window.start()
    found, ends = [], 0
    while (taken := window.take(with_end=True)) is not None:
        items, morsel = taken
        found += items
        ends += morsel.over or not items
        assert morsel.done or not morsel.over
    assert found == list(range(60))
    assert ends == 20
    window.close()


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_items_come_in_the_order_of_the_morsels(threads):
    window = Window(numbers(50, 7), Limits(threads, 100))
    window.start()
    assert drain(window) == list(range(350))
    window.close()
    assert our_threads() == []


def test_a_consumer_alone_needs_no_thread():
    window = Window(numbers(5, 3), Limits(4, 100))
    assert drain(window) == list(range(15))
    window.close()
    assert our_threads() == []


def test_the_head_runs_however_little_room_there_is():
    window = Window(numbers(20, 5, nbytes=1000), Limits(4, 1))
    window.start()
    assert drain(window) == list(range(100))
    window.close()


def test_no_more_is_buffered_than_the_limit_and_one_step_of_each_worker():
    most = 0
    window = None

    def look(_morsel):
        nonlocal most
        most = max(most, window._buffered)

    window = Window(numbers(40, 50, nbytes=10, before_step=look), Limits(3, 200))
    window.start()
    assert drain(window) == list(range(2000))
    window.close()
    assert most <= 200 + 3 * 10


def test_two_windows_that_wait_for_each_other_do_not_deadlock():
    """As zip(a, b.shuffle) reads them: all of one before the first item of the other."""
    first, second = (Window(numbers(30, 10, nbytes=100), Limits(2, 150)) for _ in range(2))
    first.start()
    second.start()
    head = first.take()[0]
    assert drain(second) == list(range(300))
    assert head + drain(first) == list(range(300))
    first.close()
    second.close()
    assert our_threads() == []


def test_an_error_of_the_cutter_is_raised_where_the_consumer_gets_there():
    def cutter():
        yield from numbers(3, 2)
        raise ValueError("the file is gone")

    window = Window(cutter(), Limits(2, 100))
    window.start()
    found = []
    with pytest.raises(ValueError, match="the file is gone"):
        while (taken := window.take()) is not None:
            found += taken[0]
    assert found == list(range(6))
    window.close()


def test_closing_waits_for_the_steps_under_way_and_closes_every_morsel_once():
    begun, go_on = threading.Event(), threading.Event()
    made = []

    def block(morsel):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go_on.wait(WAIT_SECONDS)

    def cutter():
        for morsel in numbers(10, 5, before_step=block):
            made.append(morsel)
            yield morsel

    window = Window(cutter(), Limits(2, 1000))
    window.start()
    assert begun.wait(WAIT_SECONDS)
    closer = threading.Thread(target=window.close)
    closer.start()
    go_on.set()
    closer.join(WAIT_SECONDS)
    assert not closer.is_alive()
    assert [morsel.closed for morsel in made] == [1] * len(made)
    assert our_threads() == []


def test_the_cutter_is_closed_with_the_window():
    closed = []

    def cutter():
        try:
            yield from numbers(1000, 5)
        finally:
            closed.append(True)

    window = Window(cutter(), Limits(2, 50))
    window.start()
    window.take()
    window.close()
    assert closed == [True]


def test_threads_end_with_the_last_window():
    both_run = threading.Event()
    meeting = threading.Barrier(2, both_run.set, WAIT_SECONDS)

    def meet(_morsel):
        if not both_run.is_set():
            meeting.wait()

    windows = [Window(numbers(10, 5, before_step=meet), Limits(2, 100)) for _ in range(3)]
    for window in windows:
        window.start()
    assert both_run.wait(WAIT_SECONDS)
    for window in windows[:-1]:
        window.close()
    assert len(our_threads()) == 2
    windows[-1].close()
    assert our_threads() == []


def test_the_consumer_starts_one_thread_and_workers_start_the_others(monkeypatch):
    starters, start = [], Pool._start_thread

    def start_and_tell(each):
        starters.append(threading.current_thread())
        start(each)

    monkeypatch.setattr(Pool, "_start_thread", start_and_tell)
    all_run = threading.Event()
    meeting = threading.Barrier(4, all_run.set, WAIT_SECONDS)

    def meet(_morsel):
        if threading.current_thread() is not threading.main_thread() and not all_run.is_set():
            meeting.wait()

    window = Window(numbers(20, 5, before_step=meet), Limits(4, 100, ahead=10))
    window.start()
    assert all_run.wait(WAIT_SECONDS)
    assert drain(window) == list(range(100))
    window.close()
    assert starters.count(threading.main_thread()) == 1
    assert len(starters) == 4


def test_a_pass_goes_on_with_fewer_workers_if_the_system_allows_no_more_threads(monkeypatch):
    def start(thread, start=start_thread):
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(scheduler_module, "start_thread", start)
    window = Window(numbers(20, 5), Limits(8, 100))
    window.start()
    assert drain(window) == list(range(100))
    assert len(our_threads()) == 1
    window.close()


@pytest.mark.parametrize(("idle", "job"), [(0, "_Step"), (1, "_Cut"), (3, "_Cut")])
def test_a_worker_goes_on_cutting_if_idle_workers_suffice_for_the_morsels(idle, job, monkeypatch):
    window = Window(numbers(20, 5), Limits(4, 100, ahead=10))
    found = next(numbers(1, 5))
    window._morsels.append(found)
    monkeypatch.setattr(pool(), "idle", idle)
    with pool().lock:
        assert type(window.claim()).__name__ == job
    assert found.running == (job == "_Step")


def test_read_ahead_begins_small_and_grows_with_the_waits_of_the_consumer():
    made = 0

    def cutter():
        nonlocal made
        for morsel in numbers(1000, 3):
            made += 1
            yield morsel

    window = Window(cutter(), Limits(8, 1 << 30))
    window.take()
    assert made == 1
    window.close()


def test_read_ahead_may_begin_where_an_earlier_pass_ended():
    made, reached = 0, threading.Event()

    def cutter():
        nonlocal made
        for morsel in numbers(1000, 3):
            made += 1
            if made == 6:
                reached.set()
            yield morsel

    window = Window(cutter(), Limits(2, 1 << 30, ahead=6))
    window.start()
    assert reached.wait(60)
    window.close()
    assert made == 6
    assert window.ahead == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_a_pool_of_its_own():
    parent = pool()
    held = parent.lock
    with held:  # a lock that is held at the fork stays held in the child
        child = os.fork()
        if child == 0:
            window = Window(numbers(5, 3), Limits(2, 100))
            window.start()
            good = drain(window) == list(range(15)) and pool() is not parent
            window.close()
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_window_that_fetches_finds_its_morsels_on_a_thread_of_its_own():
    found_by, go_on = [], threading.Event()

    def fetched():
        for i in range(20):
            found_by.append(threading.current_thread().name)
            if i == 1:
                assert go_on.wait(WAIT_SECONDS)
            yield Numbers(i, 1)

    window = Window(fetched(), Limits(1, 100), fetches=True)
    window.start()
    others = Window(numbers(30, 3), Limits(1, 100))  # the only worker is free for them
    others.start()
    assert drain(others) == list(range(90))
    go_on.set()
    assert drain(window) == list(range(20))
    assert not [name for name in found_by if name.startswith("headrace-pool")]
    others.close()
    window.close()
    assert our_threads() == []


def test_a_window_that_fetches_is_closed_in_the_middle():
    window = Window(numbers(1000, 1), Limits(2, 100), fetches=True)
    window.start()
    assert window.take()[0] == [0]
    window.close()
    assert our_threads() == []


def test_what_morsels_hold_before_they_run_counts():
    found = []

    def large():
        for i in range(50):
            found.append(Numbers(i, 1))
            found[-1].held_bytes = 40
            yield found[-1]

    window = Window(large(), Limits(16, 100))
    window.ahead = 50
    jobs = []
    while True:
        with pool().lock:
            job = window.claim()
        if job is None:
            break
        if isinstance(job, window_module._Cut):
            job.run()
            with pool().lock:
                job.end()
        else:
            jobs.append(job)
    assert len(found) == 3
    for job in jobs:
        job.run()
        with pool().lock:
            job.end()
    assert drain(window) == list(range(50))
    assert window._buffered == 0
    window.close()


def test_an_interrupt_of_a_waiting_consumer_finds_the_lock_free(monkeypatch):
    """A condition would acquire the lock again, which a second interrupt can prevent."""

    def interrupted(_bell):
        assert not pool().lock.locked()
        raise KeyboardInterrupt

    window = Window(numbers(3, 5), Limits(2, 100))
    window._cutting = True  # by another thread: the consumer has to wait
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Bell, "wait", interrupted)
        window.take()
    window._cutting = False
    assert drain(window) == list(range(15))
    window.close()


def test_closing_waits_for_threads_whose_start_was_interrupted(monkeypatch):
    go_on, run = threading.Event(), Pool._run

    def run_later(each):
        assert go_on.wait(WAIT_SECONDS)
        run(each)

    monkeypatch.setattr(Pool, "_run", run_later)
    at, finished = 0, False
    while not finished:
        window = Window(numbers(3, 5), Limits(2, 100))
        go_on.clear()
        with contextlib.suppress(KeyboardInterrupt), Interruption(at, "execute/pool") as interruption:
            window.start()
        finished, at = interruption.struck is None, at + 1
        started = {each for each in threading.enumerate() if each.name.startswith("headrace-pool")}
        counted = set(pool()._threads)
        go_on.set()
        window.close()
        assert started == counted, interruption.struck
        assert not any(each in threading.enumerate() for each in started), interruption.struck
    assert at > 5


@pytest.mark.parametrize("kind", [threading.Event, Bell])
def test_a_thread_is_counted_if_an_interrupt_hits_the_wait_for_its_start(kind, monkeypatch):
    go_on, run, wait = threading.Event(), Pool._run, kind.wait
    left = [KeyboardInterrupt()]

    def run_later(each):
        assert go_on.wait(WAIT_SECONDS)
        run(each)

    def interrupted_wait(each, *seconds):
        if left and threading.get_ident() == threading.main_thread().ident:
            raise left.pop()
        return wait(each, *seconds)

    monkeypatch.setattr(Pool, "_run", run_later)
    window = Window(numbers(3, 5), Limits(2, 100))
    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(kind, "wait", interrupted_wait)
        window.start()
    started = {each for each in threading.enumerate() if each.name.startswith("headrace-pool")}
    counted = set(pool()._threads)
    go_on.set()
    window.close()
    assert started == counted != set()
    assert our_threads() == []


def test_closing_again_waits_for_threads_that_an_interrupted_close_did_not_join(monkeypatch):
    joined, join = [], threading.Thread.join

    def join_at_the_second_call(thread, timeout=None):
        joined.append(thread)
        if len(joined) == 1:
            raise KeyboardInterrupt
        join(thread, timeout)

    window = Window(numbers(3, 5), Limits(1, 100))
    window.start()
    threads = set(pool()._threads)
    monkeypatch.setattr(threading.Thread, "join", join_at_the_second_call)
    with pytest.raises(KeyboardInterrupt):
        window.close()
    for thread in threads:
        join(thread, WAIT_SECONDS)
    window.close()
    assert set(joined[1:]) == threads


def test_an_interrupt_while_a_thread_starts_leaves_none_that_never_runs():
    def strike(frame, event, _):
        nonlocal passed
        if frame.f_code.co_filename != threading.__file__ or frame.f_code.co_name not in ("start", "wait"):
            return strike
        if event == "line":
            passed += 1
            if passed > at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return strike

    before = sys.gettrace()
    for at in range(12):  # noqa: B007
        passed = 0
        ran = threading.Event()
        thread = threading.Thread(target=ran.set, daemon=True)
        sys.settrace(strike)
        try:
            start_thread(thread)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if thread.ident is not None:
            thread.join(WAIT_SECONDS)
            assert ran.is_set()
        assert thread not in threading.enumerate()


def test_two_rings_without_a_wait_are_one():
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait()
    bell.ring()
    bell.clear()
    assert bell._silent.locked()
