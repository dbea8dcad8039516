"""AUTOTUNE: what it chooses, within which budget, and that it can be repeated."""

import threading
import time

import numpy as np
import pytest

import headrace as hr
from headrace.execute import budget
from headrace.execute.autotune import Climb, Tuner
from headrace.execute.budget import Memory

D = hr.Dataset


def nap(x):
    time.sleep(0.005)
    return x


def test_calls_that_wait_get_more_threads_than_there_are_processors():
    it = iter(D.range(600).map(nap, num_parallel_calls=hr.AUTOTUNE))
    assert list(it) == list(range(600))
    tuning = it.tuning()
    assert tuning["chosen"]["/map"] > budget.cpus()
    assert "the consumer waited" in str(tuning)


def test_what_was_found_is_repeated_by_freezing_it():
    numbers = set()

    def note(x):
        numbers.add(threading.get_ident())
        return nap(x)

    frozen = {"chosen": {"/map": 3}, "log": []}
    ds = D.range(60).map(note, num_parallel_calls=hr.AUTOTUNE).with_options(frozen=frozen)
    it = iter(ds)
    assert list(it) == list(range(60))
    assert len(numbers) == 3
    assert it.tuning()["log"] == []


def test_the_tuning_of_a_pass_freezes_that_pass():
    ds = D.range(200).map(nap, num_parallel_calls=hr.AUTOTUNE).prefetch(hr.AUTOTUNE)
    it = iter(ds)
    list(it)
    again = iter(ds.with_options(frozen=it.tuning()))
    assert list(again) == list(range(200))
    assert again.tuning()["log"] == []


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only as calls take it."""
    now = [0]
    monkeypatch.setattr("headrace.execute.autotune.perf_counter_ns", lambda: now[0])
    return now


def climb_on(clock, rate, *, cpu=0.0, cpus=2, calls=5000, waiting=1.0):
    climb = Climb(Tuner(cpus), "stage")
    for _ in range(calls):
        width = max(1, climb.width)
        wall = width / rate(width) * 1e9
        step = int(wall / width)
        clock[0] += step
        climb.worked(1, int(wall), int(cpu * wall))
        climb.delivered(1, 1, int(waiting * step))
    return climb


def test_it_climbs_while_more_is_faster(clock):
    assert climb_on(clock, lambda n: 100 * min(n, 50)).width in range(50, 101)


def test_it_goes_back_where_more_does_not_help(clock):
    climb = climb_on(clock, lambda n: 500.0)
    assert climb.width == 0
    assert any("made" in entry["why"] for entry in climb.tuner.report()["log"])


def test_it_rests_where_the_consumer_does_not_wait(clock):
    assert climb_on(clock, lambda n: 100 * n, waiting=0.01).width == 0


def test_calls_that_compute_get_no_more_than_the_processors(clock):
    assert climb_on(clock, lambda n: 100 * n, cpu=1.0, cpus=4).width == 4


def test_memory_is_shared_and_whoever_waits_is_told():
    memory = Memory(100)
    told = []
    memory.take(90)
    assert memory.has_room(10, 1, lambda: told.append(1))
    assert not memory.has_room(11, 2, lambda: told.append(2))
    memory.take(-50)
    assert told == [2]
    assert memory.has_room(11, 2, lambda: told.append(2))
    memory.take(-1)
    assert told == [2]


def test_a_ram_budget_holds_for_all_stages_together():
    held = []

    def large(x):
        return np.full(1 << 17, int(x))

    ds = D.range(60).map(large, num_parallel_calls=8).prefetch(40).map(lambda x: x, num_parallel_calls=4).prefetch(40)
    it = iter(ds.with_options(hr.Options(ram_budget=8 << 20)))
    for _ in it:
        time.sleep(0.002)
        held.append(it._run.memory.used if it._run is not None else 0)
    assert max(held) <= (8 << 20) + 4 * (1 << 20)  # one piece of work a stage is always allowed
    assert len(held) == 60


def test_everything_is_given_back_at_the_end():
    it = iter(D.range(50).map(lambda x: np.zeros(1000), num_parallel_calls=4).prefetch(5))
    next(it)
    memory = it._run.memory
    it.close()
    assert memory.used == 0


def test_budgets_are_read_from_the_container(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "CGROUPS", tmp_path)
    monkeypatch.setattr(budget.os, "sched_getaffinity", lambda _: set(range(64)))
    budget.cpus.cache_clear()
    try:
        assert budget.cpus() == 64
        budget.cpus.cache_clear()
        (tmp_path / "cpu.max").write_text("250000 100000\n")
        assert budget.cpus() == 3
        budget.cpus.cache_clear()
        (tmp_path / "cpu.max").write_text("max 100000\n")
        assert budget.cpus() == 64
    finally:
        budget.cpus.cache_clear()
    (tmp_path / "memory.max").write_text(f"{1 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{1 << 29}\n")
    assert budget.free_memory() <= 1 << 29
