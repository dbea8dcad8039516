"""Ownership of arrays: functions may reuse and write to theirs, and change no others."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
PAIR = hr.TensorSpec((2,), "float64")


def reusing():
    buffer = np.zeros(2)
    for i in range(6):
        buffer[:] = i
        yield buffer


def plus_one(row):
    row += 1
    return row


@pytest.mark.parametrize("shape", [lambda d: d, lambda d: d.prefetch(4), lambda d: d.shuffle(3, seed=1)])
def test_a_generator_may_reuse_its_buffer(shape):
    ds = shape(D.from_generator(reusing, output_signature=PAIR)).batch(3)
    assert sorted(np.concatenate(list(ds))[:, 0]) == [0, 1, 2, 3, 4, 5]


def test_a_function_may_reuse_its_buffer(run):
    buffer = np.zeros(2)

    def fill(i):
        buffer[:] = i
        return buffer

    assert np.concatenate(run(D.range(4).map(fill).batch(2)))[:, 0].tolist() == [0, 1, 2, 3]


def test_what_a_generator_yields_stays_its_own(run):
    source = np.zeros((3, 2))
    ds = D.from_generator(lambda: iter(source), output_signature=PAIR).map(plus_one)
    assert np.sum(run(ds)) == np.sum(run(ds)) == 6
    assert source.sum() == 0


def test_a_captured_array_is_not_written_through(run):
    captured = np.zeros(2)
    assert np.sum(run(D.range(3).map(lambda i: captured).map(plus_one))) == 6
    assert captured.sum() == 0


def test_two_components_that_were_one_array_are_two(run):
    ds = D.from_tensor_slices(np.zeros((2, 2))).map(lambda a: (a, a)).map(lambda a, b: (plus_one(a), b))
    assert [b.sum() for _, b in run(ds)] == [0, 0]


def test_a_predicate_that_writes_changes_nothing_that_is_kept(run):
    ds = D.from_tensor_slices(np.zeros((3, 2))).map(lambda x: x).filter(lambda x: bool((plus_one(x) > 0).all()))
    assert np.sum(run(ds)) == 0


def test_arrays_in_an_object_array_are_the_users(run):
    rows = np.empty(2, object)
    rows[:] = [np.zeros(2), np.zeros((1, 2))]
    ds = D.from_tensor_slices(rows).map(plus_one)
    assert [r.sum() for r in run(ds)] == [r.sum() for r in run(ds)] == [2, 2]
    assert rows[0].sum() == 0


def test_rows_of_a_cache_may_be_written_to_by_the_next_function(run):
    ds = D.range(6).map(lambda i: np.zeros((2,) * (1 + i % 2))).cache().map(plus_one)
    assert [r.sum() for r in run(ds)] == [2, 4, 2, 4, 2, 4]
    assert [r.sum() for r in run(ds)] == [2, 4, 2, 4, 2, 4]


@pytest.mark.parametrize(
    "value",
    [({"x": [1, 2]}, [3, 4]), (([1, 2],), [3, 4]), (None, ([1, 2], [3, 4])), {"a": ([1, 2], {"b": [3, 4]})}],
    ids=["dict in tuple", "tuple of one", "none", "tuple in dict"],
)
def test_nested_structures_arrive_as_they_were_given(run, value):
    first = run(D.from_tensor_slices(value))[0]

    def heads(v):
        if isinstance(v, tuple):
            return tuple(heads(x) for x in v)
        if isinstance(v, dict):
            return {k: heads(x) for k, x in v.items()}
        return v if v is None else v[0]

    assert first == heads(value)
