"""Memory that is used again: whose it is, how much is kept, and what is left in a fork."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.columns.dense import MIN_THREADED_COPY_BYTES, take_rows


@pytest.fixture(autouse=True)
def bound():
    yield
    _native.pool_keep(1 << 30)


def pooled(make):
    before = _native.use_pool()
    try:
        return make()
    finally:
        _native.use_pool(before)


def churn(seed, rounds=4000):
    chance, held = random.Random(seed), {}
    for step in range(rounds):
        slot = chance.randrange(40)
        if slot in held:
            array, value = held.pop(slot)
            assert (array == value).all()
        else:
            size, value = int(2 ** chance.uniform(0, 21)), chance.randrange(1, 255)
            zeros = chance.random() < 0.3
            array = pooled(lambda n=size, z=zeros: np.zeros(n, np.uint8) if z else np.empty(n, np.uint8))
            assert not (zeros and array.any())
            array[:] = value
            held[slot] = array, value
        if step % 500 == 0:
            _native.pool_keep(chance.choice([0, 1 << 20, 1 << 24, 1 << 30]))
        if step % 900 == 0:
            _native.release_memory()


def test_memory_in_use_is_not_handed_out_again():
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(churn, seed) for seed in range(3)]
        churn(99)
    assert [other.exception() for other in others] == [None, None, None]


def test_no_more_waits_than_may():
    _native.pool_keep(4 << 20)
    arrays = [pooled(lambda: np.empty(1 << 20, np.uint8)) for _ in range(10)]
    del arrays
    assert 0 < _native.pool_stats()["idle"] <= 4 << 20
    _native.release_memory()
    assert _native.pool_stats()["idle"] == 0


def test_a_child_of_a_fork_has_memory_of_its_own():
    array = pooled(lambda: np.full(1 << 20, 7, np.uint8))
    pid = os.fork()
    if pid == 0:
        other = pooled(lambda: np.full(1 << 20, 9, np.uint8))
        os._exit(0 if (array == 7).all() and (other == 9).all() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert (array == 7).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, "M8[s]", np.complex128])
def test_rows_are_what_numpy_takes(dtype):
    rows = np.random.default_rng(0).integers(0, 255, (300, 8192)).astype(np.int64).astype(dtype)
    indices = np.random.default_rng(1).integers(0, 300, 700)
    assert rows[0].nbytes * len(indices) > MIN_THREADED_COPY_BYTES
    assert take_rows(rows, indices).tobytes() == rows.take(indices, axis=0).tobytes()
    assert take_rows(rows[::2], indices // 2).tobytes() == rows[::2].take(indices // 2, axis=0).tobytes()


def test_a_batch_that_is_kept_is_not_overwritten():
    images = np.arange(64, dtype=np.uint8)[:, None, None] * np.ones((1, 128, 512), np.uint8)
    ds = hr.Dataset.from_tensor_slices(images).shuffle(64, seed=3).batch(32)
    kept = list(ds) + list(ds)
    for batch in kept:
        for image in batch:
            assert (image == image[0, 0]).all()
    assert sorted(int(image[0, 0]) for batch in kept[:2] for image in batch) == list(range(64))


def test_indices_out_of_range_are_refused():
    with pytest.raises(ValueError, match="range"):
        _native.gather(np.zeros((4, 8), np.uint8), np.array([4]), np.zeros((1, 8), np.uint8))
