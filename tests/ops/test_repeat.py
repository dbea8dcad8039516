"""repeat: the elements again."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset


def lists(rows):
    return [r.tolist() for r in rows]


def numbers(rows):
    return [int(x) for x in rows]


def test_repeat_goes_on_after_an_epoch_without_elements():
    passes = []

    def numbers():
        passes.append(len(passes))
        yield from range(0 if len(passes) in (1, 3) else 2)

    ds = D.from_generator(numbers, output_signature=hr.TensorSpec((), "int64"))
    with pytest.warns(hr.PipelineWarning, match="gives no elements in this pass"):
        assert lists(ds.repeat(4)) == [0, 1, 0, 1]
    assert passes == [0, 1, 2, 3]
    passes.clear()
    assert lists(ds.repeat()) == []
    assert list(D.range(0).repeat(10**15)) == []


@pytest.mark.parametrize(("count", "want"), [(0, []), (1, [0, 1]), (3, [0, 1] * 3)])
def test_repeat(run, count, want):
    assert numbers(run(D.range(2).repeat(count))) == want


@pytest.mark.parametrize("count", [None, -1, -7])
def test_repeat_for_ever(run, count):
    ds = D.range(2).repeat(count)
    assert ds.cardinality() == hr.INFINITE_CARDINALITY
    assert numbers(run(ds.take(5))) == [0, 1, 0, 1, 0]
    with pytest.raises(TypeError, match="infinite"):
        len(ds)


def test_repeating_nothing_ends(run):
    assert run(D.range(0).repeat()) == []
    assert run(D.range(3).filter(lambda x: False).repeat()) == []
    assert D.range(0).repeat().cardinality() == 0


@pytest.mark.parametrize("count", [0, 1, 7, None])
def test_short_epochs_that_are_alike_are_what_they_are_one_by_one(count):
    text = D.from_tensor_slices((np.arange(6).reshape(3, 2), ["a", "b", "c"]))
    for ds in (D.range(3, 9, 2), text, D.range(0), D.range(1).repeat(2)):
        check_transformation(ds.repeat(count).take(20), cuts=6)
        check_transformation(ds.repeat(count).batch(4).take(6), cuts=4)
        check_transformation(ds.repeat(count).skip(5).shard(2, 1).take(9), cuts=4)


def test_each_of_many_short_epochs_has_draws_of_its_own():
    ds = D.range(2).repeat(5).random_map(lambda x, rng: rng.integers(0, 1 << 40), 3)
    assert len({int(x) for x in ds}) == 10
    check_transformation(ds, cuts=4)
