"""The kernels against their plain meaning, and their randomness against chance."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native
from headrace.execute.reference import draw
from headrace.keys import ROOT, mix


def naive_shuffle(key, capacity, total):
    """The rows in output order, and what the slots hold before each step."""
    slots, hole, t, out, held = list(range(min(capacity - 1, total))), capacity - 1, 0, [], []
    for row in range(capacity - 1, total):
        before = [*slots] + [-1] * (capacity - len(slots))
        before[hole] = -1
        held.append(before)
        slots[hole : hole + 1] = [row]
        hole = draw(key, t, capacity)
        out.append(slots[hole])
        t += 1
    if t:
        slots[hole] = slots[-1]
        slots.pop()
    while slots:
        held.append([*slots])
        slot = draw(key, t, len(slots))
        out.append(slots[slot])
        slots[slot] = slots[-1]
        slots.pop()
        t += 1
    return out, held


@given(st.integers(0, 2**64 - 1), st.integers(1, 12), st.integers(0, 40))
def test_the_shuffle_kernels_agree_with_a_plain_buffer(key, capacity, total):
    out, held = naive_shuffle(key, capacity, total)
    assert sorted(out) == list(range(total))
    rows = np.empty(total, np.int64)
    _native.shuffle_rows_at(key, capacity, total, np.arange(total), rows)
    assert rows.tolist() == out
    for t, want in enumerate(held):
        got = np.full(capacity, -9, np.int64)
        used = _native.shuffle_held(key, capacity, total, t, got)
        assert got[:used].tolist() == want


@given(st.integers(0, 2**64 - 1), st.integers(1, 60))
def test_permute_is_a_permutation(key, size):
    out = np.empty(size, np.int64)
    _native.permute(key, size, np.arange(size), out)
    assert sorted(out) == list(range(size))


@pytest.mark.parametrize("size", [65_537, 100_003, 1 << 20])
def test_permute_without_a_table_is_a_permutation_too(size):
    out = np.empty(size, np.int64)
    _native.permute(7, size, np.arange(size), out)
    assert np.array_equal(np.sort(out), np.arange(size))
    assert abs(np.corrcoef(out, np.arange(size))[0, 1]) < 0.02
    assert (out == np.arange(size)).sum() < 12


def chi_square(counts, expected):
    return sum((c - expected) ** 2 / expected for c in counts)


def test_all_orders_of_a_small_dataset_are_equally_likely():
    orders = Counter()
    trials = 24_000
    for trial in range(trials):
        out = np.empty(4, np.int64)
        _native.permute(mix(ROOT, trial), 4, np.arange(4), out)
        orders[tuple(out.tolist())] += 1
    assert len(orders) == 24
    assert chi_square(orders.values(), trials / 24) < 50, "23 degrees of freedom: 50 has a chance of 0.001"


def test_draws_are_uniform_and_neighbouring_keys_independent():
    bound, count = 16, 4000
    tables = []
    for key in range(64):
        draws = np.empty(count, np.int64)
        _native.shuffle_draws(mix(ROOT, key), bound, -1, 0, draws)
        assert chi_square(np.bincount(draws, minlength=bound), count / bound) < 45
        tables.append(draws)
    for a, b in itertools.pairwise(tables):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.08


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: _native.shuffle_draws(1, 0, -1, 0, np.empty(1, np.int64)), "slot"),
        (lambda: _native.shuffle_draws(1, 4, 3, 2, np.empty(2, np.int64)), "end"),
        (lambda: _native.shuffle_held(1, 4, -1, 0, np.empty(3, np.int64)), "shorter"),
        (lambda: _native.permute(1, 3, np.array([3]), np.empty(1, np.int64)), "range"),
        (
            lambda: _native.shuffle_exchange(
                np.zeros((2, 8), np.uint8), 5, np.zeros((1, 8), np.uint8), np.array([0]), np.zeros((1, 8), np.uint8)
            ),
            "slot",
        ),
        (
            lambda: _native.shuffle_drain(np.zeros((2, 8), np.uint8), 2, np.array([9]), np.zeros((1, 8), np.uint8)),
            "draw",
        ),
    ],
)
def test_kernels_check_their_arguments(call, said):
    with pytest.raises(ValueError, match=said):
        call()
