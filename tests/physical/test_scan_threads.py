"""How many workers a scan uses: decided by what their time goes into, not by the clock of this machine."""

import numpy as np
import pytest

import headrace as hr
from headrace.execute.pool import ScanPolicy
from headrace.physical.scan_threads import ScanThreads, Work

POLICY = ScanPolicy(evidence_nanoseconds=1000)
ALONE = Work(cpu=1000, nbytes=1000, rows=1000)


def workers(found=None, limit=16):
    return ScanThreads(POLICY, limit, {} if found is None else found, "scan")


def learn(scan, work, cuts=1000):
    """Let it learn this work for many cuts; return the numbers of workers that it chose in turn."""
    chosen = []
    for _ in range(cuts):
        scan.learn(work)
        if not chosen or chosen[-1] != scan.width:
            chosen.append(scan.width)
    return chosen


def test_workers_that_work_all_the_time_become_more():
    scan = workers()
    scan.begin(ALONE)
    assert learn(scan, Work(cpu=100, elapsed=105, rows=100)) == [4, 8, 16]


def test_workers_that_wait_for_the_gil_do_not_become_more():
    scan = workers()
    scan.begin(ALONE)
    assert learn(scan, Work(cpu=100, elapsed=200, rows=100)) == [4]


def test_workers_that_do_less_than_one_thread_are_given_up():
    found = {}
    scan = workers(found)
    scan.begin(ALONE)
    assert learn(scan, Work(cpu=200, elapsed=500, rows=100)) == [4, 0]
    assert scan.serial
    later = [workers(found).serial for _ in range(8)]
    assert later == [True, True, True, False, True, True, True, False], "threads are tried again in some passes"


def test_passes_that_end_before_a_decision_add_up():
    found = {}
    for number in range(100):
        scan = workers(found)
        scan.begin(ALONE if not number else Work())
        scan.learn(Work(cpu=200, elapsed=500, rows=100))
        if scan.serial:
            break
    assert number == 7, "two cuts of each of four workers"


def test_workers_that_wait_for_a_disk_or_a_cpu_become_more():
    scan = workers()
    scan.begin(ALONE)
    assert learn(scan, Work(cpu=10, elapsed=500, rows=10, disturbed=True)) == [4, 8, 16]


def test_rows_that_take_longer_than_the_first_ones_are_other_rows():
    scan = workers(limit=2)
    scan.begin(ALONE)
    assert learn(scan, Work(cpu=10_000, elapsed=10_100, rows=100)) == [2]
    assert not scan.serial


def test_the_next_pass_begins_with_what_was_found():
    found = {}
    scan = workers(found)
    scan.begin(ALONE)
    learn(scan, Work(cpu=100, elapsed=105, rows=100))
    again = workers(found)
    assert again.was_parallel
    assert again.width == 16
    again.begin(Work())
    assert learn(again, Work(cpu=200, elapsed=2000, rows=100))[-1] == 0, "the time of one thread is remembered, too"


@pytest.mark.parametrize("limit", [2, 3])
def test_no_more_than_allowed(limit):
    scan = workers(limit=limit)
    assert learn(scan, Work(cpu=100, elapsed=100, rows=100)) == [limit]


def test_a_second_pass_is_parallel_from_the_start_and_gives_the_same_rows(tmp_path):
    ds = hr.Dataset.from_tensor_slices(np.arange(20_000, dtype=np.int64))
    ds.save(tmp_path / "rows")
    again = hr.Dataset.load(tmp_path / "rows").map(lambda x: x * 2 + 1)
    first = [int(x) for x in again]
    assert first == [int(x) for x in again] == [2 * i + 1 for i in range(20_000)]


def test_a_few_cuts_are_no_evidence_that_workers_gain_nothing():
    scan = workers()
    scan.begin(ALONE)
    assert learn(scan, Work(cpu=2, elapsed=50, rows=1), cuts=400) == [4]
    assert learn(scan, Work(cpu=2, elapsed=50, rows=1), cuts=400) == [4, 0]
