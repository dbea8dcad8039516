"""map_batches: a function on whole batches."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def test_the_function_sees_batches_and_its_rows_are_elements(run):
    sizes = []

    def double(batch):
        sizes.append(len(batch))
        return batch * 2

    assert run(D.range(5).map_batches(double, 2)) == [0, 2, 4, 6, 8]
    assert sizes[-3:] == [2, 2, 1]


def test_components_come_as_arguments(run):
    ds = D.from_tensor_slices((np.arange(3), np.ones(3))).map_batches(lambda a, b: a + b, 2)
    assert run(ds) == [1.0, 2.0, 3.0]


def test_a_batch_that_fails_is_as_many_errors_as_it_has_rows():
    ds = D.range(4).map_batches(lambda b: b // (b[0] % 4), 2)
    with iter(ds) as it, pytest.raises(hr.ElementError):
        next(it)
