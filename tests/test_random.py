"""Generators that belong to rows: exact laws, and their randomness against chance. All seeds are fixed."""

from collections import Counter
from itertools import permutations
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native
from headrace.core.keys import Seed, mix_key
from headrace.core.random import BlockGenerator, RowGenerator, row_key
from headrace.reference import draw

KEY = row_key(Seed(42, explicit=True), 0)
ROWS = 4096


def ids(rows=ROWS, path=7, first=0):
    numbers = np.arange(first, first + rows, dtype=np.uint64)
    return np.stack([np.full(rows, path, np.uint64), numbers], axis=1)


def block(rows=ROWS, key=KEY, path=7):
    return BlockGenerator(key, ids(rows, path))


def chi_square(counts):
    """How far counts are from equal ones, in standard deviations."""
    counts = np.asarray(counts, float).ravel()
    expected = counts.sum() / counts.size
    return (((counts - expected) ** 2 / expected).sum() - (counts.size - 1)) / np.sqrt(2 * (counts.size - 1))


def correlation(a, b):
    """In standard deviations."""
    return np.corrcoef(np.ravel(a), np.ravel(b))[0, 1] * np.sqrt(np.size(a))


def plain_mix(key, *values):
    """What keys mean, which states and seeds depend on."""
    mask, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def scramble(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    for value in values:
        key = scramble((scramble((key + golden) & mask) + (value & mask) * golden) & mask)
    return key


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(-(2**70), 2**70), max_size=4))
def test_keys_are_mixed_as_they_always_were(key, values):
    assert mix_key(key, *values) == plain_mix(key, *values)


def test_what_is_no_integer_is_mixed_into_no_key():
    with pytest.raises(TypeError, match="str"):
        mix_key(1, "2")


CALLS = {
    "random": lambda g: g.random(),
    "random size": lambda g: g.random((2, 3)),
    "random float32": lambda g: g.random(3, dtype=np.float32),
    "random nothing": lambda g: g.random(0),
    "uniform": lambda g: g.uniform(-1, 3),
    "uniform size": lambda g: g.uniform(high=2.5, size=(3,)),
    "normal": lambda g: g.normal(),
    "normal size": lambda g: g.normal(2, 0.5, size=4),
    "bernoulli": lambda g: g.bernoulli(0.3),
    "bernoulli size": lambda g: g.bernoulli(size=5),
    "integers": lambda g: g.integers(10),
    "integers between": lambda g: g.integers(-5, 5, size=3),
    "integers, all": lambda g: g.integers(-(2**63), 2**63),
    "integers, unsigned": lambda g: g.integers(0, 2**64 - 1, endpoint=True, dtype=np.uint64),
    "integers, small": lambda g: g.integers(-128, 127, 4, np.int8, endpoint=True),
    "integers, bool": lambda g: g.integers(2, dtype=bool),
    "permutation": lambda g: g.permutation(6),
    "permutation of nothing": lambda g: g.permutation(0),
    "choice": lambda g: g.choice(4),
    "choice size": lambda g: g.choice(4, (2, 2)),
    "choice without replacement": lambda g: g.choice(9, 4, replace=False),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("used", [0, 1])
def test_a_row_alone_draws_what_it_draws_among_others(name, used):
    together = block(20)
    together.random(used)
    made, after = CALLS[name](together), together.random()
    for i, row in enumerate(ids(20)):
        alone = RowGenerator(KEY, row)
        alone.random(used)
        got = CALLS[name](alone)
        assert np.asarray(got).dtype == made.dtype
        assert np.asarray(got).shape == made[i].shape
        assert np.asarray(got).tobytes() == made[i].tobytes()
        assert alone.random() == after[i], "spent another number of draws"


def test_arguments_may_be_arrays_of_a_row_each_or_one_for_all():
    rng = np.random.default_rng(0)
    low, high = rng.integers(-9, 0, (20, 2)), rng.integers(1, 9, (20, 3, 1))
    weights = rng.random((20, 5))
    weights /= weights.sum(axis=1, keepdims=True)
    items = rng.random((20, 4, 5))
    together = block(20)
    made = [
        together.integers(low, high),
        together.uniform(low, 50, size=(4, 2)),
        together.normal(low, high),
        together.bernoulli(weights),
        together.choice(items, 3, axis=1, p=weights),
        together.choice(items, (2, 2)),
        together.choice(items, axis=-1),
        together.choice(5, 3, replace=False, p=weights),
        together.permutation(items, axis=1),
        together.permutation(items[:1]),
        together.integers(low[:1], 100),
    ]
    for i, row in enumerate(ids(20)):
        g = RowGenerator(KEY, row)
        got = [
            g.integers(low[i], high[i]),
            g.uniform(low[i], 50, size=(4, 2)),
            g.normal(low[i], high[i]),
            g.bernoulli(weights[i]),
            g.choice(items[i], 3, axis=1, p=weights[i].tolist()),
            g.choice(items[i], (2, 2)),
            g.choice(items[i], axis=-1),
            g.choice(5, 3, replace=False, p=weights[i]),
            g.permutation(items[i], axis=1),
            g.permutation(items[0]),
            g.integers(low[0], 100),
        ]
        for a, b in zip(got, made, strict=True):
            assert a.shape == b[i].shape
            assert a.tobytes() == b[i].tobytes()
    assert made[0].shape == (20, 3, 2)
    assert made[5].shape == (20, 2, 2, 5)


def test_shuffle_moves_the_parts_in_place():
    array = np.arange(24).reshape(4, 6)
    together = np.stack([array] * 3)
    block(3).shuffle(together, axis=1)
    for i, row in enumerate(ids(3)):
        mine = array.copy()
        RowGenerator(KEY, row).shuffle(mine, axis=1)
        assert (mine == together[i]).all()
        assert (np.sort(mine, axis=1) == array).all()
    letters = list("abcde")
    RowGenerator(KEY, ids(1)[0]).shuffle(letters)
    assert sorted(letters) == list("abcde")
    assert letters != list("abcde")


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_words_are_those_of_philox(key, path, first):
    out = np.empty((3, 4), np.uint64)
    _native.random_words(key, ids(3, path), first, out)
    for k in range(4):  # row 0 has the upper half of the counter at 0
        assert int(out[0, k]) == draw(mix_key(key, path), first + k, 2**64)
    assert len({int(w) for w in out.ravel()}) == 12


def test_numbers_are_made_of_words_as_documented():
    words = np.empty((50, 6), np.uint64)
    _native.random_words(KEY, ids(50), 0, words)
    plain = [[int(w) for w in row] for row in words]
    assert block(50).random(6).tolist() == [[(w >> 11) / 2**53 for w in row] for row in plain]
    assert block(50).integers(-3, 1000, 6).tolist() == [[-3 + (w * 1003 >> 64) for w in row] for row in plain]
    inverse = NormalDist().inv_cdf
    want = [[inverse(((w >> 12) + 0.5) / 2**52) for w in row] for row in plain]
    assert np.allclose(block(50).normal(size=6), want, rtol=2e-15, atol=0)
    for row, got in zip(plain, block(50).permutation(6).tolist(), strict=True):
        numbers = list(range(6))
        for i, w in enumerate(row):
            j = i + (w * (6 - i) >> 64)
            numbers[i], numbers[j] = numbers[j], numbers[i]
        assert got == numbers


class TestRandomness:
    """Each statistic is within 4 standard deviations of what chance gives; the draws are fixed, so none can flake."""

    def test_uniform_numbers_are_uniform_in_every_bit(self):
        words = np.empty((ROWS, 16), np.uint64)
        _native.random_words(KEY, ids(), 0, words)
        for shift in range(0, 64, 8):
            counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(255)).ravel().astype(int), minlength=256)
            assert abs(chi_square(counts)) < 4
        ones = [int(((words >> np.uint64(b)) & np.uint64(1)).sum()) for b in range(64)]
        assert max(abs(n - words.size / 2) for n in ones) < 4 * np.sqrt(words.size) / 2

    @pytest.mark.parametrize("neighbours", ["draws", "rows", "paths", "seeds", "places", "epochs"])
    def test_neighbours_are_independent(self, neighbours):
        a = block().random(8)
        if neighbours == "draws":
            a, b = a[:, :-1], a[:, 1:]
        elif neighbours == "rows":
            a, b = a[:-1], a[1:]
        elif neighbours == "paths":
            b = block(path=8).random(8)
        elif neighbours == "epochs":
            b = block(path=mix_key(7, 0, 1)).random(8)
        elif neighbours == "seeds":
            b = block(key=row_key(Seed(43, explicit=True), 0)).random(8)
        else:
            b = block(key=row_key(Seed(42, explicit=True), 1)).random(8)
        assert abs(correlation(a, b)) < 4
        cells = np.histogram2d(a.ravel(), b.ravel(), bins=16, range=[[0, 1], [0, 1]])[0]
        assert abs(chi_square(cells)) < 4
        near = (a.ravel().view(np.uint64) ^ b.ravel().view(np.uint64)) & np.uint64(0xFFFF)
        assert abs(chi_square(np.bincount(near.astype(int) >> 8, minlength=256))) < 4

    def test_no_number_comes_twice(self):
        """Birthdays: 131,072 words of 64 bits of neighbouring rows and paths are all different."""
        seen = set()
        for path in range(8):
            words = np.empty((ROWS, 4), np.uint64)
            _native.random_words(KEY, ids(path=path), 0, words)
            seen |= set(words.ravel().tolist())
        assert len(seen) == 8 * ROWS * 4

    def test_one_bit_of_an_id_changes_half_the_bits(self):
        base = np.empty((1, 1), np.uint64)
        _native.random_words(KEY, ids(1), 0, base)
        for column in (0, 1):
            for bit in range(64):
                other, row = np.empty((1, 64), np.uint64), ids(1)
                row[0, column] ^= np.uint64(1 << bit)
                _native.random_words(KEY, row, 0, other)
                assert 10 < int(other[0, 0] ^ base[0, 0]).bit_count() < 54

    def test_runs_of_rising_numbers_are_as_long_as_chance_makes_them(self):
        numbers = block().random(16).ravel()
        rises = int((np.diff(numbers) > 0).sum())
        count = len(numbers)
        assert abs(rises - (count - 1) / 2) < 4 * np.sqrt((count + 1) / 12)

    def test_normal_numbers_follow_the_normal_distribution(self):
        numbers = np.sort(block().normal(size=16).ravel())
        count = len(numbers)
        shares = np.array([NormalDist().cdf(x) for x in numbers])
        distance = np.abs(shares - np.arange(1, count + 1) / count).max()  # Kolmogorov and Smirnov
        assert distance * np.sqrt(count) < 1.95
        for power, (mean, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}.items():
            assert abs((numbers**power).mean() - mean) < 4 * np.sqrt(variance / count)

    @pytest.mark.parametrize("bound", [2, 3, 10, 1000, 3 * 2**62])
    def test_integers_are_uniform(self, bound):
        numbers = block().integers(bound, size=8, dtype=np.uint64)
        cells = min(bound, 100)
        counts = np.bincount([int(n) * cells // bound for n in numbers.ravel()], minlength=cells)
        assert abs(chi_square(counts)) < 4

    def test_all_permutations_are_equally_likely(self):
        counts = Counter(map(tuple, BlockGenerator(KEY, ids(24_000)).permutation(4).tolist()))
        assert set(counts) == set(permutations(range(4)))
        assert abs(chi_square(list(counts.values()))) < 4

    def test_choices_keep_their_probabilities(self):
        weights = np.array([[0.1, 0.2, 0.3, 0.4]])
        first = np.bincount(block().choice(4, 8, p=weights).ravel(), minlength=4)
        assert np.abs(first / first.sum() - weights[0]).max() < 4 * np.sqrt(0.25 / first.sum())
        pairs = block().choice(4, 2, replace=False, p=weights)
        assert (pairs[:, 0] != pairs[:, 1]).all()
        share = ((pairs[:, 0] == 3) & (pairs[:, 1] == 0)).mean()  # 0.4, and 0.1 of what is left
        assert abs(share - 0.4 * 0.1 / 0.6) < 4 * np.sqrt(0.07 / ROWS)
        assert abs(block().bernoulli(0.25).mean() - 0.25) < 4 * np.sqrt(0.19 / ROWS)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: g.integers(5, 5), ValueError, "low must be below high"),
        (lambda g: g.integers(0), ValueError, "low must be below high"),
        (lambda g: g.integers(300, dtype=np.uint8), ValueError, "out of bounds for uint8"),
        (lambda g: g.integers(-1, 5, dtype=np.uint8), ValueError, "out of bounds for uint8"),
        (lambda g: g.integers([0, 5], [1, 5]), ValueError, "low must be below high"),
        (lambda g: g.integers(2.5), TypeError, "integer"),
        (lambda g: g.integers([0.5], 3), TypeError, "must be integers, not float64"),
        (lambda g: g.integers(5, dtype=float), TypeError, "not float64"),
        (lambda g: g.random(dtype=int), TypeError, "float64 or float32"),
        (lambda g: g.random(-1), ValueError, "size must not be negative"),
        (lambda g: g.uniform(0, np.inf), OverflowError, "finite"),
        (lambda g: g.uniform([1, 2], size=3), ValueError, "shape"),
        (lambda g: g.normal(0, -1), ValueError, "negative"),
        (lambda g: g.normal(0, np.nan), ValueError, "negative"),
        (lambda g: g.bernoulli(1.5), ValueError, "between 0 and 1"),
        (lambda g: g.choice(0), ValueError, "nothing to choose"),
        (lambda g: g.choice([]), ValueError, "nothing to choose"),
        (lambda g: g.choice(3, 4, replace=False), ValueError, "4 of 3"),
        (lambda g: g.choice(2, p=[0.5, 0.6]), ValueError, "add up to 1"),
        (lambda g: g.choice(2, p=[1.5, -0.5]), ValueError, "negative"),
        (lambda g: g.choice(3, 2, replace=False, p=[0, 1, 0]), ValueError, "fewer probabilities"),
        (lambda g: g.choice(np.eye(2), axis=2), ValueError, "no axis 2"),
        (lambda g: g.permutation(-1), ValueError, "negative"),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(RowGenerator(KEY, ids(1)[0]))


def test_a_generator_is_of_no_use_after_its_call():
    g = RowGenerator(KEY, ids(1)[0])
    g.expire()
    with pytest.raises(RuntimeError, match="one call of the function"):
        g.random()


def test_the_kernels_check_what_they_are_given():
    with pytest.raises(ValueError, match="a line for each row"):
        _native.random_words(0, ids(3), 0, np.empty((2, 1), np.uint64))
    with pytest.raises(ValueError, match="beyond the end"):
        _native.random_words(0, ids(1), 2**64 - 1, np.empty((1, 2), np.uint64))
    with pytest.raises(ValueError, match="bounds"):
        two = np.zeros(2, np.uint64)
        _native.random_integers(0, ids(1), 0, two, two, np.empty((1, 3), np.uint64))
