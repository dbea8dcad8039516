"""filter: the elements for which a function is true."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def test_true_elements_stay_in_order(run):
    assert run(D.range(10).filter(lambda x: x % 3 == 0)) == [0, 3, 6, 9]


def test_nothing_may_be_left(run):
    assert run(D.range(10).filter(lambda x: False)) == []


def test_structures_pass_whole(run):
    ds = D.from_tensor_slices({"s": ["a", "b", "c"], "n": [1, 2, 3]})
    assert run(ds.filter(lambda d: d["n"] != 2)) == [{"s": "a", "n": 1}, {"s": "c", "n": 3}]


@pytest.mark.parametrize("answer", [1, np.array([True]), "yes", None])
def test_a_predicate_that_returns_no_bool_is_an_error_at_the_element(answer):
    it = iter(D.range(2).filter(lambda x: answer if x == 0 else True))
    with pytest.raises(hr.ElementError, match="must return a bool"):
        next(it)
    assert next(it) == 1


@pytest.mark.parametrize("calls", [1, 3, hr.AUTOTUNE])
def test_on_threads_the_same_elements_stay(run, calls):
    assert run(D.range(200).filter(lambda x: bool(x % 7 == 3), num_parallel_calls=calls)) == list(range(3, 200, 7))


def test_on_threads_nothing_is_read_beyond_what_was_asked_for():
    read = []
    numbers = D.from_generator(
        lambda: (read.append(i) or i for i in range(100)), output_signature=hr.TensorSpec((), int)
    )
    it = iter(numbers.filter(lambda x: bool(x % 10 == 9), num_parallel_calls=2))
    assert next(it) == 9
    it.close()
    assert len(read) <= 13


def test_how_many_are_left_is_not_known():
    assert D.range(3).filter(lambda x: True).cardinality() == hr.UNKNOWN_CARDINALITY
    with pytest.raises(TypeError, match="not known"):
        len(D.range(3).filter(lambda x: True))


def test_only_what_is_still_missing_is_read():
    read = []
    it = iter(D.range(100).map(lambda x: read.append(int(x)) or x).filter(lambda x: x % 2 == 0).batch(3))
    next(it)
    assert read == [0, 1, 2, 3, 4]
