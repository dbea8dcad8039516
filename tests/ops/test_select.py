"""ds[i] and ds[i:j]: elements by number."""

import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize("index", [0, 3, 9, -1, -10])
def test_elements_by_number(index):
    ds = D.range(10).map(lambda x: x * x).enumerate().skip(0)
    assert ds[index] == (index % 10, (index % 10) ** 2)


@pytest.mark.parametrize("index", [10, -11])
def test_a_number_out_of_range_is_an_index_error(index):
    with pytest.raises(IndexError, match="10"):
        D.range(10)[index]


@pytest.mark.parametrize(
    "cut", [slice(2, 5), slice(None, None, 3), slice(None, None, -1), slice(-3, None), slice(5, 2)]
)
def test_slices_are_datasets(run, cut):
    assert numbers(run(D.range(10).map(lambda x: x)[cut])) == list(range(10))[cut]


def test_indexing_says_which_operation_prevents_it():
    with pytest.raises(hr.NotIndexableError, match=r"filter \(.*test_select\.py:\d+\)"):
        D.range(10).filter(lambda x: True).batch(2)[0]


def test_infinite_datasets_are_indexed_from_the_start_only():
    ds = D.range(3).repeat()
    assert ds[7] == 1
    assert numbers(ds[4:8]) == [1, 2, 0, 1]
    with pytest.raises(IndexError):
        ds[-1]
    with pytest.raises(IndexError):
        ds[2:]
