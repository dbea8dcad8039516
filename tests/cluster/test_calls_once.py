"""Functions that cost something: how many run at a time in a cluster, and that none runs twice without a failure."""

import collections
import threading
import time

import pytest

import headrace as hr
from headrace.cluster.splits import part_of_calls

D = hr.Dataset
LOCK, ACTIVE = threading.Lock(), collections.Counter()


def noted(folder):
    """A function that notes each call, and how many run in its process at that time."""

    def costly(x):
        from tests.cluster import test_calls_once as shared

        with shared.LOCK:
            shared.ACTIVE["now"] += 1
            with (folder / "calls.txt").open("a") as log:
                log.write(f"{int(x)} {shared.ACTIVE['now']}\n")
        time.sleep(0.002)  # long enough for others to begin
        with shared.LOCK:
            shared.ACTIVE["now"] -= 1
        return x

    return costly


def calls(folder):
    return [tuple(map(int, line.split())) for line in (folder / "calls.txt").read_text().splitlines()]


def made(folder):
    return collections.Counter(row for row, _ in calls(folder))


@pytest.mark.parametrize("threads", [None, 4])
def test_a_function_runs_once_for_each_row_though_workers_come_one_after_another(tmp_path, threads):
    with hr.cluster.local(3) as workers:  # which are still being started
        ds = D.range(300).map(noted(tmp_path), mode="eager", num_parallel_calls=threads)
        assert sorted(map(int, ds.distribute_over(workers, splits=6))) == list(range(300))
    assert made(tmp_path) == collections.Counter(range(300))


def test_a_function_runs_once_for_each_row_though_a_worker_joins(tmp_path):
    with hr.cluster.local(1) as workers:
        got = []
        for row in D.range(300).map(noted(tmp_path), mode="eager").distribute_over(workers, splits=6, cycle_length=2):
            got.append(int(row))
            if len(got) == 20:
                workers.resize(2)
                workers.wait_for(2)
        assert sorted(got) == list(range(300))
    assert made(tmp_path) == collections.Counter(range(300))


def test_parallel_calls_are_a_total_of_the_cluster(tmp_path):
    with hr.cluster.local(1) as workers:
        ds = D.range(120).map(noted(tmp_path), mode="eager", num_parallel_calls=4)
        list(ds.distribute_over(workers, splits=4))
    assert max(active for _, active in calls(tmp_path)) <= 4


@pytest.mark.parametrize(("calls", "splits", "part"), [(64, 8, 8), (8, 8, 1), (7, 2, 3), (2, 8, 1)])
def test_the_part_of_a_split(calls, splits, part):
    plan = D.range(9).map(lambda x: x + 1, num_parallel_calls=calls).filter(lambda x: x > 2)._node
    assert part_of_calls(plan, splits).input.num_parallel_calls == part


def test_autotune_stays_with_each_worker():
    plan = D.range(9).map(lambda x: x + 1, num_parallel_calls=hr.AUTOTUNE)._node
    assert part_of_calls(plan, 8) is plan
