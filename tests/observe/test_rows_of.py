"""rows_of, skipping and replay: what the model saw, from the plan and its seeds alone."""

import json
import random
import sqlite3
import threading

import numpy as np
import pytest

import headrace as hr
from tests.observe import provenance

D = hr.Dataset


@pytest.mark.parametrize("name", provenance.PIPELINES)
def test_rows_are_those_that_a_logged_run_delivered(name):
    provenance.check_rows(name, 3, random.Random(name))


@pytest.mark.parametrize("name", provenance.PIPELINES)
def test_skipping_steps_keeps_the_rest_bit_equal(name):
    provenance.check_skipped(name, 4, random.Random(name))


@pytest.mark.parametrize("name", provenance.REPLAYED)
def test_replay_has_the_inputs_draws_and_results_of_the_run(name):
    provenance.check_replay(name, 8, random.Random(name))


def test_records_of_files_have_a_file_a_number_and_an_offset(tmp_path):
    path = tmp_path / "a.tfrecord"
    with hr.io.TFRecordWriter(path) as writer:
        for size in (3, 10, 1):
            writer.write(b"x" * size)
    (first, second, third) = hr.TFRecordDataset(path).batch(3).rows_of(0)
    assert [row.file for row in (first, second, third)] == [str(path)] * 3
    assert [(row.number, row.offset) for row in (first, second, third)] == [(0, 0), (1, 19), (2, 45)]
    assert str(second) == f"{path}, record 1, byte 19"


@pytest.mark.parametrize("about", [{"key": "id"}, {"key": "name"}, {"key": "id", "partitions": 3}, {}])
def test_rows_of_a_database_have_their_key(tmp_path, about):
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        db.executemany("INSERT INTO item VALUES (?, ?)", [(10 + 3 * i, f"n{i:03}") for i in range(90)])
    ds = D.from_sql(f"sqlite:///{tmp_path}/shop.db", "SELECT * FROM item", **about).shuffle(20, seed=1).batch(4)
    batch = list(ds)[11]
    found = ds.rows_of(11)
    assert [row.key for row in found] == (batch[about["key"]].tolist() if about else [None] * 4)
    assert str(found).count(", key ") == (4 if about else 0)


def test_rows_of_an_indexed_database_have_their_key(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)")
        db.executemany("INSERT INTO item VALUES (?)", [(5 + i,) for i in range(90)])
    ds = D.from_sql(f"sqlite:///{tmp_path}/shop.db", "SELECT * FROM item", key="id", index=True).shuffle(seed=1)
    assert [row.key for row in ds.batch(4).rows_of(7)] == ds.batch(4)[7]["id"].tolist()


def test_step_10_to_the_6_is_found_by_number():
    calls = []
    ds = D.range(10**9).shuffle(seed=1).map(lambda x: calls.append(x) or x).repeat().batch(64)
    found = ds.rows_of(10**6)
    assert len(found) == 64 and calls == []
    assert [row.number for row in found] == [int(ds.debug(10**6, row)) for row in range(64)]


def test_a_state_says_epoch_seeds_and_the_last_step():
    ds = D.range(50).shuffle(10).batch(4)
    list(ds)
    it = iter(ds)
    for _ in range(5):
        batch = next(it)
    state = json.loads(json.dumps(it.state()))
    another = D.range(50).shuffle(10).batch(4)  # draws another seed
    found = another.rows_of(state=state)
    assert (found.epoch, found.step) == (1, 4)
    assert [row.number for row in found] == batch.tolist()
    assert another.debug(state=state).tolist() == batch.tolist()


def test_functions_that_do_not_decide_about_rows_are_not_called():
    ds = D.range(20).map(lambda x: 1 // 0, mode="eager").shuffle(5, seed=1).batch(4)
    assert len(ds.rows_of(2)) == 4


def test_nested_datasets_in_memory_have_the_record_of_their_parent():
    ds = D.range(3).flat_map(lambda n: D.from_tensors(n).repeat(int(n) + 1)).batch(4)
    assert [row.number for row in ds.rows_of(0)] == [0, 1, 1, 2]


def test_zipped_datasets_have_records_of_all_sources():
    ds = D.zip(D.range(10), D.range(100, 110).shuffle(5, seed=1)).batch(2)
    first, second = next(iter(ds))
    assert [row.number for row in ds.rows_of(0)] == [*first.tolist(), *(second - 100).tolist()]


@pytest.mark.parametrize("step", [5, 10**6])
def test_there_is_no_step_after_the_last(step):
    with pytest.raises(IndexError, match=f"step {step}"):
        D.range(10).batch(2).rows_of(step)
    with pytest.raises(IndexError, match=f"before step {step}"):
        D.range(10).filter(lambda x: x >= 0).batch(2).rows_of(step)
    with pytest.raises(IndexError, match=f"before step {step}"):
        D.range(10).batch(2).debug(step)


def test_operations_that_hide_their_rows_are_named():
    with pytest.raises(hr.HeadraceError, match=r"followed through window .*test_rows_of.py"):
        D.range(10).window(2).rows_of(0)


def test_exclude_during_a_pass_is_kept_in_its_state():
    def make():
        return D.range(60).shuffle(10, seed=1).map(lambda x: x * 2, num_parallel_calls=2).batch(4).prefetch(2)

    everything = [batch.tolist() for batch in make()]
    it = iter(make())
    seen = [next(it).tolist() for _ in range(3)]
    it.exclude([4, 5, 9, 14, 99])
    seen += [next(it).tolist() for _ in range(3)]
    state = json.loads(json.dumps(it.state()))
    assert (state["delivered"], state["exclude"]) == (8, [9, 14, 99])
    rest = [batch.tolist() for batch in it]
    assert seen + rest == [b for step, b in enumerate(everything) if step not in (4, 5, 9, 14)]
    assert [batch.tolist() for batch in make().iterator(state=state)] == rest
    with pytest.raises(ValueError, match="step 2 was delivered already"):
        make().iterator(state=state).exclude([2])


def test_exclude_reaches_a_feed():
    it = iter(D.range(6).batch(2).to_torch())
    it.exclude([1])
    assert [batch.tolist() for batch in it] == [[0, 1], [4, 5]]
    assert set(it.tuning()) == {"chosen", "log"}


def test_debug_runs_on_the_calling_thread_and_raises_what_the_function_raises():
    threads = []

    def fn(x):
        threads.append(threading.current_thread())
        return [10, 20][x]

    ds = D.range(8).map(fn, num_parallel_calls=2).batch(4)
    assert ds.debug(step=0, row=1) == 20
    with pytest.raises(IndexError, match="list index out of range") as caught:
        ds.debug(step=1, row=1)
    assert caught.traceback[-1].name == "fn"
    assert threads == [threading.main_thread()] * 2


def test_debug_says_which_rows_a_batch_has():
    ds = D.range(10).batch(4)
    with pytest.raises(IndexError, match="4 rows, there is no row 4"):
        ds.debug(0, 4)
    with pytest.raises(IndexError, match="no row 3 at step 2"):
        ds.debug(2, 3)
    with pytest.raises(hr.HeadraceError, match="leave out row="):
        D.range(10).filter(lambda x: x > 2).debug(0, 0)


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("mode", ["auto", "eager"])
def test_an_error_replays_its_call(threads, mode):
    seen = []

    def fn(x, rng):
        seen.append((int(x), float(rng.normal())))
        return [1] * (1 // (int(x) - 12))

    ds = D.range(20).shuffle(6, seed=1).random_map(fn, seed=2, num_parallel_calls=threads, mode=mode).batch(1)
    errors = []
    it = iter(ds)
    for _ in range(20):
        try:
            next(it)
        except hr.ElementError as error:
            errors.append(error)
    failed = next(error for error in errors if isinstance(error.__cause__, ZeroDivisionError))
    call = next(call for call in seen if call[0] == 12)
    seen.clear()
    with pytest.raises(ZeroDivisionError):
        failed.replay()
    assert seen == [call]


def test_an_error_of_a_chain_of_maps_replays_the_functions_before_it():
    ds = D.range(10).map(lambda x: x + 1).map(lambda x: np.array([1, 2, 3])[x])
    it = iter(ds)
    next(it), next(it)
    with pytest.raises(hr.ElementError) as caught:
        next(it)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        caught.value.replay()


def test_an_error_without_a_function_says_what_to_do():
    error = hr.ElementError("gone", operation="TFRecordDataset", ordinal=3)
    with pytest.raises(hr.HeadraceError, match=r"ds\.debug\(step=\.\.\.\)"):
        error.replay()
