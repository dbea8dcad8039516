"""cache: elements kept for the next pass."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


def test_a_finite_cache_is_read_by_number_whatever_is_below():
    calls = []
    sums = D.range(8).scan(np.int64(0), lambda s, x: (calls.append(int(x)), (s + x, s + x))[1]).cache()
    assert (sums[3], calls) == (6, [0, 1, 2, 3])
    assert (sums[1], sums[-1], list(sums[2:4])) == (1, 28, [3, 6])
    assert sorted(sums.shuffle()) == sorted(sums)


def test_a_cache_reads_no_more_than_is_asked_for_by_number():
    calls = []
    ds = D.range(8).map(lambda x: (calls.append(int(x)), x)[1]).cache()
    assert (ds[2], calls) == (2, [0, 1, 2])
    kept = D.range(8).map(lambda x: (calls.append(int(x)), x)[1]).filter(lambda x: x % 2 == 1).cache()
    calls.clear()
    assert (kept[1], calls) == (3, [0, 1, 2, 3])
    assert (kept[-1], kept[0], list(kept[1:3]), list(kept.map(lambda x: x * 2)[[3, 0]])) == (7, 1, [3, 5], [14, 2])
    assert (sorted(kept.shuffle()), sorted(set(calls))) == ([1, 3, 5, 7], list(range(8)))
    with pytest.raises(IndexError, match="element 4 of a dataset of 4"):
        kept[4]
    with pytest.raises(hr.NotIndexableError, match="filter"):
        D.range(8).repeat().filter(lambda x: x > 2).cache()[-1]


def test_a_cache_of_a_generator_is_indexed():
    ds = D.from_generator(lambda: iter("abc"), output_signature=hr.TensorSpec([], str)).cache()
    assert (ds[1], ds[-1], len(ds[:])) == ("b", "c", 3)


def test_cache_calls_the_function_once_for_each_element():
    calls = []
    ds = D.range(5).map(lambda x: calls.append(int(x)) or x * 10).cache()
    assert numbers(ds) == numbers(ds) == [0, 10, 20, 30, 40]
    assert numbers(ds.shuffle(5).repeat(2).batch(2).map(lambda b: b.sum())) is not None
    assert calls == [0, 1, 2, 3, 4]


def test_a_pass_that_stopped_early_is_continued():
    calls = []
    ds = D.range(6).map(lambda x: calls.append(int(x)) or x).cache()
    assert numbers(ds.take(4)) == [0, 1, 2, 3]
    assert calls == [0, 1, 2, 3]
    assert numbers(ds) == [0, 1, 2, 3, 4, 5]
    assert calls == [0, 1, 2, 3, 4, 5]


def test_two_passes_at_once_share_a_cache():
    ds = D.range(6).map(lambda x: x).cache()
    a, b = iter(ds), iter(ds)
    assert [int(next(a)), int(next(a)), int(next(b))] == [0, 1, 0]
    assert numbers(b) == [1, 2, 3, 4, 5]
    assert numbers(a) == [2, 3, 4, 5]


def test_a_cached_shuffle_has_one_order():
    ds = D.range(20).shuffle(20).cache()
    assert numbers(ds) == numbers(ds)


def test_what_is_cached_does_not_change_with_its_source():
    source = np.zeros((4, 2))
    ds = D.from_tensor_slices(source).cache()
    list(ds)
    source += 1
    assert np.concatenate(list(ds)).sum() == 0


def test_cached_elements_cannot_be_written_to():
    ds = D.from_tensor_slices(np.zeros((4, 2))).map(lambda x: x).cache()
    with pytest.raises(ValueError, match="read-only"):
        next(iter(ds))[0] = 1


def test_a_cache_is_indexed_by_what_it_kept():
    calls = []
    ds = D.range(10).map(lambda x: calls.append(int(x)) or len(calls)).cache()
    everything = numbers(ds)
    assert [int(ds[3]), numbers(ds[2:5])] == [everything[3], everything[2:5]]
    assert sorted(numbers(ds.shuffle())) == sorted(everything)
    assert len(calls) == 10
