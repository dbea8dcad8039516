"""Every kind of column comes back from Arrow as it went in, to the bit."""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.columns import values
from headrace.storage.columns import decoded, encoded

COLUMNS = {
    "integers": np.arange(5),
    "small integers": np.arange(6, dtype=np.uint8).reshape(3, 2),
    "half floats": np.array([1, -0.0, np.nan, np.inf], np.float16),
    "doubles of images": np.arange(24.0).reshape(2, 3, 4),
    "booleans": np.array([[True, False], [False, False]]),
    "complex": np.array([1 + 2j, np.nan * 1j]),
    "long doubles": np.array([1.5, 2.5], np.longdouble),
    "dates": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "durations": np.array([[1, 2]], "m8[ms]"),
    "another byte order": np.arange(3, dtype=">i4"),
    "a part of an array": np.arange(20)[3:9:2],
    "transposed": np.arange(6).reshape(2, 3).T,
    "rows without values": np.empty((3, 0, 2), np.float32),
    "ragged": hr.Ragged.from_rows([[1, 2], [], [3]]),
    "a part of a ragged one": hr.Ragged.from_rows([[1, 2], [], [3], [4, 5]])[1:4],
    "ragged booleans": hr.Ragged.from_rows([[True], [], [False, True]], bool),
    "ragged vectors": hr.Ragged(np.arange(6.0).reshape(3, 2), [0, 1, 1, 3]),
    "ragged rows of nothing": hr.Ragged(np.empty((3, 0)), [0, 1, 1, 3]),
    "arrow strings": pa.array(["a", "", "ü"], pa.large_string()),
    "arrow bytes": pa.array([b"\0", b"a\0"], pa.large_binary())[1:],
    "batches of strings": np.array([["a", "b"], ["c", ""]], object),
    "batches of bytes": np.array([[b"a\0"], [b""]], object),
    "strings that are no UTF-8": ["\ud800", "b"],
    "batches of such": np.array([["\ud800"], ["b"]], object),
    "images of different sizes": [np.ones((2, 3)), np.zeros((1, 1), np.uint8)],
    "scalars of different kinds": [np.int64(1), np.float32(2), "three", b"four"],
    "ragged elements": [hr.Ragged.from_rows([[1], []]), hr.Ragged.from_rows([[]])],
    "arrays of strings": [np.array(["a"], object), np.array([["b", "c"]], object)],
}


def alike(a, b):
    if isinstance(a, np.ndarray | np.generic):
        same = a.dtype == b.dtype and a.shape == b.shape and type(a) is type(b)
        return same and (a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes())
    if isinstance(a, hr.Ragged):
        return a == b and a.values.shape == b.values.shape
    return a == b


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back(name):
    column = COLUMNS[name]
    array, how = encoded(column)
    made = decoded(array, how)
    assert len(made) == len(column)
    assert all(alike(a, b) for a, b in zip(values(column), values(made), strict=True))


def test_numbers_are_arrow_numbers_and_come_back_without_a_copy():
    array, how = encoded(np.arange(6.0).reshape(2, 3))
    assert array.type == pa.list_(pa.float64(), 3)
    made = decoded(array, how)
    assert not made.flags.owndata
    assert not made.flags.writeable


def test_an_unknown_object_is_rejected():
    with pytest.raises(hr.StorageError, match="a dict_keys cannot be stored; map it to arrays"):
        encoded([{}.keys()])
