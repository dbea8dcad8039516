"""Arithmetic with a number on rows of unknown sizes: vectorized, and the same bits as row by row."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation, same

RANDOM = np.random.default_rng(0)


def images(shapes, dtype):
    made = [(RANDOM.normal(0, 50, shape) + 100).astype(dtype) for shape in shapes]
    at = iter(range(10**9))
    signature = hr.TensorSpec((None, None, 3), dtype)
    return made, hr.Dataset.from_generator(
        lambda: (made[next(at) % len(made)] for _ in made), output_signature=signature
    )


FUNCTIONS = {
    "scaled": lambda x: x / np.float32(255),
    "by Python's": lambda x: x / 127.5 - 1,
    "from the right": lambda x: 1 - x * 2,
    "cast": lambda x: x.astype(np.float32) / 255,
    "wide": lambda x: x.astype(np.float64) * np.float64(0.1) + 3,
    "resized": lambda x: hr.image.resize(x, (5, 4)) / np.float32(255),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
@pytest.mark.parametrize("shapes", [[(4, 5, 3)] * 6, [(i + 1, 7 - i, 3) for i in range(6)]], ids=["even", "uneven"])
def test_rows_of_any_size(function, dtype, shapes):
    rows, ds = images(shapes, dtype)
    made = ds.map(FUNCTIONS[function])
    assert "vectorised" in str(made.explain())
    for got, row in zip(made, rows, strict=True):
        assert same(got, FUNCTIONS[function](row))


def test_ragged_rows():
    rows = hr.Ragged.from_rows([np.arange(n, dtype=np.int32) for n in (3, 0, 5, 1)])
    ds = hr.Dataset.from_tensor_slices(rows).map(lambda x: x * 2 + 1)
    assert "vectorised" in str(ds.explain())
    check_transformation(ds)
    assert [x.tolist() for x in ds] == [[1, 3, 5], [], [1, 3, 5, 7, 9], [1]]


def test_large_rows_keep_their_dtype():
    rows = [np.full((400, 300 + i, 3), i, np.uint8) for i in range(6)]
    ds = hr.Dataset.from_generator(lambda: iter(rows), output_signature=hr.TensorSpec((None, None, 3), np.uint8))
    for function in (lambda x: x * 2, lambda x: x / 2, lambda x: x + np.float32(0.5), lambda x: x - np.int16(300)):
        for got, row in zip(ds.map(function), rows, strict=True):
            assert same(got, function(row))


@pytest.mark.parametrize(
    "function", [lambda x: x * np.nan, lambda x: x + x, lambda x: x.astype(np.int8), lambda x: x * [1, 2, 3]]
)
def test_what_is_not_done_value_by_value_goes_row_by_row(function):
    rows, ds = images([(2, 2, 3), (3, 1, 3)], np.float32)
    made = ds.map(function)
    with np.errstate(invalid="ignore"):
        for got, row in zip(made, rows, strict=True):
            assert same(got, function(row))
    assert "row by row: " in str(made.explain())
