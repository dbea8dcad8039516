"""Datasets as Python objects."""

import pickle

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def test_a_dataset_is_made_by_a_source():
    with pytest.raises(TypeError, match="from_tensor_slices"):
        D([1, 2, 3])


def test_each_iterator_is_a_pass_of_its_own():
    ds = D.range(3)
    a, b = iter(ds), iter(ds)
    assert [next(a), next(a), next(b), next(a), next(b)] == [0, 1, 0, 2, 1]


def test_a_dataset_can_be_pickled_and_goes_on_with_its_epochs():
    ds = D.range(20).shuffle(20).cache().map(np.sqrt).shuffle(20).batch(4)
    list(ds)
    copy = pickle.loads(pickle.dumps(ds))
    assert [b.tolist() for b in copy] == [b.tolist() for b in ds]


def test_torch_tensors_are_arrays():
    torch = pytest.importorskip("torch")
    rows = list(D.from_tensor_slices(torch.arange(6).reshape(3, 2)))
    assert rows[2].tolist() == [4, 5]


def test_structures_inside_flat_map_keep_the_users_line():
    def broken(_):
        return D.range(3).map(lambda x: 1 / 0)

    with pytest.raises(hr.ElementError, match=r"map failed on element 0: ZeroDivisionError.*\n.*test_dataset\.py"):
        list(D.range(1).flat_map(broken))


def test_an_error_survives_pickling():
    with pytest.raises(hr.ElementError) as caught:
        list(D.range(1).map(lambda x: 1 / 0))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.ordinal, type(copy.__cause__)) == (str(caught.value), 0, ZeroDivisionError)


def test_a_length_that_is_not_known_says_who_does_not_tell_it():
    with pytest.raises(TypeError, match=r"filter \(.*test_dataset\.py:\d+\) does not tell it; ds\.count\(\) reads"):
        len(D.range(4).filter(bool).repeat(2).batch(2))
    with pytest.raises(TypeError, match=r"infinite; take\(n\)"):
        len(D.range(4).repeat().batch(2))


def ragged(*lengths):
    return D.from_tensor_slices(hr.Ragged.from_rows([np.full(n, n) for n in lengths]))


def test_arrays_of_a_numpy_iterator_cannot_be_written_to():
    for ds in (D.range(4).batch(2), ragged(1, 2), D.range(2).map(lambda n: (n, np.zeros(3)))):
        for element in ds.as_numpy_iterator():
            for leaf in element if isinstance(element, tuple) else [element]:
                assert not isinstance(leaf, np.ndarray) or not leaf.flags.writeable
