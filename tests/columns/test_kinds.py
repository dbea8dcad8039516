"""What every kind of column can do, compared with the same done to its rows one by one."""

import pickle
import sys

import numpy as np
import pytest

import headrace as hr
from headrace import _native, columns
from headrace.columns import Stacked, Varied, kind_of
from headrace.storage.columns import decoded, encoded
from headrace.testing import same

RNG = np.random.default_rng(5)


def arrays(*shapes, dtype=np.int16):
    return [RNG.integers(0, 99, shape).astype(dtype) for shape in shapes]


RAGGED = hr.Ragged.from_rows([[1, 2], [], [3], [4, 5, 6], [7], [8]])
COLUMNS = {
    "numbers": np.arange(6) * 2.5,
    "dense": RNG.integers(0, 9, (6, 2, 3)),
    "nothing": np.empty((6, 0, 2), np.float32),
    "ragged": RAGGED,
    "ragged, of arrays": hr.Ragged.from_rows(arrays((2, 2), (0, 2), (1, 2), (3, 2), (1, 2), (2, 2))),
    "ragged, of ragged": hr.Ragged(RAGGED, [0, 2, 3, 3, 4, 6, 6]),
    "bytes": columns.text_column([b"a", b"", b"\0c", b"dd", b"e", b"f"]),
    "str": columns.text_column(["a", "é", "", "dd", "e", "f"]),
    "batches of text": Stacked(columns.text_column([f"{i}" * (i % 4) for i in range(12)]), (2,)),
    "arrays of text": Stacked(columns.text_column([b"%d" % i for i in range(36)]), (2, 3)),
    "images": columns.column_of(arrays((2, 3, 1), (4, 2, 1), (1, 1, 1), (2, 3, 1), (3, 3, 1), (2, 5, 1))),
    "lists": [b"x", "y", np.int64(3), np.arange(3), hr.Ragged.from_rows([[1], []]), None],
}


@pytest.fixture(params=COLUMNS)
def column(request):
    return COLUMNS[request.param]


def rows(column):
    return list(columns.values(column))


def alike(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert same(a, b), (a, b)


def test_the_kinds_are_what_they_should_be():
    kinds = {name: kind_of(column).name for name, column in COLUMNS.items()}
    assert {*kinds.values()} == {"dense", "ragged", "text", "stacked", "varied", "objects"}
    assert isinstance(COLUMNS["images"], Varied)


def test_rows_are_taken_and_cut(column):
    want = rows(column)
    alike(rows(columns.take(column, np.array([4, 0, 0, 2]))), [want[i] for i in (4, 0, 0, 2)])
    alike(rows(columns.take(column, np.array([], np.int64))), [])
    alike(rows(column[1:4]), want[1:4])
    alike(rows(column[:0]), [])
    alike(rows(columns.take(column[2:], np.array([1]))), [want[3]])


def test_columns_are_joined_and_picked_from(column):
    want = rows(column)
    alike(rows(columns.join([column[3:], column[:2], column[2:2]])), want[3:] + want[:2])
    alike(rows(columns.pick([column[:2], column[2:]], np.array([5, 1, 2]))), [want[i] for i in (5, 1, 2)])


def test_objects_are_picked_from_several_arrays():
    texts = [f"text {i}" for i in range(20)]
    whole = columns.objects.boxes(texts)
    parts = [whole[:3], whole[3:3], whole[3:13:2], whole[4:14:2], whole[13:]]
    joined = np.concatenate(parts)
    order = np.array([*range(2, 12), 0, 19, 19, 5], np.int64)
    before = sys.getrefcount(texts[5])
    got = columns.pick(parts, order)
    assert got.tolist() == joined[order].tolist()
    assert all(a is b for a, b in zip(got, joined[order], strict=True))
    del got, joined
    assert sys.getrefcount(texts[5]) == before
    assert columns.pick(parts, order[:0]).tolist() == []


def test_picked_objects_keep_what_their_dtype_says():
    words = [np.array([b"a", b"b"], columns.text.BYTES), np.array([b"c"], object)]
    assert columns.text.is_of_bytes(columns.pick(words, np.array([2, 0])).dtype)


@pytest.mark.parametrize("order", [[3], [-1], [0, 1, 2, 1 << 62]])
def test_no_object_is_picked_from_outside(order):
    parts = [np.array(["a", "b"], object), np.array(["c"], object)]
    with pytest.raises(ValueError, match="no such row"):
        _native.pick_objects(parts, np.array(order))
    with pytest.raises(ValueError, match="no such row"):
        _native.pick_objects([], np.array([0]))
    with pytest.raises(ValueError, match="arrays of objects"):
        _native.pick_objects([np.arange(3)], np.array([0]))


@pytest.mark.parametrize("other", COLUMNS)
def test_columns_of_different_kinds_are_joined(column, other):
    alike(rows(columns.join([column[:2], COLUMNS[other][1:3]])), rows(column)[:2] + rows(COLUMNS[other])[1:3])
    order = np.array([3, 0, 2])
    want = rows(column)[:2] + rows(COLUMNS[other])[1:3]
    alike(rows(columns.pick([column[:2], COLUMNS[other][1:3]], order)), [want[i] for i in order])


def test_columns_are_stored_as_they_are(column):
    if isinstance(column, list):
        column = column[:-1]  # None is not to be stored
    for part in (column, column[1:4]):
        alike(rows(decoded(*encoded(part))), rows(part))


def test_columns_are_sent_to_other_processes(column):
    alike(rows(pickle.loads(pickle.dumps(column[1:5]))), rows(column)[1:5])


def test_a_locked_column_is_read_only(column):
    alike(rows(columns.owned(column)), rows(column))
    for row in rows(columns.owned(column)) + rows(columns.read_only(column)):
        if isinstance(row, np.ndarray) and not row.dtype.hasobject:
            assert not row.flags.writeable


def test_memory_is_counted(column):
    assert columns.column_bytes(column) >= 0
    assert columns.column_bytes(column[:2]) <= columns.column_bytes(column) + 1000


@pytest.mark.parametrize("name", ["numbers", "dense", "bytes", "str", "batches of text", "arrays of text"])
def test_rows_are_stacked_and_taken_apart(name):
    column = COLUMNS[name]
    stacked = kind_of(column).stack(column, 3, "")
    made = rows(stacked)
    for i, row in enumerate(made):
        alike(list(row), rows(column)[3 * i : 3 * i + 3])
    apart, counts = kind_of(stacked).unstack(stacked)
    assert counts.tolist() == [3, 3]
    alike(rows(apart), rows(column))


def test_ragged_rows_are_stacked_with_one_rank_more():
    column = COLUMNS["ragged, of ragged"]
    stacked = kind_of(column).stack(column, 2, "")
    made = rows(stacked)
    assert [row.to_list() for row in made] == [[[[1, 2], []], [[3]]], [[], [[4, 5, 6]]], [[[7], [8]], []]]
    apart, counts = kind_of(stacked).unstack(stacked)
    assert counts.tolist() == [2, 2, 2]
    alike(rows(apart), rows(column))


@pytest.mark.parametrize("name", ["ragged", "images", "lists"])
def test_rows_that_cannot_be_stacked_say_which(name):
    column = COLUMNS[name]
    why = kind_of(column).stack(column, 3, "['x']")
    assert isinstance(why, str) and "['x']" in why, why


def test_what_is_no_column_is_named():
    with pytest.raises(TypeError, match="set is not a column"):
        kind_of({1, 2})
    with pytest.raises(ValueError, match="a column stored as 'nonsense'"):
        decoded(None, {"kind": "nonsense"})


@pytest.mark.parametrize(
    "notes",
    [{"dtype": "<i2"}, {"dtype": "O"}, {}],
    ids=str,
)
def test_shapes_that_do_not_fit_what_is_stored_are_refused(notes):
    array, found = encoded(COLUMNS["images"])
    assert rows(decoded(array, found))
    if notes == {"dtype": "<i2"}:
        import pyarrow as pa

        values, _ = array.flatten()
        wide = pa.FixedSizeListArray.from_arrays(pa.array(np.full(18, 1 << 32)), 3)
        array, notes = pa.StructArray.from_arrays([values, wide], ["values", "shape"]), found
    else:
        notes = {"kind": "varied", **notes}
    with pytest.raises((ValueError, KeyError)):
        decoded(array, notes)
