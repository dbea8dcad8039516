"""Workers that die, hang and are cut off; clusters that grow and shrink: the exact rest comes, from somewhere else."""

import gc
import json
import os
import signal
import threading

import numpy as np
import psutil
import pytest

import headrace as hr
from headrace.testing import same

D = hr.Dataset


def square(x):
    return int(x) ** 2


def rows(n=400):
    return D.range(n).shuffle(seed=1).map(square, mode="eager").filter(lambda x: x % 7 > 0).batch(3)


def assert_same(got, want):
    assert len(got) == len(want)
    assert all(same(a, b) for a, b in zip(got, want, strict=True))


def expected(ds):
    from headrace import reference

    return [row.value for row in reference.run(ds._node)]


@pytest.fixture(scope="module")
def mortal_workers():
    with hr.cluster.local(2, timeout=12, patience=300) as found:
        yield found


@pytest.fixture
def cluster(mortal_workers):
    """Two workers, whatever became of those before them."""
    mortal_workers.resize(2)
    mortal_workers.wait_for(2)
    return mortal_workers


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_dies_or_hangs_is_replaced_and_its_splits_go_on(cluster, fault):
    ds = rows().distribute_over(cluster, splits=5)
    want = expected(ds)
    it = iter(ds)
    got = [next(it) for _ in range(10)]
    os.kill(cluster.members()[0].handle, fault)
    got += list(it)
    assert_same(got, want)
    cluster.wait_for(2)


def test_all_workers_may_die_at_once_again_and_again(cluster):
    ds = rows().distribute_over(cluster, splits=4)
    want = expected(ds)
    got = []
    it = iter(ds)
    for row in it:
        got.append(row)
        if len(got) in (5, 50):
            for member in cluster.members():
                os.kill(member.handle, signal.SIGKILL)
    assert_same(got, want)


def test_a_trainer_that_starts_again_goes_on_from_its_state_on_another_cluster(cluster, workers):
    ds = rows().distribute_over(cluster, splits=4)
    want = expected(ds)
    with ds.iterator() as it:
        got = [next(it) for _ in range(20)]
        state = json.loads(json.dumps(it.state()))
    assert_same(got + list(rows().distribute_over(workers, splits=4).iterator(state=state)), want)


def test_workers_join_and_leave_while_a_pass_runs(cluster):
    ds = rows(2000).distribute_over(cluster, splits=6)
    want = expected(ds)
    got = []
    for row in ds:
        got.append(row)
        if len(got) == 20:
            cluster.resize(3)
            cluster.wait_for(3)
        if len(got) == 60:
            cluster.resize(1)
    assert_same(got, want)


def test_a_split_that_no_worker_survives_is_an_error_that_says_so(cluster):
    def fatal(x):
        if x == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    ds = D.range(60).map(fatal, mode="eager").distribute_over(cluster, splits=2)  # the worker with 1 takes 0 along, too
    with pytest.raises(hr.WorkerError, match=r"split \d was lost with \d+ workers at its row 0"):
        list(ds)


def test_errors_of_elements_keep_their_places_and_carry_the_workers_traceback(processes):
    def picky(x):
        if x % 10 == 3:
            raise ValueError(f"bad {x}")
        return x

    local = D.range(30).map(picky, mode="eager")
    ds = local.distribute_over(processes, splits=4)
    it, got, errors = iter(ds), [], []
    while True:
        try:
            got.append(int(next(it)))
        except StopIteration:
            break
        except hr.ElementError as error:
            errors.append(error)
    assert got == [x for x in range(30) if x % 10 != 3]
    assert [type(error.__cause__) for error in errors] == [ValueError] * 3
    notes = "\n".join(errors[0].__notes__)
    assert "in picky" in notes and "raised by worker 127.0.0.1:" in notes


def test_what_ends_a_pass_names_the_worker(processes):
    def leave(x):
        raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:
        list(D.range(4).map(leave, mode="eager").distribute_over(processes, splits=2))
    assert "raised by worker" in "\n".join(caught.value.__notes__)


def test_what_cannot_be_sent_is_named(processes):
    lock = threading.Lock()
    ds = D.range(4).map(lambda x: (lock, x)[1], mode="eager").distribute_over(processes, splits=2)
    with pytest.raises(TypeError, match=r"cannot be sent to a worker.*lock"):
        list(ds)


def threads_of_python():
    """Without those that gRPC has started for other tests' workers, which Python forgets at any time."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}


def test_nothing_stays_behind():
    gc.collect()
    me = psutil.Process()
    processes, files, threads = set(me.children()), me.num_fds(), threads_of_python()
    cluster = hr.cluster.local(2)
    it = iter(D.range(100).distribute_over(cluster, splits=3))
    next(it)
    started = set(me.children()) - processes
    assert len(started) == 2
    it.close()
    cluster.close()
    assert not any(process.is_running() for process in started)
    assert threads_of_python() == threads
    del it, cluster
    gc.collect()
    assert me.num_fds() <= files + 2  # gRPC keeps a poller for all there will be


def test_an_unreferenced_cluster_ends():
    me = psutil.Process()
    before = set(me.children())
    cluster = hr.cluster.local(1)
    cluster.wait_for(1)
    started = set(me.children()) - before
    assert len(started) == 1
    del cluster
    gc.collect()
    assert psutil.wait_procs(started, timeout=300)[1] == []


def test_without_workers_a_pass_says_why_it_does_not_go_on():
    why = pytest.raises(hr.WorkerError, match=r"no worker for 0 seconds: 127.0.0.1:9: ")
    with hr.cluster.addresses(["127.0.0.1:9"], timeout=1, patience=0.5) as cluster, why:
        list(D.range(3).distribute_over(cluster, splits=2))


def test_a_closed_cluster_is_refused(workers):
    cluster = hr.cluster.local(1)
    cluster.close()
    with pytest.raises(hr.WorkerError, match="closed"):
        list(D.range(3).distribute_over(cluster, splits=2))
    with pytest.raises(TypeError, match="belongs to the process"):
        import pickle

        pickle.dumps(workers)


def test_two_trainers_share_a_cluster(processes):
    ds = rows().distribute_over(processes, splits=3)
    want = expected(ds)
    its = [iter(ds), rows().distribute_over(processes, splits=3).iterator()]
    assert_same([next(its[0]) for _ in want], want)
    assert_same(list(its[1]), want)


def test_elements_of_every_kind_travel(processes):
    ds = D.from_tensor_slices(
        {
            "x": np.arange(24).reshape(12, 2),
            "b": np.arange(12) % 3 == 0,
            "s": [f"row {i}" for i in range(12)],
            "z": np.arange(12) * 1j,
            "t": np.arange("2026-01-01", "2026-01-13", dtype="datetime64[D]"),
        }
    )
    more = ds.map(lambda e: {**e, "l": np.arange(int(e["x"][0]) % 5), "o": frozenset([1])}, mode="eager")
    for each in (ds, ds.batch(5), more, more.map(lambda e: {k: v for k, v in e.items() if k != "o"}).ragged_batch(4)):
        assert_same(list(each.distribute_over(processes, splits=3)), list(each))
