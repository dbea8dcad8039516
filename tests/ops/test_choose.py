"""choose_from_datasets and sample_from_datasets: elements of several datasets."""

import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset


def lists(rows):
    return [r.tolist() for r in rows]


def test_zero_weights_are_never_drawn(run):
    ds = D.sample_from_datasets([D.range(5), D.range(100, 105)], [0.0, 1.0], seed=1)
    assert lists(run(ds)) == [100, 101, 102, 103, 104]
    none = D.sample_from_datasets([D.range(5), D.range(100, 105)], [0, 0])
    assert run(none) == []
    assert (len(none), none.element_spec) == (0, D.range(5).element_spec)
    by_a_dataset = D.sample_from_datasets([D.range(5), D.range(5)], D.from_tensors([0.0, 0.0]))
    with pytest.raises(hr.ElementError, match="must not all be 0"):
        run(by_a_dataset)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: D.choose_from_datasets([], d), ValueError, "at least one"),
        (lambda d, f: D.sample_from_datasets([d, d], [1.0]), ValueError, "2 datasets"),
        (lambda d, f: D.sample_from_datasets([d, d], [-1, 0]), ValueError, "at least 0"),
        (lambda d, f: D.sample_from_datasets([d, d.enumerate()], [0, 0]), hr.SpecError, "differ"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)


@pytest.mark.parametrize("stop", [True, False])
def test_choices_that_come_few_at_a_time_are_taken_together(stop):
    branches = [D.range(30), D.range(100, 107), D.range(200, 230).map(lambda x: 1 // (x - 203) + x)]
    turns = D.range(3).repeat(25)
    check_transformation(D.choose_from_datasets(branches, turns, stop), cuts=12)
    some_fail = turns.map(lambda x: 7 // (x - 2) * 0 + x)
    check_transformation(D.choose_from_datasets(branches, some_fail, stop), cuts=12)
    unknown = D.from_tensor_slices([0, 1]).concatenate(D.from_tensor_slices([2, 5])).repeat(9)
    check_transformation(D.choose_from_datasets(branches, unknown, stop), cuts=12)
