"""rejection_resample: classes in other proportions."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


@pytest.mark.parametrize(
    ("target", "initial", "kept"),
    [
        ([0, 1], None, list(range(1, 40, 2))),
        ([1, 0], None, list(range(0, 40, 2))),
        ([0, 1], [1, 0], list(range(1, 40, 2))),
        ([0, 1], [0, 1], list(range(1, 40, 2))),
    ],
)
def test_resampling_to_one_class_leaves_the_others_out(run, target, initial, kept):
    ds = D.range(40).rejection_resample(lambda x: int(x) % 2, target, initial, seed=1)
    assert [int(x) for _, x in run(ds)] == kept


def test_resampling_without_an_initial_distribution_finds_it():
    ds = D.range(9000).rejection_resample(lambda x: int(x % 10 == 0), [0.5, 0.5], seed=1)
    classes = [int(c) for c, _ in ds]
    assert 0.45 < np.mean(classes[200:]) < 0.55


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.rejection_resample(f, [0.5, 0.5], [1.0]), ValueError, "classes"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)
