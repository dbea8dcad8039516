"""unique: each element once."""

import numpy as np

import headrace as hr

D = hr.Dataset


def test_the_first_of_equal_elements_stays(run):
    assert run(D.from_tensor_slices([3, 1, 3, 2, 1]).unique()) == [3, 1, 2]


def test_elements_are_compared_as_a_whole(run):
    ds = D.from_tensor_slices(([1, 1, 1], ["a", "b", "a"])).unique()
    assert [(int(n), s) for n, s in run(ds)] == [(1, "a"), (1, "b")]


def test_arrays_of_other_shapes_are_other_elements(run):
    ds = D.range(4).map(lambda n: np.zeros(n % 2)).unique()
    assert [x.shape for x in run(ds)] == [(0,), (1,)]


def test_an_error_is_no_element_to_compare():
    ds = D.range(4).map(lambda x: 1 // (x % 2)).unique().ignore_errors()
    assert list(ds) == [1]
