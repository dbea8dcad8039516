"""Which arrays are page-locked in place, when, and until when."""

import gc
import threading
import weakref

import numpy as np
import pytest

from headrace import _native
from headrace.adapters import locked
from headrace.adapters.locked import Locked, LockedPool
from headrace.columns.dense import pooled

MEGABYTE = 1 << 20


class Memory:
    """Page-locks nothing, but says what it was asked for; `gate` holds it up."""

    def __init__(self, *, works=True):
        self.works = works
        self.held = {}
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()

    def lock(self, address, nbytes):
        assert self.gate.wait(300)
        self.calls += 1
        if self.works:
            self.held[address] = nbytes
        return self.works

    def unlock(self, address):
        del self.held[address]


class Copied:
    """An event of a device."""

    def __init__(self):
        self.waited = False

    def synchronize(self):
        self.waited = True


@pytest.fixture(autouse=True)
def one_megabyte_is_much(monkeypatch):
    monkeypatch.setattr(locked, "MIN_LOCKED_BYTES", MEGABYTE)


def locks(**options):
    memory = Memory(**options)
    return memory, Locked(memory.lock, memory.unlock, LockedPool(memory.lock, memory.unlock))


def copied(locks, array, batches=4):
    """One pass over an array in batches."""
    return [locks.holds(part) for part in np.split(array, batches)]


def let_them_lock():
    """Wait for the threads that lock."""
    for thread in threading.enumerate():
        if thread.name == "headrace-page-lock":
            thread.join()


def test_an_array_is_locked_in_its_second_pass_and_not_in_its_first():
    memory, arrays = locks()
    array = np.zeros((8, MEGABYTE), np.uint8)
    assert copied(arrays, array) == [False] * 4
    assert memory.calls == 0
    copied(arrays, array.view())
    let_them_lock()
    assert memory.held == {array.ctypes.data: array.nbytes}
    assert copied(arrays, array) == [True] * 4
    assert memory.calls == 1


def test_batches_are_copied_as_before_while_it_is_being_locked():
    memory, arrays = locks()
    array = np.zeros((8, MEGABYTE), np.uint8)
    memory.gate.clear()
    for _ in range(3):
        assert copied(arrays, array) == [False] * 4
    memory.gate.set()
    let_them_lock()
    assert copied(arrays, array) == [True] * 4


def test_all_is_unlocked_in_the_end_once_it_is_no_longer_read():
    memory, arrays = locks()
    several = [np.zeros((2, MEGABYTE), np.uint8) for _ in range(2)]
    for array in several * 2:
        copied(arrays, array, 2)
    let_them_lock()
    assert len(memory.held) == 2
    last = Copied()
    arrays.read("cuda:0", Copied())
    arrays.read("cuda:0", last)
    del arrays
    gc.collect()
    assert last.waited
    assert memory.held == {}


def test_what_is_locked_too_late_is_unlocked_at_once():
    memory, arrays = locks()
    array = np.zeros((2, MEGABYTE), np.uint8)
    memory.gate.clear()
    copied(arrays, array, 2)
    copied(arrays, array, 2)
    del arrays
    gc.collect()
    memory.gate.set()
    let_them_lock()
    assert (memory.calls, memory.held) == (1, {})


def test_an_array_that_cannot_be_locked_is_tried_once_and_not_kept():
    memory, arrays = locks(works=False)
    array = np.zeros((2, MEGABYTE), np.uint8)
    for _ in range(5):
        assert copied(arrays, array, 2) == [False] * 2
        let_them_lock()
    assert memory.calls == 1
    gone = weakref.ref(array)
    del array
    assert gone() is None


def test_a_locked_array_stays_alive_and_others_do_not():
    memory, arrays = locks()
    kept, other = np.zeros((2, MEGABYTE), np.uint8), np.zeros((2, MEGABYTE), np.uint8)
    copied(arrays, kept, 2)
    copied(arrays, kept, 2)
    copied(arrays, other, 2)
    let_them_lock()
    refs = weakref.ref(kept), weakref.ref(other)
    del kept, other
    assert refs[0]() is not None
    assert refs[1]() is None
    del arrays
    gc.collect()
    assert refs[0]() is None
    assert memory.held == {}


def test_arrays_of_which_nothing_would_be_gained_are_left_alone(monkeypatch):
    memory, arrays = locks()
    small = np.zeros(MEGABYTE - 1, np.uint8)
    borrowed = np.frombuffer(bytearray(2 * MEGABYTE), np.uint8)
    transposed = np.zeros((1024, 2048), np.uint8).T
    for array in (small, borrowed, transposed):
        assert not any(arrays.holds(array) for _ in range(5))
    monkeypatch.setattr(locked, "free_memory", lambda: 7 * MEGABYTE)  # a quarter of it may be locked
    large = np.zeros(2 * MEGABYTE, np.uint8)
    assert not any(arrays.holds(large) for _ in range(5))
    let_them_lock()
    assert memory.calls == 0


@pytest.fixture
def pool():
    """One with nothing in it, which keeps what it gets."""
    _native.release_memory()
    _native.pool_keep(1 << 30)
    before = _native.pool_stats()["pinned"]
    yield
    gc.collect()
    assert _native.pool_stats()["pinned"] == before
    _native.release_memory()


def batch(megabytes=8):
    return pooled((megabytes, MEGABYTE), np.uint8)


def locks_of_pool(**options):
    memory = Memory(**options)
    return memory, LockedPool(memory.lock, memory.unlock)


def test_memory_of_the_pool_is_locked_for_its_second_batch(pool):
    memory, pieces = locks_of_pool()
    assert not pieces.holds(batch())
    assert memory.calls == 0
    memory.gate.clear()
    assert not pieces.holds(batch())  # in the same memory; it is being locked
    memory.gate.set()
    let_them_lock()
    assert all(pieces.holds(batch()) for _ in range(3))
    ((start, nbytes),) = memory.held.items()
    assert _native.pool_mapping(batch().ctypes.data) == (start, nbytes)
    assert nbytes > batch().nbytes


def test_each_piece_is_locked_by_itself(pool):
    memory, pieces = locks_of_pool()
    for _ in range(2):
        several = [batch(), batch(), batch()]
        for each in several:
            pieces.holds(each)
        del each
    let_them_lock()
    assert all(map(pieces.holds, several))
    assert len(memory.held) == 3


def test_what_the_pool_no_longer_wants_is_unlocked_before_it_goes(pool):
    memory, pieces = locks_of_pool()
    for megabytes in (8, 8, 24, 24):
        pieces.holds(batch(megabytes))
    let_them_lock()
    starts = list(memory.held)
    assert len(starts) == 2
    _native.release_memory()
    assert sorted(_native.pool_unwanted()) == sorted(starts)
    assert all(_native.pool_mapping(start) for start in starts)
    assert not pieces.holds(batch(40))
    assert memory.held == {}
    assert not any(_native.pool_mapping(start) for start in starts)


def test_memory_of_the_pool_that_cannot_be_locked_goes_back_as_ever(pool):
    memory, pieces = locks_of_pool(works=False)
    for _ in range(4):
        assert not pieces.holds(batch())
        let_them_lock()
    assert memory.calls == 1
    assert _native.pool_stats()["pinned"] == 0


def test_in_the_end_the_pool_is_as_it_was(pool):
    memory, pieces = locks_of_pool()
    for _ in range(2):
        held = batch()
        pieces.holds(held)
    let_them_lock()
    held[:] = 7
    del pieces
    gc.collect()
    assert memory.held == {}
    assert (held == 7).all()


def test_old_kernels_do_without(pool, monkeypatch):
    monkeypatch.setattr("platform.release", lambda: "4.18.0-553.el8_10.x86_64")
    memory, pieces = locks_of_pool()
    assert not any(pieces.holds(batch()) for _ in range(3))
    let_them_lock()
    assert memory.calls == 0


def test_small_and_foreign_memory_is_left_alone(pool):
    memory, pieces = locks_of_pool()
    transposed = batch().T
    arrays = [np.zeros(8 * MEGABYTE, np.uint8), pooled(MEGABYTE, np.uint8), transposed, batch()[:0]]
    assert not any(pieces.holds(array) for array in arrays * 3)
    let_them_lock()
    assert memory.calls == 0
