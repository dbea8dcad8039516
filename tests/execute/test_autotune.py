"""AUTOTUNE: what it chooses, within which budget, and that it can be repeated."""

import gc
import json
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.execute import budget
from headrace.execute.budget import MemoryBudget
from headrace.execute.stages import workers
from headrace.execute.stages.autotune import Climb, Depth, Tuner
from headrace.execute.stages.run_delay import RunDelay
from headrace.execute.stages.workers import WorkerStream
from headrace.formats.shared.one_file import MAX_SMALL_FILE_BYTES
from headrace.iterator import Settings
from headrace.testing import check_transformation, our_threads

D = hr.Dataset
SCHEDULED = Path("/proc/thread-self/schedstat")


CALL_NANOSECONDS = 5_000_000
NAP_NANOSECONDS = 200_000


def nap(x):
    time.sleep(NAP_NANOSECONDS / 1e9)
    return x


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only as calls take it."""
    now = [0]
    monkeypatch.setattr("headrace.execute.stages.autotune.perf_counter_ns", lambda: now[0])
    return now


@pytest.fixture
def waiting_calls(clock, monkeypatch):
    """Real pipelines whose rows take 5 ms of waiting each, all calls of a stage at the same time.

    Returns the measurements that were replaced: rows, wall and CPU time of calls.
    """
    measured = []
    learn_work, learn_delivery = Climb.learn_work, Climb.learn_delivery

    def work(climb, rows, wall, cpu, delayed=0):
        measured.append((rows, wall, cpu, delayed))
        learn_work(climb, rows, rows * CALL_NANOSECONDS, 0)

    def deliver(climb, calls, rows, _):
        took = rows * CALL_NANOSECONDS // max(1, climb.width)
        clock[0] += took
        return learn_delivery(climb, calls, rows, took)

    monkeypatch.setattr(Climb, "learn_work", work)
    monkeypatch.setattr(Climb, "learn_delivery", deliver)
    return measured


def test_calls_that_wait_get_more_threads_than_there_are_processors(waiting_calls):
    ds = D.range(600).map(nap, num_parallel_calls=hr.AUTOTUNE)
    it = iter(ds.with_options(hr.Options(cpu_budget=2)))
    assert list(it) == list(range(600))
    tuning = it.tuning()
    assert tuning["chosen"]["/map"] > 2
    assert "the consumer waited" in str(tuning)
    assert waiting_calls
    assert all(wall >= rows * NAP_NANOSECONDS and cpu >= 0 <= delayed for rows, wall, cpu, delayed in waiting_calls)


def test_what_was_found_is_repeated_by_freezing_it():
    numbers, together = set(), threading.Barrier(3, timeout=300)

    def note(x):
        numbers.add(threading.get_ident())
        together.wait()
        return x

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


def climb_on(clock, rate, *, cpu=0.0, cpus=2, calls=5000, waiting=1.0, delayed=0.0):
    climb = Climb(Tuner(cpus), "stage")
    for _ in range(calls):
        width = max(1, climb.width)
        wall = width / rate(width) * 1e9
        step = int(wall / width)
        clock[0] += step
        climb.learn_work(1, int(wall), int(cpu * wall), int(delayed * wall))
        climb.learn_delivery(1, 1, int(waiting * step))
    return climb


def test_it_climbs_while_more_is_faster(clock):
    assert climb_on(clock, lambda n: 100 * min(n, 50)).width in range(50, 101)


def test_it_goes_back_where_more_does_not_help(clock):
    climb = climb_on(clock, lambda n: 500.0)
    assert climb.width == 0
    assert any("made" in entry["why"] for entry in climb.tuner.report()["log"])


def test_no_stage_tries_fewer_calls_in_the_first_second_of_a_pass(clock):
    """Two calls of an earlier pass, which keep both processors busy: half of them would be half as fast."""
    climb = Climb(Tuner(2, widths={"stage": 2}), "stage", 2)
    lowered = []
    for _ in range(400):
        clock[0] += 5_000_000
        climb.learn_work(1, 10_000_000, 10_000_000)
        if climb.learn_delivery(1, 1, 5_000_000) and climb.width < 2:
            lowered.append(clock[0])
    assert lowered and min(lowered) >= 1_000_000_000


def test_it_rests_where_the_consumer_does_not_wait(clock):
    assert climb_on(clock, lambda n: 100 * n, waiting=0.01).width == 0


def test_calls_that_compute_get_no_more_than_the_processors(clock):
    assert climb_on(clock, lambda n: 100 * n, cpu=1.0, cpus=4).width == 4


def test_calls_that_wait_for_a_processor_get_no_more_of_them(clock):
    assert climb_on(clock, lambda n: 100 * n, cpu=0.25, cpus=4, delayed=0.75).width == 4


def test_calls_that_sleep_on_a_busy_machine_may_be_many(clock):
    assert climb_on(clock, lambda n: 100 * min(n, 50), cpu=0.005, delayed=0.9).width >= 25


def test_calls_that_wait_for_pythons_lock_get_no_more_than_the_processors(clock):
    climb = Climb(Tuner(4), "stage")
    for _ in range(5000):
        width = max(1, climb.width)
        clock[0] += 10_000_000 // width  # it seems to help
        climb.learn_work(1, 10_000_000, 10_000_000 // width)
        climb.learn_delivery(1, 1, 10_000_000 // width)
    assert climb.width == 4


def test_a_thread_knows_how_long_it_waited_for_a_processor():
    clock = RunDelay()
    assert clock.since_last() >= 0
    assert clock.since_last() == 0, "it has just been asked"


@pytest.mark.skipif(not SCHEDULED.exists(), reason="Linux alone tells")
def test_what_is_said_of_a_thread_is_what_the_system_says():
    def waited():
        return int(SCHEDULED.read_text().split()[1])

    before = waited()
    said = _native.run_delay()
    assert before <= said <= waited()


def test_memory_is_shared_and_waiting_stages_are_woken():
    memory = MemoryBudget(100)
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


def test_stages_that_hold_each_other_up_climb_in_turn(clock):
    """A row is through when the stage with fewer calls has made it: one stage alone gains nothing by more of them."""
    tuner, took = Tuner(2), 5_000_000
    stages = [Climb(tuner, "first"), Climb(tuner, "second")]
    for _ in range(5000):
        step = took // min(max(1, each.width) for each in stages)
        clock[0] += step
        for each in stages:
            each.learn_work(1, took, 0)
            each.learn_delivery(1, 1, step)
    assert min(tuner.report()["chosen"].values()) >= 4
    assert list(D.range(400).map(nap, num_parallel_calls=hr.AUTOTUNE).map(nap, num_parallel_calls=hr.AUTOTUNE)) == list(
        range(400)
    )


@pytest.fixture
def restless(monkeypatch):
    """Every stage that is tuned changes its number all the time."""
    dice = random.Random(1)

    def changed(climb, *_):
        before, climb.width = climb.width, dice.randrange(min(4, climb.most + 1))
        return climb.width != before

    monkeypatch.setattr(Climb, "learn_delivery", changed)


TUNED = {
    "map": lambda: D.range(40).map(lambda x: x * 2, num_parallel_calls=hr.AUTOTUNE),
    "eager map": lambda: D.range(40).map(lambda x: 1 // (int(x) % 9 - 1), num_parallel_calls=hr.AUTOTUNE),
    "two maps": lambda: (
        D.range(40)
        .map(lambda x: int(x) + 1, num_parallel_calls=hr.AUTOTUNE)
        .map(lambda x: int(x) + 1, num_parallel_calls=hr.AUTOTUNE)
        .batch(3)
    ),
    "filter": lambda: D.range(40).filter(lambda x: bool(x % 3), num_parallel_calls=hr.AUTOTUNE),
    "interleave": lambda: D.range(6).interleave(
        lambda n: D.range(n + 7), cycle_length=3, block_length=2, num_parallel_calls=hr.AUTOTUNE
    ),
    "final prefetch": lambda: D.range(40).shuffle(7).batch(3),
}


@pytest.mark.parametrize("name", TUNED)
def test_what_is_tuned_makes_no_difference_to_elements_and_states(restless, name):
    check_transformation(TUNED[name](), cuts=5, epochs=2)


def test_a_restless_order_that_is_free_stays_whole(monkeypatch):
    widths = iter([2, 1, 4, 1, 3] * 1000)

    def changed(climb, *_):
        climb.width = next(widths)
        return True

    monkeypatch.setattr(Climb, "learn_delivery", changed)
    ds = D.range(300).map(lambda x: int(x), num_parallel_calls=hr.AUTOTUNE, deterministic=False)
    it = iter(ds)
    first = [next(it) for _ in range(100)]
    assert sorted(first + list(ds.iterator(state=it.state()))) == list(range(300))
    it.close()


def large_files(tmp_path):
    """Files which are too large to be read without a thread."""
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text("".join(f"{i}-{j:<{2 * MAX_SMALL_FILE_BYTES // 800}}\n" for j in range(800)))
    return sorted(map(str, tmp_path.glob("*.txt")))


def test_readers_of_slow_files_get_threads_and_keep_the_order(tmp_path, waiting_calls):
    names = large_files(tmp_path)

    def lines(**how):
        return hr.TextLineDataset(names, buffer_size=2 * MAX_SMALL_FILE_BYTES // 24, **how)

    # One processor: no scan reads ahead, so only the tuner can hide the reads.
    it = iter(lines(num_parallel_reads=hr.AUTOTUNE).with_options(hr.Options(cpu_budget=1)))
    assert list(it) == list(lines(num_parallel_reads=4))
    tried = [entry["to"] for entry in it.tuning()["log"] if entry["stage"] == "/TextLineDataset"]
    assert max(tried, default=0) > 0


def test_interleave_gets_threads_where_children_wait(waiting_calls):
    def children(fn):
        return D.range(4).interleave(lambda n: D.range(150).map(fn), cycle_length=4, num_parallel_calls=hr.AUTOTUNE)

    it = iter(children(nap))
    assert list(it) == [i for i in range(150) for _ in range(4)]
    assert it.tuning()["chosen"]["/interleave"] > 1
    frozen = iter(children(nap).with_options(frozen=it.tuning()))
    assert list(frozen) == [i for i in range(150) for _ in range(4)]
    assert [entry for entry in frozen.tuning()["log"] if entry["stage"] == "/interleave"] == []


def sized(n):
    return D.range(n).flat_map(lambda i: D.from_tensors(np.full(10_000 + int(i) % 3, i)))


def shuffled(n=60, budget=4 << 20, **how):
    return sized(n).shuffle(hr.AUTOTUNE, seed=3, **how).map(lambda x: x[0]).with_options(hr.Options(ram_budget=budget))


def test_a_shuffle_takes_half_the_budget():
    it = iter(shuffled())
    first = next(it)
    size = it.tuning()["chosen"]["shuffle"]
    assert size == (2 << 20) // (80_004 + 64)  # by the first two rows, and what a row costs beside
    assert first < size
    assert sorted([first, *it]) == list(range(60))
    assert "rows of about 80,068 bytes in 2 MB" in str(it.tuning())


def test_the_size_of_a_shuffle_belongs_to_its_states_whatever_memory_there_is_later():
    whole = list(shuffled().repeat(3))
    it = iter(shuffled().repeat(3))
    head = [next(it) for _ in range(25)]
    state = json.loads(json.dumps(it.state()))
    assert head == whole[:25]
    assert list(shuffled(budget=1 << 30).repeat(3).iterator(state=state)) == whole[25:]
    assert list(shuffled(budget=1 << 30).repeat(3).prefetch(hr.AUTOTUNE).iterator(state=state)) == whole[25:]
    it.close()


def test_the_size_of_a_shuffle_belongs_to_the_dataset(monkeypatch):
    monkeypatch.setattr(budget, "MIN_BUDGET_BYTES", 1 << 20)
    monkeypatch.setattr(budget, "free_memory", lambda: 4 << 20)

    def build():
        return sized(60).shuffle(hr.AUTOTUNE, seed=3).map(lambda x: x[0])

    ds, again = build(), build()
    epochs = [list(ds) for _ in range(3)]
    it = iter(again)
    next(it)
    state = it.state()
    it.close()
    monkeypatch.setattr(budget, "free_memory", lambda: 1 << 30)
    resumed = build()
    assert list(resumed.iterator(state=state)) == epochs[0][1:]
    assert [list(resumed), list(resumed)] == epochs[1:]


def test_the_size_of_a_shuffle_can_be_frozen():
    it = iter(shuffled())
    want = list(it)
    assert list(shuffled(budget=1 << 30).with_options(frozen=it.tuning())) == want
    assert list(shuffled(budget=1 << 30)) != want


@pytest.mark.parametrize("settings", [Settings(optimise=False), Settings(block_rows=1), Settings(block_rows=50)])
def test_blocks_make_no_difference_to_the_size_of_a_shuffle(settings):
    assert list(shuffled()._iterator(settings)) == list(shuffled())


def test_buffers_that_are_open_at_a_time_share_their_part():
    ds = D.range(4).interleave(lambda i: sized(60).shuffle(hr.AUTOTUNE), cycle_length=4).map(lambda x: x[0])
    it = iter(ds.with_options(hr.Options(ram_budget=4 << 20)))
    next(it)
    (size,) = [n for stage, n in it.tuning()["chosen"].items() if stage.endswith("shuffle")]
    assert size == (2 << 20) // 4 // (80_000 + 64)
    it.close()


def test_where_rows_have_numbers_everything_is_shuffled():
    assert sorted(D.range(1000).shuffle(hr.AUTOTUNE)) == list(range(1000))
    assert D.range(1000).shuffle(hr.AUTOTUNE, seed=1)[5] == D.range(1000).shuffle(seed=1)[5]


def images(rows=3000):
    return D.from_tensor_slices(np.ones((rows, 20_000), np.float32)).map(lambda x: np.sqrt(x) * 2).batch(8)


@pytest.fixture
def compute(clock, monkeypatch):
    """A consumer's step of 5 ms. Rows that the consumer's thread makes take it 5 ms each, others none."""
    monkeypatch.setattr(workers, "perf_counter_ns", lambda: clock[0])
    made_here = WorkerStream._made_here

    def make(stream, want):
        made = made_here(stream, want)
        clock[0] += sum(made) * CALL_NANOSECONDS
        return made

    def step():
        clock[0] += CALL_NANOSECONDS

    monkeypatch.setattr(WorkerStream, "_made_here", make)
    return step


def test_a_forgotten_prefetch_is_added_where_the_consumer_computes(compute):
    ds = images(300).repeat()
    it = ds._iterator(Settings(block_rows=1))
    for _ in range(200):
        next(it)
        compute()
    tuning = it.tuning()
    it.close()
    (tried,) = [entry for entry in tuning["log"] if entry["stage"] == "final prefetch"]
    assert (tried["from"], tried["to"]) == (0, 1)
    assert "the consumer waited 50% of the time" in tried["why"]
    assert tuning["chosen"]["final prefetch"] == 1
    assert "a prefetch of its own" in ds.explain()
    again = iter(ds.with_options(frozen={"chosen": {"final prefetch": 1}, "log": []}))
    next(again)
    assert [name for name in our_threads() if "prefetch" in name]
    again.close()


@pytest.mark.parametrize(("waiting", "ahead"), [(1.0, 0), (0.5, 1), (0.02, 0)])
def test_it_is_where_the_consumer_both_waits_and_computes(clock, waiting, ahead):
    climb = Climb(Tuner(2), "stage", most=1, hides=True)
    for _ in range(1000):
        took = 5_000_000 if climb.width else 10_000_000
        clock[0] += took
        climb.learn_delivery(1, 1, int(waiting * took))
    assert climb.width == ahead


def test_a_number_from_an_earlier_pass_that_helps_no_more_is_given_up(clock):
    tuner = Tuner(16, widths={"stage": 8})
    climb = Climb(tuner, "stage", tuner.widths["stage"])
    for _ in range(20_000):
        clock[0] += 1_000_000
        climb.learn_work(1, max(1, climb.width) * 1_000_000, 900_000)
        climb.learn_delivery(1, 1, 1_000_000)
    assert climb.width <= 1
    assert tuner.widths["stage"] == climb.width


def test_the_next_pass_begins_with_what_proved_good(waiting_calls):
    ds = D.range(400).map(nap, num_parallel_calls=hr.AUTOTUNE)
    it = iter(ds)
    list(it)
    assert it.tuning()["chosen"]["/map"] > 1
    again = iter(ds)
    next(again)
    assert again.tuning()["chosen"]["/map"] > 1
    assert not again.tuning()["log"]
    again.close()


def generated():
    return D.from_generator(lambda: iter(range(9)), output_signature=hr.TensorSpec((), int))


@pytest.mark.parametrize(
    "ds",
    [
        generated().batch(2),
        D.range(9).map(lambda x: print(end="") or x),
        images(8).prefetch(1),
        images(8).prefetch(1).with_options(hr.Options(cpu_budget=1)),
        images(8).with_options(hr.Options(inject_prefetch=False)),
        D.range(9).map(lambda x: x + 1, num_parallel_calls=2),
    ],
    ids=["generator", "effects", "has one", "has one and options", "turned off", "threads of its own"],
)
def test_it_is_never_where_it_would_show_or_was_not_wanted(ds):
    assert "a prefetch of its own" not in ds.explain()
    it = iter(ds)
    next(it)
    assert "final prefetch" not in it.tuning()["chosen"]
    it.close()


@pytest.mark.parametrize("end", ["close", "drop"])
def test_its_thread_ends_with_the_iterator(compute, end):
    it = images(300).repeat()._iterator(Settings(block_rows=1))
    for _ in range(200):
        next(it)
        compute()
    assert [name for name in our_threads() if "prefetch" in name], it.tuning()
    if end == "close":
        it.close()
    del it
    gc.collect()
    assert our_threads() == []


def test_the_next_pass_begins_with_the_depth_that_a_prefetch_had():
    ds = D.range(9).map(lambda x: x + 1).prefetch(hr.AUTOTUNE)
    first = iter(ds)
    next(first)
    stage = "/prefetch depth"
    depth = first.tuning()["chosen"][stage]
    Depth(first._run.tuner, stage, depth).grow()
    first.close()
    again = iter(ds)
    next(again)
    assert again.tuning()["chosen"][stage] == 2 * depth
    assert not again.tuning()["log"]
    again.close()
