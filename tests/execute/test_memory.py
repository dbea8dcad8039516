"""What the C library and the pool keep of freed memory while pipelines run, and afterwards."""

import gc
import platform
import subprocess
import sys

import numpy as np
import pytest
from tests.chaos.dropped import KINDS, await_memory, begun

import headrace as hr
from headrace import _native

CODE = """
import headrace as hr
from headrace.execute.budget import keep_heap
assert keep_heap.cache_info().currsize == 0, "nothing is changed by the import"
next(iter(hr.Dataset.range(3)))
assert keep_heap.cache_info().currsize == 1
print(keep_heap())
"""


@pytest.fixture(scope="module", autouse=True)
def _no_other_pass():
    """End the passes that earlier tests left to the garbage collector: idle memory is kept for a pass that runs."""
    gc.collect()
    for each in gc.get_objects():
        if issubclass(type(each), hr.Iterator):
            each.close()


def kept(**settings):
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=settings)
    return done.stdout.strip() == "True"


def test_the_first_pass_has_freed_memory_kept():
    assert kept() == (platform.libc_ver()[0] == "glibc")


@pytest.mark.parametrize("settings", [{"HEADRACE_KEEP_HEAP": "0"}, {"MALLOC_TRIM_THRESHOLD_": "1000000"}])
def test_who_has_chosen_is_left_alone(settings):
    assert not kept(**settings)


def large_rows():
    it = iter(hr.Dataset.range(200).map(lambda x: np.full(250_000, x, np.float32)).shuffle(60, seed=1).prefetch(10))
    next(it)
    assert _native.pool_stats()["in_use"] > 50 << 20
    return it


def test_a_dropped_shuffle_of_large_rows_gives_its_buffer_back():
    it = large_rows()
    del it
    assert await_memory(8 << 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_dropped_iterator_gives_idle_memory_back(kind):
    it = begun(kind, 3)
    del it
    assert await_memory(8 << 20)


def read_all():
    for _ in hr.Dataset.range(60).map(lambda x: np.full(250_000, x, np.float32)).batch(10).prefetch(2):
        pass


def fail():
    ds = hr.Dataset.range(60).map(lambda x: np.full(250_000, x, np.float32)).batch(20).map(lambda x: 1 // 0)
    with pytest.raises(hr.ElementError):
        list(ds)


@pytest.mark.parametrize("end", [read_all, fail])
def test_a_pass_that_came_to_its_end_gives_idle_memory_back(end):
    end()
    assert await_memory(8 << 20)


def test_what_the_consumer_lets_go_later_goes_back_too():
    it = iter(hr.Dataset.range(60).map(lambda x: np.full(500_000, x, np.float32)))
    held = [next(it) for _ in range(30)]
    del it
    assert await_memory(8 << 20)
    held.clear()
    assert await_memory(8 << 20)


def test_idle_memory_stays_while_a_pass_runs():
    other = iter(hr.Dataset.range(10))
    next(other)
    it = large_rows()
    del it
    assert _native.pool_stats()["idle"] > 40 << 20
    other.close()
    assert await_memory(8 << 20)


def test_a_fork_gives_memory_back_by_itself():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


FORKED = """
import os, numpy as np
import headrace as hr
from tests.chaos.dropped import await_memory, begun

it = begun("shuffle, prefetched", 3)
del it  # a thread waits to give the memory back
pid = os.fork()
if pid == 0:
    it = begun("shuffle", 3)
    del it
    os._exit(0 if await_memory(8 << 20) else 1)
assert os.waitpid(pid, 0)[1] == 0
assert await_memory(8 << 20)
"""
