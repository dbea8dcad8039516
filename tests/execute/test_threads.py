"""Threads: nothing is lost, held back, deadlocked or delivered twice."""

import gc
import json
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation, difference, our_threads, outcomes

D = hr.Dataset
INT = hr.TensorSpec((), "int64")


def within(seconds, action):
    """Run it on a thread of its own; fail instead of hanging."""
    done, result = threading.Event(), []

    def run():
        result.append(action())
        done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(seconds), "hangs"
    return result[0]


def jittering(x):
    threading.Event().wait(0.002 if int(x) % 5 == 0 else 0)
    return x


def test_states_of_states_of_an_unordered_map_lose_nothing():
    ds = D.range(60).map(jittering, num_parallel_calls=4, deterministic=False)
    got, state = [], None
    while True:
        with ds.iterator(state) as it:
            part = [int(x) for _, x in zip(range(7), it, strict=False)]
            state = json.loads(json.dumps(it.state()))
        got += part
        if not part:
            break
    assert sorted(got) == list(range(60))


@pytest.mark.parametrize(
    "after",
    [
        lambda d: d.batch(4),
        lambda d: d.batch(4).prefetch(2),
        lambda d: d.shuffle(20, seed=1).batch(3),
        lambda d: d.cache().batch(3),
        lambda d: d.flat_map(lambda x: D.range(x, x + 1)).batch(3),
        lambda d: d.interleave(lambda x: D.range(x, x + 1), cycle_length=3).batch(3),
    ],
    ids=["batch", "batch, prefetch", "shuffle", "cache", "flat_map", "interleave"],
)
def test_a_resume_after_an_unordered_map_gives_exactly_the_rest(after):
    for cut in (1, 5, 11):
        ds = after(D.range(60).map(jittering, num_parallel_calls=4, deterministic=False))
        with iter(ds) as it:
            got = [next(it) for _ in range(cut)]
            state = json.loads(json.dumps(it.state()))
        rebuilt = after(D.range(60).map(jittering, num_parallel_calls=4, deterministic=False))
        with rebuilt.iterator(state) as it:
            got += list(it)
        assert sorted(np.concatenate(got)) == list(range(60))


class Overtaken:
    """A function whose call on `late`, once that is set, comes back after another one has."""

    def __init__(self):
        self.late = None
        self.other = threading.Event()

    def __call__(self, x):
        if int(x) == self.late:
            assert self.other.wait(300), "no other call came back"
        elif self.late is not None:
            self.other.set()
        if int(x) % 4 == 3:
            raise ValueError("a row that ignore_errors drops")
        return x


@pytest.mark.parametrize(
    "after",
    [
        lambda d: d.ignore_errors(),
        lambda d: d.ignore_errors().filter(lambda x: int(x) % 2 == 0),
        lambda d: d.ignore_errors().filter(lambda x: x % 2 == 0),
        lambda d: d.ignore_errors().enumerate().map(lambda i, x: x).prefetch(2).filter(lambda x: x != 1),
    ],
    ids=["ignore_errors", "filter", "traced filter", "several"],
)
@pytest.mark.parametrize("cut", [1, 2, 3, 5])
def test_rows_that_overtake_the_last_one_given_change_no_resume(after, cut):
    fn = Overtaken()
    ds = after(D.range(20).map(fn, num_parallel_calls=2, deterministic=False))
    want = sorted(int(x) for x in ds)
    with iter(ds) as it:
        got = [int(next(it)) for _ in range(cut)]
        state = json.loads(json.dumps(it.state()))
    fn.late = got[-1]
    with ds.iterator(state) as it:
        assert sorted(got + [int(x) for x in it]) == want


def test_a_function_on_a_worker_may_close_its_iterator():
    its = []
    its.append(iter(D.range(10).map(lambda x: its[0].close() if x == 3 else x).prefetch(1)))
    assert len(within(300, lambda: list(its[0]))) <= 4
    assert our_threads() == []


class Labelled(NamedTuple):
    number: Any
    words: Any


SHARED = {
    "range": lambda: D.range(3000),
    "tuples": lambda: D.range(3000).map(lambda x: (x, x * 2)),
    "dicts": lambda: D.range(3000).map(lambda x: {"b": x, "a": x * 2}),
    "classes": lambda: D.from_tensor_slices(Labelled(np.arange(3000), [str(i) for i in range(3000)])),
    "ragged": lambda: D.from_tensor_slices(
        (np.arange(3000), hr.Ragged.from_rows([[i] * (i % 3) for i in range(3000)]), np.arange(3000))
    ),
    "ragged twice": lambda: D.from_tensor_slices(
        (np.arange(3000), hr.Ragged(hr.Ragged.from_rows([[i] * (i % 3) for i in range(3000)]), np.arange(3001)))
    ),
    "one by one": lambda: D.range(3000).map(lambda x: int(x), mode="eager"),
    "failures": lambda: D.range(3000).map(lambda x: 1 // (int(x) % 5), num_parallel_calls=2),
    "batches": lambda: D.range(9000).batch(3).prefetch(4),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_state_of_an_iterator_that_threads_share_is_exact(name):
    """Threads take elements at the same time; whenever they pause, what all have taken is a beginning of the whole."""
    want = list(outcomes(iter(SHARED[name]())))
    taken, pause = [], threading.Barrier(4, timeout=300)
    states = []

    def take(it):
        for count in range(1, 30):
            for _ in range(count):
                taken.extend(outcomes(it, 1))
            if pause.wait() == 0:
                states.append((len(taken), it.state()))
            pause.wait()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with iter(SHARED[name]()) as it:
            threads = [threading.Thread(target=take, args=(it,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(states) == 29
    order = sorted(taken, key=repr)
    assert difference(order, sorted(want[: len(taken)], key=repr)) is None
    for count, state in states[::7]:
        assert state["delivered"] == count
        with SHARED[name]().iterator(state=json.loads(json.dumps(state))) as rest:
            assert difference(outcomes(rest), want[count:]) is None


class Garbage:
    """Is collected while some other object is made, and then runs Python code: threads may change there."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        for _ in range(200):
            pass


def test_a_garbage_collection_in_next_repeats_no_element_for_threads_that_share_it():
    taken = []

    def take(it):
        for row in it:
            taken.append(int(row["b"]))
            Garbage()

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(2, 1000, 1000)
    try:
        with iter(SHARED["dicts"]()) as it:
            threads = [threading.Thread(target=take, args=(it,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    assert sorted(taken) == list(range(3000))


def test_closing_ends_a_search_that_finds_nothing():
    it = iter(D.range(10).repeat().enumerate().filter(lambda i, x: i < 3).prefetch(8))
    next(it)
    within(300, it.close)
    assert our_threads() == []


def test_what_a_source_has_given_is_not_held_back_for_more():
    handled = threading.Semaphore(1)

    def polite():
        for i in range(30):
            assert handled.acquire(timeout=300)
            yield i

    def consume():
        count = 0
        for _ in D.from_generator(polite, output_signature=INT).prefetch(8):
            handled.release()
            count += 1
        return count

    assert within(300, consume) == 30


def test_a_failure_in_a_cache_keeps_no_pass_alive():
    ds = D.range(50).map(lambda x: 1 // (int(x) - 1)).cache()
    for _ in range(2):
        it = iter(ds.prefetch(2))
        next(it)
        with pytest.raises(hr.ElementError):
            next(it)
        del it
        gc.collect()
        assert our_threads() == []


def test_threads_that_share_an_iterator_share_its_elements():
    it = iter(D.range(20_000))
    parts = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda p=p: p.extend(map(int, it))) for p in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(x for p in parts for x in p) == list(range(20_000))


def test_threads_that_share_a_cache_read_it_together():
    ds = D.range(3000).map(lambda x: x).cache()
    results = [[] for _ in range(3)]
    threads = [threading.Thread(target=lambda r=r: r.extend(map(int, ds))) for r in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(r == list(range(3000)) for r in results)


def test_one_input_that_cannot_be_closed_keeps_none_of_the_others_open():
    finalised = []

    def stubborn():
        try:
            yield from range(5)
        except GeneratorExit:
            raise OSError("will not close") from None

    def good(name):
        def numbers():
            try:
                yield from range(5)
            finally:
                finalised.append(name)

        return D.from_generator(numbers, output_signature=INT)

    it = iter(D.zip(good("a"), D.from_generator(stubborn, output_signature=INT), good("b")))
    next(it)
    with pytest.raises(OSError, match="will not close"):
        it.close()
    assert sorted(finalised) == ["a", "b"]


def quick_then_stuck(count, stuck):
    """Quick calls, so that many are made on end, and then one that waits."""
    go = threading.Event()

    def call(x):
        if int(x) == stuck:
            assert go.wait(300)
        return int(x)

    return D.range(count).map(call, num_parallel_calls=2), go


def test_what_a_call_has_made_is_not_held_back_by_the_next_call_of_its_run():
    ds, go = quick_then_stuck(5000, 3001)
    with iter(ds) as it:
        assert within(300, lambda: [int(next(it)) for _ in range(3001)]) == list(range(3001))
        go.set()
        assert [int(x) for x in it] == list(range(3001, 5000))


def test_closing_waits_for_no_more_than_the_calls_under_way():
    made = []

    def call(x):
        made.append(int(x))
        threading.Event().wait(0.01 if int(x) > 2000 else 0)
        return int(x)

    with iter(D.range(100_000).map(call, num_parallel_calls=2)) as it:
        for _ in range(2000):
            next(it)
    assert len(made) < 2000 + 4 * 256 + 100


def test_quick_calls_run_no_further_ahead_than_a_few_runs():
    made = []

    def call(x):
        made.append(int(x))
        return int(x)

    with iter(D.range(1_000_000).map(call, num_parallel_calls=2)) as it:
        for _ in range(1000):
            next(it)
        threading.Event().wait(0.2)
        assert len(made) <= 1000 + 9 * 256


def test_rows_before_an_exit_come_before_it():
    def call(x):
        if int(x) == 3000:
            raise SystemExit(3)
        return int(x)

    with iter(D.range(4000).map(call, num_parallel_calls=2)) as it:
        got = []
        with pytest.raises(SystemExit):
            for x in it:
                got.append(int(x))
    assert got == list(range(len(got)))
    assert len(got) <= 3000


RUNS = {
    "map": lambda calls: D.range(2500).map(lambda x: 100 // (int(x) % 97), num_parallel_calls=calls),
    "random_map": lambda calls: D.range(2500).random_map(
        lambda x, rng: (int(x), int(rng.integers(0, 9)) // (int(x) % 101)), 5, num_parallel_calls=calls
    ),
    "of many kinds": lambda calls: D.range(2500).map(
        lambda x: (int(x),) if x % 7 else {"a": np.arange(int(x) % 3)}, num_parallel_calls=calls
    ),
    "with ids for others": lambda calls: (
        D.range(2500)
        .map(lambda x: 100 // (int(x) % 97), num_parallel_calls=calls)
        .random_map(lambda x, rng: rng.integers(0, 100) + x, 3)
    ),
}


@pytest.mark.parametrize("size", [1, 2, 100, hr.AUTOTUNE])
def test_a_prefetch_behind_holds_nothing_back_either(size):
    ds, go = quick_then_stuck(3000, 2001)
    with iter(ds.prefetch(size)) as it:
        assert within(300, lambda: [int(next(it)) for _ in range(2001)]) == list(range(2001))
        go.set()
        assert [int(x) for x in it] == list(range(2001, 3000))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("calls", [1, 2, hr.AUTOTUNE])
def test_runs_of_calls_give_what_single_calls_give_and_a_state_anywhere_goes_on_exactly(name, calls):
    want = outcomes(iter(RUNS[name](None)))
    assert difference(outcomes(iter(RUNS[name](calls))), want) is None
    with iter(RUNS[name](calls)) as it:
        for cut in (1, 96, 97, 98, 1200, 2400):
            while it.state()["delivered"] < cut:
                outcomes(it, 1)
            state = json.loads(json.dumps(it.state()))
            with RUNS[name](calls).iterator(state) as rest:
                assert difference(outcomes(rest), want[cut:]) is None


def test_rows_that_lie_ready_are_passed_over_first():
    ds = D.range(60).map(lambda x: x + 1, num_parallel_calls=hr.AUTOTUNE)
    for _ in range(3):
        check_transformation(ds, cuts=2, epochs=1)
