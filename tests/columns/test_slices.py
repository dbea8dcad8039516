"""Slices of blocks, and what several columns are made into by one call."""

import pickle

import numpy as np
import pytest

import headrace as hr
from headrace import _native, columns
from headrace.columns.block import MIN_COLUMNS_SLICED_LAZILY, Block, concat, fold
from headrace.plan.structure import flatten

ROWS = 12


def block(width):
    """A block of columns of several kinds, repeated up to a width."""
    grid = np.arange(2 * ROWS).reshape(ROWS, 2)
    kinds = [
        np.arange(ROWS),
        grid,
        grid[:, ::-1],
        columns.text_column([f"row {i}" for i in range(ROWS)]),
        hr.Ragged.from_rows([[i] * (i % 3) for i in range(ROWS)]),
        [object() for _ in range(ROWS)],
        np.arange(ROWS).astype(object),
    ]
    made = [kinds[i % len(kinds)] for i in range(width)]
    structure, _ = flatten({str(i): 0 for i in range(width)})
    return Block(structure, made, ROWS)


def rows(block):
    return [[str(value) for value in columns.values(column)] for column in block.columns]


WIDTHS = 1, MIN_COLUMNS_SLICED_LAZILY - 1, MIN_COLUMNS_SLICED_LAZILY, 14


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("start", "stop"), [(0, 3), (2, 9), (5, 5), (9, 10)])
def test_a_slice_of_a_slice_has_the_rows_of_both(width, start, stop):
    whole = block(width)
    part = whole.slice(1, 11).slice(start, stop)
    assert rows(part) == [column[1 + start : 1 + stop] for column in rows(whole)]
    assert part.rows == stop - start


@pytest.mark.parametrize("width", WIDTHS)
def test_slices_are_joined_as_if_they_were_made(width):
    whole = block(width)
    joined = concat([whole.slice(3, 9).slice(2, 5), whole.slice(0, 4), whole])
    assert rows(joined) == [[*column[5:8], *column[:4], *column] for column in rows(whole)]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_slice_that_is_sent_holds_its_own_rows_alone(width):
    structure, _ = flatten({str(i): 0 for i in range(width)})
    whole = Block(structure, [np.arange(100_000)] * width, 100_000)
    sent = pickle.dumps(whole.slice(10, 20))
    assert len(sent) < 10_000
    assert rows(pickle.loads(sent)) == [[str(i) for i in range(10, 20)]] * width


def test_views_are_writable_only_if_their_arrays_are():
    locked = np.arange(4)
    locked.flags.writeable = False
    for made in (
        _native.slice_columns([locked, np.arange(4)], 1, 3),
        _native.fold_columns([locked, np.arange(4)], 2)[0],
    ):
        assert [view.flags.writeable for view in made] == [False, True]


def test_views_keep_their_arrays_alive():
    (part,) = _native.slice_columns([np.arange(1000)], 10, 20)
    (folded,), _ = _native.fold_columns([np.arange(1000)], 10)
    np.arange(5000)
    assert part.tolist() == [*range(10, 20)]
    assert folded.tolist() == np.arange(1000).reshape(100, 10).tolist()


def test_slices_beyond_the_end_are_shorter_as_in_python():
    assert [part.tolist() for part in _native.slice_columns([np.arange(4)], 2, 9)] == [[2, 3]]


def test_folding_copies_nothing_and_leaves_what_would_be_copied():
    source = np.arange(12.0).reshape(6, 2)
    (made, *left), whole = _native.fold_columns([source, source[::2], source[:5], ["a", "b", "c"]], 3)
    assert made.shape == (2, 3, 2)
    assert np.shares_memory(made, source)
    assert left == [None, None, None]
    assert not whole
    folded = fold(block(4), 4)
    assert not isinstance(folded, str)
    assert [column[1].tolist() for column in folded.columns[:3]] == [c[4:8].tolist() for c in block(4).columns[:3]]
