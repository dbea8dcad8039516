"""Ctrl-C at any moment leaves a pass where it was, or one element further with that element delivered."""

import random
import threading
from contextlib import suppress

import pytest
from tests.chaos.interrupts import (
    PIPELINES,
    UNORDERED,
    Interruption,
    count_moments,
    interrupt_calls,
    interrupt_next,
    interrupt_writer,
    one_outcome,
    signalled_pass,
    subject_of,
    traced_pass,
)
from tests.storage import kills

import headrace as hr
from headrace.storage import rows

D = hr.Dataset
EVERY = 5
"""One in this many of the pipelines of the conformance tests runs here; `make chaos` runs all of them."""
SOME = list(PIPELINES)[::EVERY]


def moments(name, total, count):
    """Some of the moments, the same in every run."""
    chance = random.Random(name)
    return {chance.randrange(total) for _ in range(count)}


@pytest.mark.parametrize("name", [*SOME, *(f"unordered {name}" for name in UNORDERED)])
def test_an_interrupt_in_next_loses_and_repeats_nothing(name):
    subject = subject_of(name)
    assert sum(interrupt_next(subject, at) for at in moments(name, subject.moments, 6))


@pytest.mark.parametrize("name", SOME[::2])
def test_an_interrupt_in_state_restore_or_close_can_be_followed_by_another_call(name):
    subject = subject_of(name)
    assert sum(interrupt_calls(subject, at) for at in moments(name, 150, 10))


@pytest.mark.parametrize("kind", kills.KINDS)
def test_an_interrupted_writer_leaves_all_or_nothing(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "ROWS", 20)
    monkeypatch.setattr(kills, "SIZE", 40)
    monkeypatch.setattr(kills, "RECORDS", 50)
    monkeypatch.setattr(rows, "PART_BYTES", 5 * 40 * 8)
    writer = kills.KINDS[kind](tmp_path)
    for at in moments(kind, count_moments(writer).moments, 2):
        while not interrupt_writer(writer, tmp_path, at):
            at //= 2  # how many there are differs from pass to pass  # noqa: PLW2901


@pytest.mark.parametrize("name", SOME[::4])
def test_real_signals_lose_and_repeat_nothing(name):
    subject = subject_of(name)
    with subject.begin() as it:
        got, _ = signalled_pass(it, random.Random(name), gap=0.001)
    subject.check(got, "a signal")


@pytest.mark.parametrize("columns", ["one", "two", "nested", "text"])
def test_every_moment_near_the_delivery_of_a_short_pass(columns):
    make = {
        "one": lambda x: x,
        "two": lambda x: (x, x + 1),
        "nested": lambda x: {"a": (x, x), "b": {"c": x}},
        "text": lambda x: str(x),
    }[columns]
    ds = D.range(5).map(make).batch(2)
    counting = Interruption(module="iterator.py")
    want = traced_pass(iter(ds), counting)
    for at in range(counting.moments):
        with iter(ds) as it:
            assert repr(traced_pass(it, Interruption(at, "iterator.py"))) == repr(want)


def test_an_element_that_cannot_be_put_together_comes_again_after_an_interrupt():
    class Odd:
        def __init__(self, x):
            if interrupts and int(x) == 3:
                interrupts.pop()
                raise KeyboardInterrupt
            if int(x) == 4:
                raise StopIteration("an error like any other")
            self.x = int(x)

    interrupts = [1, 2]
    it = iter(D.range(6).map(Odd, mode="eager"))
    got = []
    while True:
        try:
            outcome = one_outcome(it)
        except KeyboardInterrupt:
            continue
        if outcome is None:
            break
        got.append(outcome)
    assert interrupts == []
    assert [kind if kind == "error" else value.x for kind, value in got] == [0, 1, 2, 3, "error", 5]


def test_a_second_interrupt_while_the_first_is_dealt_with():
    def strike(x):
        if x == 20 and len(calls) < 30:
            calls.append(x)
            raise KeyboardInterrupt
        return x

    calls = []
    it = iter(D.range(40).map(strike).prefetch(2))
    shut = it._shut

    def again(**how):
        if len(calls) < 30:
            calls.append("shut")
            raise KeyboardInterrupt
        shut(**how)

    it._shut = again
    got = []
    while (outcome := _until_it_comes(it)) is not None:
        got.append(int(outcome[1]))
    assert got == list(range(40))
    assert "shut" in calls
    it.close()


def _until_it_comes(it):
    while True:
        try:
            return one_outcome(it)
        except KeyboardInterrupt:
            continue


def test_several_threads_share_rows_that_python_makes():
    it = iter(D.range(300).map(lambda x: {"a": (x, x), "b": x}))
    got, lock = [], threading.Lock()

    def take():
        for element in it:
            with lock:
                got.append(int(element["b"]))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(300))
    assert it.state()["delivered"] == 300


def test_an_interrupt_while_seeds_are_keyed_does_not_change_later_seeds():
    ds = D.range(3).flat_map(lambda n: D.range(4).shuffle(4))
    counting = Interruption(module="core/keys.py")
    with counting:
        list(ds)
    assert counting.moments > 20
    for at in range(counting.moments):
        interruption = Interruption(at, "core/keys.py")
        with suppress(KeyboardInterrupt), interruption:
            list(ds)
        hr.set_random_seed(7)
        seeds = [D.range(9).shuffle(9)._node.seed for _ in range(2)]
        hr.set_random_seed(7)
        assert [D.range(9).shuffle(9)._node.seed for _ in range(2)] == seeds, interruption.struck
    hr.set_random_seed(None)
