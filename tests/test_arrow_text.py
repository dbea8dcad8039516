"""Columns in Arrow's layout: what the kernels make of them is what Arrow would."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native
from headrace.columns.arrow_text import binary, parts, pick_text

ROWS = {pa.large_binary(): st.binary(max_size=9), pa.large_string(): st.text(max_size=5)}


@given(st.data(), st.sampled_from(list(ROWS)))
def test_rows_are_picked_out_of_several_columns(data, kind):
    columns = data.draw(st.lists(st.lists(ROWS[kind], min_size=1, max_size=6), min_size=1, max_size=4))
    arrays = [pa.array(["x", *rows, "y"], kind).slice(1, len(rows)) for rows in columns]
    every = [row for rows in columns for row in rows]
    order = data.draw(st.lists(st.integers(0, len(every) - 1), max_size=12))
    made = pick_text(arrays, np.array(order, np.int64))
    assert made.type == kind
    assert made.to_pylist() == [every[i] for i in order]


def test_what_has_no_bytes_of_its_own_is_picked_as_well():
    order = np.array([3, 0, 2])
    assert pick_text([pa.array([1, 2]), pa.array([3, 4])], order).to_pylist() == [4, 1, 3]
    nulls = [pa.array([b"a", None], pa.large_binary()), pa.array([b"b", b"c"], pa.large_binary())]
    assert pick_text(nulls, order).to_pylist() == [b"c", b"a", b"b"]


def test_parts_and_binary_are_the_two_directions():
    column = pa.array([b"", b"ab", b"c"], pa.large_binary()).slice(1)
    assert binary(*parts(column)).to_pylist() == [b"ab", b"c"]


@pytest.mark.parametrize(("which", "rows"), [([1], [0]), ([0], [2]), ([-1], [0]), ([0], [-1]), ([0, 0], [0])])
def test_rows_that_are_not_there_are_refused(which, rows):
    column = parts(pa.array([b"a", b"b"], pa.large_binary()))
    with pytest.raises(ValueError, match=r"no such part|out of range|numbers of rows"):
        _native.text_pick([column], np.array(which), np.array(rows))
