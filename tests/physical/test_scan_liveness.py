"""Parallel scans end: they wait neither for each other, nor for a pass they run in, nor for threads of another process.

Each case runs in a thread of its own, so that a deadlock is a failure and not a suite that hangs.
"""

import os
import signal
import threading

import numpy as np
import pytest

import headrace as hr
from headrace.iterator import Epochs, Iterator, Settings
from headrace.testing import our_threads

D = hr.Dataset
ROWS, WAIT_SECONDS = 3_000, 300


@pytest.fixture
def lines(tmp_path):
    """Numbers in two files: a small one alone is read in order."""
    paths = [tmp_path / f"{i}.txt" for i in range(2)]
    for i, path in enumerate(paths):
        path.write_text("".join(f"{n}\n" for n in range(i * ROWS // 2, (i + 1) * ROWS // 2)))
    return lambda: hr.TextLineDataset([str(path) for path in paths])


def passing(ds, processors=4):
    options = hr.Options(cpu_budget=processors, ram_budget=1 << 20)
    return Iterator(ds.with_options(options)._node, Epochs(), Settings(tiny_cuts=True))


def within_time(work):
    """The result of a function that must end."""
    done = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(WAIT_SECONDS)
    assert done, "it hangs, or has failed"
    return done[0]


def consumed(ds, processors=4):
    """All rows of a pass."""

    def work():
        with passing(ds, processors) as it:
            first = next(it)
            assert it._run.pooled or processors == 1, "nothing was scanned in parallel"
            return [first, *it]

    return within_time(work)


@pytest.mark.parametrize("processors", [1, 2, 16])
def test_an_input_that_is_read_to_its_end_first_does_not_starve_the_other(lines, processors):
    pairs = consumed(D.zip(lines(), lines().shuffle(ROWS, seed=1)), processors)
    assert [int(a) for a, _ in pairs] == list(range(ROWS))
    assert sorted(int(b) for _, b in pairs) == list(range(ROWS))
    assert our_threads() == []


def test_one_file_may_be_read_by_many_scans_of_one_pass(lines):
    inputs = [lines().map(hr.text.upper).skip(100 * i).take(50) for i in range(12)]
    rows = consumed(D.zip(*inputs), processors=2)
    assert [int(row[11]) for row in rows] == [*range(1_100, 1_150)]
    assert our_threads() == []


def test_a_pass_within_a_function_of_another_ends(lines):
    """The consumer of the inner pass is a worker or the consumer of the outer one; it helps with its own cuts alone."""

    def total(line):
        with passing(lines(), 2) as inner:
            return np.int64(sum(int(each) for each in inner) + int(line))

    rows = consumed(lines().take(6).map(total, num_parallel_calls=3, mode="eager"))
    assert rows == [ROWS * (ROWS - 1) // 2 + i for i in range(6)]
    assert our_threads() == []


def test_passes_that_wait_for_each_other_in_turn_end(lines):
    """Twenty consumers on two workers' worth of CPUs, each taking a row when another has."""

    def work():
        passes = [passing(lines().map(hr.text.upper), 2) for _ in range(20)]
        rows = [tuple(int(next(it)) for it in passes) for _ in range(200)]
        for it in passes:
            it.close()
        return rows

    assert within_time(work) == [(i,) * 20 for i in range(200)]
    assert our_threads() == []


FORKED = {
    "scan": lambda lines: lines().map(hr.text.upper),
    "zip with a shuffle": lambda lines: D.zip(lines(), lines().shuffle(500, seed=1)).map(lambda a, b: (b, a)),
    "lanes": lambda lines: D.range(3).interleave(lambda _: lines(), cycle_length=3),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("taken", [1, 7, 60])
@pytest.mark.parametrize("name", FORKED)
def test_a_scan_that_runs_while_the_process_forks_goes_on_in_both(lines, name, taken):
    def rest(it):
        return repr([np.asarray(batch).tolist() for batch in it])

    with passing(FORKED[name](lines).batch(16)) as it:
        for _ in range(taken):
            next(it)
        assert it._run.pooled
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(WAIT_SECONDS)
            try:
                with os.fdopen(writer, "w") as pipe:
                    pipe.write(rest(it))
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            seen_by_child = pipe.read()
        assert os.waitpid(child, 0)[1] == 0
        assert seen_by_child == rest(it)
    assert our_threads() == []
