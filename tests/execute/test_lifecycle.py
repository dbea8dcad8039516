"""Iterators free what they hold, however they end."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

import headrace as hr
from headrace.testing import our_threads
from headrace.trace import function

D = hr.Dataset
INT = hr.TensorSpec((), "int64")


class Watched:
    """A generator function that records how far it was read and whether it was finalized."""

    def __init__(self, count=100):
        self.count = count
        self.read = 0
        self.finalised = 0

    def __call__(self):
        try:
            for i in range(self.count):
                self.read += 1
                yield i
        finally:
            self.finalised += 1

    def dataset(self):
        return D.from_generator(self, output_signature=INT)


def endings():
    def close(it):
        it.close()

    def leave(it):
        with it:
            pass

    def drop(it):
        del it

    def read_to_the_end(it):
        list(it)

    return [close, leave, drop, read_to_the_end]


@pytest.mark.parametrize("end", endings())
@pytest.mark.parametrize(
    "shape",
    [
        lambda d: d,
        lambda d: d.prefetch(2),
        lambda d: d.map(lambda x: x, num_parallel_calls=3).prefetch(2),
        lambda d: d.shuffle(5).batch(2),
        lambda d: D.range(3).flat_map(lambda _: d),
        lambda d: D.range(3).interleave(lambda _: d, cycle_length=2, num_parallel_calls=2),
        lambda d: D.zip(d, D.range(50)),
        lambda d: d.cache(),
    ],
    ids=["plain", "prefetch", "parallel", "shuffle", "flat_map", "interleave", "zip", "cache"],
)
def test_a_generator_is_finalised_and_no_thread_stays(shape, end):
    watched = Watched()
    it = iter(shape(watched.dataset()))
    next(it)
    held = [it]
    del it
    end(held.pop())
    gc.collect()
    assert our_threads() == []
    assert watched.finalised > 0


def test_nothing_runs_before_the_first_next():
    watched = Watched()
    it = iter(watched.dataset().prefetch(5))
    assert watched.read == 0
    assert our_threads() == []
    it.close()


def test_prefetch_runs_at_most_its_size_ahead():
    watched = Watched()
    reached = threading.Event()

    def note(x):
        if x == 4:
            reached.set()
        return x

    with iter(watched.dataset().map(note).prefetch(4)) as it:
        next(it)
        assert reached.wait(300)
        for _ in range(100):
            if watched.read > 5:
                break
            threading.Event().wait(0.001)
        assert watched.read == 5


def test_take_reads_no_further_than_it_must():
    watched = Watched()
    assert list(watched.dataset().take(3)) == [0, 1, 2]
    assert (watched.read, watched.finalised) == (3, 1)


def test_an_exception_in_the_consumers_loop_frees_the_iterator():
    watched = Watched()
    with pytest.raises(ZeroDivisionError):
        for _ in watched.dataset().prefetch(3):
            _ = 1 / 0
    gc.collect()
    assert our_threads() == []
    assert watched.finalised == 1


def test_after_close_the_iterator_has_ended():
    it = iter(D.range(10))
    next(it)
    it.close()
    it.close()
    with pytest.raises(StopIteration):
        next(it)
    with pytest.raises(hr.HeadraceError, match="closed"):
        it.restore(iter(D.range(10)).state())


def test_after_the_end_next_keeps_raising_stop_iteration():
    it = iter(D.range(1))
    next(it)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(it)


def test_closing_from_another_thread_ends_a_pass_as_soon_as_the_call_in_flight_returns():
    entered, release = threading.Event(), threading.Event()

    def stuck(x):
        entered.set()
        release.wait(300)
        return x

    it = iter(D.range(5).map(stuck, num_parallel_calls=1).prefetch(1))
    ended = []
    consumer = threading.Thread(target=lambda: ended.append(next(it, "ended")))
    consumer.start()
    assert entered.wait(300)
    closer = threading.Thread(target=it.close)
    closer.start()
    release.set()
    consumer.join(300)
    closer.join(300)
    assert ended == ["ended"]
    assert our_threads() == []


def test_a_function_may_close_its_own_iterator():
    its = []

    def stop(x):
        if x == 2:
            its[0].close()
        return x

    its.append(iter(D.range(5).map(stop)))
    assert [int(x) for x in its[0]] == [0, 1, 2]


def test_the_iterator_itself_is_collected():
    it = iter(D.range(10).map(lambda x: x).prefetch(2))
    next(it)
    gone = weakref.ref(it)
    del it
    gc.collect()
    assert gone() is None


def counted(ds):
    """Each element with how many came before it, which is part of the mark."""
    return ds.scan(0, lambda n, x: (n + 1, (n, x))).map(lambda n, x: x + 0 * n)


@pytest.mark.parametrize("parallel", [None, 2])
@pytest.mark.parametrize("shape", [lambda d: d, counted, lambda d: counted(d).cache()], ids=["plain", "scan", "cache"])
def test_after_a_keyboard_interrupt_the_pass_goes_on_where_it_was(shape, parallel):
    interrupted = []

    def shout(x):
        if x == 3 and not interrupted:
            interrupted.append(x)
            raise KeyboardInterrupt
        return x

    it = iter(shape(D.range(6).shuffle(3, seed=1)).map(shout, num_parallel_calls=parallel).batch(2))
    got, hits = [], 0
    while True:
        try:
            got.append(next(it))
        except KeyboardInterrupt:
            hits += 1
        except StopIteration:
            break
    assert hits == 1
    assert np.concatenate(got).tolist() == [int(x) for x in shape(D.range(6).shuffle(3, seed=1))]


def test_a_keyboard_interrupt_while_waiting_loses_nothing():
    asks_for_3, interrupted = threading.Event(), threading.Event()

    def work(x):
        if x == 3 and not interrupted.is_set():
            assert asks_for_3.wait(300)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
            assert interrupted.wait(300)
        return x

    def interrupt(*_):
        interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    it = iter(D.range(12).map(work, num_parallel_calls=1).prefetch(1))
    got, hits = [], 0
    try:
        while True:
            try:
                if len(got) == 3:
                    asks_for_3.set()
                got.append(int(next(it)))
            except KeyboardInterrupt:
                hits += 1
            except StopIteration:
                break
    finally:
        signal.signal(signal.SIGALRM, before)
    assert hits == 1
    assert got == list(range(12))


@pytest.mark.parametrize("runs", ["not", "at once", "later"])
@pytest.mark.parametrize("shape", [lambda d: d.prefetch(2), lambda d: d.map(int, num_parallel_calls=3)])
def test_an_interrupt_while_a_thread_starts_is_what_the_consumer_gets(monkeypatch, shape, runs):
    start, interrupted = threading.Thread.start, []

    def interrupt(self):
        if interrupted or not self.name.startswith("headrace-"):
            start(self)
            return
        interrupted.append(self)
        if runs == "at once":
            start(self)
        elif runs == "later":  # the system has it, but it has not said so yet
            threading.Timer(0.1, start, (self,)).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    it = iter(shape(D.range(20)))
    with pytest.raises(KeyboardInterrupt):
        next(it)
    assert [int(x) for x in it] == list(range(20))
    it.close()


def test_system_exit_in_a_worker_reaches_the_consumer():
    def leave(x):
        if x == 2:
            raise SystemExit(7)
        return x

    it = iter(D.range(5).map(leave, num_parallel_calls=2))
    with pytest.raises(SystemExit):
        list(it)
    it.close()
    assert our_threads() == []


def python(source):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(
    "ending",
    ["pass", "import sys; sys.exit(0)", "del it", "it.close()", "import atexit; atexit.register(lambda: next(it))"],
)
def test_the_interpreter_exits_with_a_pass_under_way(ending):
    done = python(f"""
        import headrace as hr
        it = iter(hr.Dataset.range(10**9).map(lambda x: x, num_parallel_calls=4).batch(10).prefetch(hr.AUTOTUNE))
        next(it)
        {ending}
    """)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("shape", [lambda d: d.cache(), counted], ids=["cache", "scan"])
def test_after_a_fork_both_processes_read_the_same_rest(shape):
    ds = shape(D.range(40).map(lambda x: x * 2, num_parallel_calls=2).shuffle(8, seed=3)).batch(3).prefetch(2)
    it = iter(ds)
    next(it)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            rest = np.concatenate(list(it))
            os.write(writer, ",".join(map(str, rest)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        seen_by_child = pipe.read()
    os.waitpid(child, 0)
    rest = np.concatenate(list(it))
    assert seen_by_child == ",".join(map(str, rest))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_first_rows_are_compared_does_not_block_the_child(monkeypatch):
    compared, forked, same = threading.Event(), threading.Event(), function._same

    def slow(head, called):
        compared.set()
        assert forked.wait(300)
        return same(head, called)

    monkeypatch.setattr(function, "_same", slow)
    ds = D.range(1000).map(lambda x: x * 3 + 1, num_parallel_calls=2).batch(100)
    here = threading.Thread(target=lambda: list(ds))
    here.start()
    assert compared.wait(300)
    child = os.fork()
    forked.set()
    if child == 0:
        signal.alarm(300)
        os._exit(0 if sum(map(len, ds)) == 1000 else 1)
    assert os.waitpid(child, 0)[1] == 0
    here.join(300)
    assert not here.is_alive()


def test_large_buffers_go_back_to_the_system():
    done = python("""
        import psutil, numpy as np, headrace as hr
        D = hr.Dataset
        def chunks():
            for i in range(40):
                yield np.full((100, 50_000), i, np.uint8)
        rows = D.from_generator(chunks, output_signature=hr.TensorSpec((100, 50_000), "uint8")).flat_map(
            D.from_tensor_slices)
        next(iter(rows.shuffle(10, seed=1)))
        before = psutil.Process().memory_info().rss
        it = iter(rows.shuffle(3000, seed=1).batch(8).prefetch(2))
        next(it)
        during = psutil.Process().memory_info().rss
        it.close()
        after = psutil.Process().memory_info().rss
        print(during - before, after - before)
    """)
    assert done.returncode == 0, done.stderr
    during, after = map(int, done.stdout.split())
    assert during > 140e6
    assert after < 70e6, "the C library keeps 64 MB a thread"
