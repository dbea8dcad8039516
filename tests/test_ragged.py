"""hr.Ragged as an array: parts of it, and dense ones made of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=6), min_size=1, max_size=6)
BOUND = st.none() | st.integers(-8, 8)
CUT = st.builds(slice, BOUND, BOUND, st.none() | st.integers(-3, 3).filter(bool))


def ragged(rows):
    return hr.Ragged.from_rows([np.array(row, np.int64) for row in rows])


@given(ROWS, CUT, CUT)
def test_a_part_of_each_row_is_as_python_slices_lists(rows, first, second):
    assert ragged(rows)[first, second].to_list() == [row[second] for row in rows[first]]


@given(ROWS, CUT)
def test_a_part_of_a_part_is_one(rows, cut):
    view = ragged([*rows, [1]])[1:]
    assert view[:, cut].to_list() == [row[cut] for row in [*rows, [1]][1:]]


@given(st.lists(st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=3), min_size=1, max_size=4), CUT, CUT)
def test_nested_rows_are_cut_on_every_axis(rows, second, third):
    inner = [row for rows_ in rows for row in rows_]
    offsets = np.cumsum([0, *map(len, rows)])
    nested = hr.Ragged(ragged(inner) if inner else hr.Ragged(np.empty(0, np.int64), [0]), offsets)
    found = nested[:, second, third]
    assert [[list(map(int, r)) for r in row] for row in found] == [[r[third] for r in row[second]] for row in rows]


def test_single_values_and_inner_axes():
    r = hr.Ragged(np.arange(8).reshape(4, 2), [0, 3, 4])
    assert r[0, 1].tolist() == [2, 3]
    assert r[0, 1, 0] == 2
    assert r[-1, 0:1, 1].tolist() == [7]
    assert r[:, :, 1].to_list() == [[1, 3, 5], [7]]
    assert r[..., 0].to_list() == [[0, 2, 4], [6]]
    assert r[:, 1:, ::-1].to_list() == [[[3, 2], [5, 4]], []]
    assert r[0, ...].tolist() == r[0].tolist()


def test_what_cannot_be_indexed_says_how():
    r = ragged([[1, 2], [3]])
    with pytest.raises(IndexError, match=r"r\[:, a:b\] takes a part of each"):
        r[:, 0]
    with pytest.raises(IndexError, match="3 indices are too many"):
        r[:, :, :]
    with pytest.raises(IndexError):
        r[0, 2]
    with pytest.raises(ValueError, match="step"):
        r[:, ::0]


@given(ROWS, st.none() | st.integers(0, 8), st.none() | st.integers(0, 8), st.integers(-3, 3))
def test_a_tensor_is_filled_up_and_cut_off(rows, count, length, fill):
    found = ragged(rows).to_tensor(fill, shape=(count, length))
    width = max(map(len, rows)) if length is None else length
    height = len(rows) if count is None else count
    want = [[*row[:width], *[fill] * (width - len(row))] for row in rows[:height]]
    want += [[fill] * width for _ in range(height - len(rows))]
    assert found.tolist() == want
    assert found.shape == (height, width)


def test_what_a_tensor_is_filled_with():
    assert ragged([[1], []]).to_tensor().tolist() == [[1], [0]]
    text = hr.Ragged.from_rows([np.array([b"a", b"b"], object), np.array([], object)])
    assert text.to_tensor().tolist() == [[b"a", b"b"], [b"", b""]]
    assert text.to_tensor(b"x", shape=(None, 1)).tolist() == [[b"a"], [b"x"]]
    pairs = hr.Ragged(np.arange(4).reshape(2, 2), [0, 2, 2])
    assert pairs.to_tensor([7, 9]).tolist() == [[[0, 1], [2, 3]], [[7, 9], [7, 9]]]
    with pytest.raises(TypeError, match="is no int64"):
        ragged([[1]]).to_tensor(0.5)
    with pytest.raises(ValueError, match="2 axes"):
        ragged([[1]]).to_tensor(shape=(1, 1, 1))
    with pytest.raises(ValueError, match="does not fit"):
        pairs.to_tensor(shape=(None, None, 3))


def test_ragged_converts():
    r = hr.Ragged.from_rows([[1, 2], [], [3]])
    assert r.to_arrow().to_pylist() == [[1, 2], [], [3]]
    assert r.take(np.array([2, 0])).to_list() == [[3], [1, 2]]
    assert r[1:].to_padded(9, 2).tolist() == [[9, 9], [3, 9]]
    with pytest.raises(ValueError, match="more than the 1"):
        r.to_padded(length=1)
    with pytest.raises(ValueError, match="offsets"):
        hr.Ragged([1, 2], [0, 3])
    torch = pytest.importorskip("torch")
    assert torch.equal(r.to_torch().unbind()[0], torch.tensor([1, 2]))


def test_rows_without_a_value_are_padded():
    assert hr.Ragged.from_rows([np.empty(0, np.int64)] * 2).to_padded(7, 3).tolist() == [[7] * 3] * 2
