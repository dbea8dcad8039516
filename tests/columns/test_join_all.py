"""Many columns are joined in one call as they are one by one."""

import numpy as np
import pytest

import headrace as hr
from headrace import _native, columns
from headrace.columns.dense import MIN_THREADED_COPY_BYTES
from headrace.testing import same


class Subclass(np.ndarray):
    pass


PADDED = np.dtype([("a", np.int8), ("b", np.int64)], align=True)
LOCKED = np.arange(5)
LOCKED.flags.writeable = False
NANS = np.array([0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_0123], np.uint64).view(np.float64)

JOINED = {
    "one array": [np.arange(5)],
    "numbers": [np.arange(5), np.arange(3), np.arange(0)],
    "bits of NaNs": [NANS, NANS[::-1].copy()],
    "images": [np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.ones((1, 3, 4), np.uint8)],
    "times": [np.array([1, 2], "M8[s]")] * 2,
    "truth": [np.array([True, False]), np.array([True])],
    "text of one width": [np.array(["ab", "c"])] * 2,
    "read-only": [LOCKED, LOCKED],
}
LEFT = {
    "nothing": [np.empty((2, 0)), np.empty((1, 0))],
    "several dtypes": [np.arange(3), np.arange(3.0)],
    "several shapes": [np.ones((2, 3)), np.ones((2, 4))],
    "byte order": [np.arange(3, dtype=">i4"), np.arange(2, dtype=">i4")],
    "strided": [np.arange(9)[::2], np.arange(9)[::2]],
    "repeated": [np.broadcast_to(np.int64(3), 4), np.arange(2)],
    "objects": [np.array([1, "a"], object), np.array([None, 2], object)],
    "fields": [np.zeros(2, PADDED), np.zeros(1, PADDED)],
    "subclass": [np.arange(2).view(Subclass), np.arange(2).view(Subclass)],
    "text of several widths": [np.array(["ab"]), np.array(["abc"])],
    "ragged": [hr.Ragged.from_rows([[1], [2, 3]]), hr.Ragged.from_rows([[4]])],
    "lists": [["a", 1], [2]],
}


@pytest.mark.parametrize("name", [*JOINED, *LEFT])
def test_each_group_is_joined_as_alone(name):
    group = (JOINED | LEFT)[name]
    bounds = [(0, len(column)) for column in group]
    others = [np.ones(len(column)) for column in group]
    _, got, _ = columns.join_all([others, group, others], bounds)
    want = columns.join(group)
    assert type(got) is type(want)
    if isinstance(want, np.ndarray):
        assert (got.dtype, got.shape, got.flags.writeable) == (want.dtype, want.shape, True)
        assert got.dtype == object or got.tobytes() == want.tobytes()
    assert same(got, want)


def test_plain_arrays_are_joined_by_the_one_call_and_others_are_not():
    names = [*JOINED, *LEFT]
    made = [_join_whole((JOINED | LEFT)[name]) for name in names]
    assert [name for name, each in zip(names, made, strict=True) if each is not None] == [*JOINED]


def _join_whole(group):
    (made,) = _native.join_arrays([group], MIN_THREADED_COPY_BYTES, [(0, len(column)) for column in group])
    return made


def test_large_arrays_are_left_to_several_threads():
    small, large = np.ones(10), np.ones(MIN_THREADED_COPY_BYTES // 8)
    made = [_join_whole(group) for group in ([small, small], [large], [np.ones(2), np.ones((2, 1))])]
    assert [each is None for each in made] == [False, True, True]


def test_only_the_rows_within_bounds_are_joined():
    text = columns.text_column(["a", "b", "c", "d"])
    wide = np.arange(8).reshape(4, 2)
    groups = [[np.arange(4), np.arange(10, 14)], [wide, -wide], [text, text], [wide[::2], wide[:2]]]
    assert [list(map(str, columns.values(made))) for made in columns.join_all(groups[:3], [(1, 3), (0, 2)])] == [
        ["1", "2", "10", "11"],
        [str(row) for row in (*wide[1:3], *-wide[:2])],
        ["b", "c", "a", "b"],
    ]
    (made,) = columns.join_all(groups[3:], [(1, 2), (0, 1)])
    assert made.tolist() == [[4, 5], [0, 1]]


def test_joined_arrays_are_copies():
    source = np.arange(4)
    (made,) = columns.join_all([[source, source]], [(0, 4), (0, 4)])
    source[:] = 9
    assert made.tolist() == [0, 1, 2, 3] * 2


def test_many_columns_are_joined_without_the_gil():
    """The total counts, not each column: 300 of them of 2 kB are more than the GIL is held for."""
    groups = [[np.full(128, i), np.full(128, -i)] for i in range(300)]
    for i, made in enumerate(columns.join_all(groups, [(0, 128), (0, 128)])):
        assert made.tolist() == [i] * 128 + [-i] * 128


@pytest.mark.parametrize("groups", [[3], 3, [[np.arange(2)], None]])
def test_what_is_no_list_of_groups_is_an_error(groups):
    with pytest.raises((TypeError, RuntimeError)):
        _native.join_arrays(groups, 1 << 20, [(0, 2)])
