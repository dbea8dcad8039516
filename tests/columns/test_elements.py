"""Elements of columns that are arrays and lists, made by one call each."""

import gc
import sys

import numpy as np
import pytest

from headrace import _native
from headrace.columns.block import Block
from headrace.plan.structure import flatten


def test_rows_are_dicts_in_the_order_of_writing():
    columns = [np.arange(6).reshape(2, 3), ["a", "b"], np.arange(2.0)]
    rows = list(_native.elements(columns, ("z", "t", "n"), (0, 1, 2), 2))
    assert [list(row) for row in rows] == [["z", "t", "n"]] * 2
    assert [row["z"].tolist() for row in rows] == [[0, 1, 2], [3, 4, 5]]
    assert [(row["t"], row["n"]) for row in rows] == [("a", 0.0), ("b", 1.0)]
    assert type(rows[0]["n"]) is np.float64


def test_rows_are_tuples_without_keys():
    rows = list(_native.elements([np.arange(4).reshape(2, 2), np.arange(2)], None, (1, 0), 2))
    assert [(int(number), pair.tolist()) for number, pair in rows] == [(0, [0, 1]), (1, [2, 3])]


@pytest.mark.parametrize("array", [np.arange(24.0).reshape(4, 3, 2), np.arange(12, dtype=">i4").reshape(3, 4).T])
def test_rows_are_those_that_iteration_gives(array):
    for own, numpy in zip(_native.elements([array], None, (0,), len(array)), array, strict=True):
        (view,) = own
        assert np.array_equal(view, numpy)
        assert view.dtype == numpy.dtype
        assert view.strides == numpy.strides
        assert view.flags.writeable
        assert str(view.flags) == str(numpy.flags)
        assert np.shares_memory(view, array)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2020-01-01", "NaT"], "M8[s]"),
        np.array([(1, 2.0), (3, 4.0)], [("a", int), ("b", float)]),
        np.array([None, "x"], object),
        np.array([True, False]),
    ],
    ids=str,
)
def test_scalars_are_those_of_numpy(values):
    made = [value for (value,) in _native.elements([values], None, (0,), 2)]
    assert [(type(value), str(value)) for value in made] == [(type(value), str(value)) for value in values]


def test_read_only_columns_give_read_only_rows():
    array = np.arange(4).reshape(2, 2)
    array.flags.writeable = False
    ((row,), _) = _native.elements([array], None, (0,), 2)
    assert not row.flags.writeable


def test_what_is_no_array_or_list_of_as_many_rows_is_left_to_others():
    assert _native.elements([np.arange(3)], None, (0,), 2) is None
    assert _native.elements([(1, 2)], None, (0,), 2) is None
    assert _native.elements([np.array(1)], None, (0,), 1) is None


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="no such column"):
        _native.elements([np.arange(2)], None, (1,), 2)
    with pytest.raises(ValueError, match="a key for each"):
        _native.elements([np.arange(2)], ("a", "b"), (0,), 2)
    with pytest.raises(ValueError, match="different keys"):
        _native.elements([np.arange(2)] * 2, ("a", "a"), (0, 1), 2)


def test_nothing_is_kept_once_the_rows_are_dropped():
    array = np.zeros((2, 2))
    before = sys.getrefcount(array)
    rows = _native.elements([array, [1, 2]], ("a", "b"), (0, 1), 2)
    row = next(rows)
    assert sys.getrefcount(array) == before + 2
    del rows, row
    gc.collect()
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize("one", [{"b": 1, "a": 2, "c": "x"}, (1, "x"), {"a": {"b": 1}}, "x", 1, {}], ids=str)
def test_elements_of_a_block_are_what_iteration_over_columns_gives(one):
    structure, leaves = flatten(one)
    columns = [[leaf] * 3 if isinstance(leaf, str) else np.arange(3) + leaf for leaf in leaves]
    made, _ = Block(structure, columns, 3).consumer_elements()
    assert str(list(made)) == str(list(Block(structure, columns, 3).elements()))
