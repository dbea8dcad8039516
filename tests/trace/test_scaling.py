"""Bytes cast to float32 and scaled: the same bits as row by row, whichever step does the arithmetic."""

import numpy as np
import pytest
from tests.trace.checks import check

import headrace as hr
from headrace import _native
from headrace.trace import scaling

EVERY_BYTE = np.random.default_rng(0).permuted(np.tile(np.arange(256, dtype=np.uint8), (20, 1)), axis=1)
PIXELS = EVERY_BYTE.reshape(20, 16, 16)
NUMBERS = [1, 3, 255, -7, 127.5, 0.1, -0.0, 1e-30, 1e38, 1 / 255, np.float32(0.225), (1 << 24) + 1, 1e39]


@pytest.fixture
def scaled(monkeypatch):
    """The numbers of values that the kernel was called on."""
    calls = []

    def note(values, *how):
        calls.append(len(values))
        _native.scale_bytes(values, *how)

    monkeypatch.setattr(scaling, "_native", type("Native", (), {"scale_bytes": staticmethod(note)}))
    return calls


OPERATIONS = {
    "add": lambda x, n: x + n,
    "subtract": lambda x, n: x - n,
    "multiply": lambda x, n: x * n,
    "divide": lambda x, n: x / n,
    "number first": lambda x, n: n * x,
    "subtract from": lambda x, n: n - x,
    "divide by bytes": lambda x, n: n / (x + 1),
    "several": lambda x, n: (x / n - 0.5) * np.float32(3) + n,
}


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_bytes_with_any_number(operation, number):
    calculate = OPERATIONS[operation]
    check(lambda x: calculate(x.astype(np.float32), number), PIXELS)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.astype(np.float32) / 255,
        lambda x: np.float32(1 / 255) * x.astype("f4"),
        lambda x: np.asarray(x, np.float32) / 127.5 - 1,
        lambda x: (x.reshape(4, 64).astype(np.float32) - 128.0) / np.float32(58.395),
    ],
)
def test_one_kernel_does_it_all(function, scaled):
    check(function, PIXELS)
    assert scaled


def between(x):
    cast = x.astype(np.float32)
    return cast / 255, cast


def twice(x):
    cast = x.astype(np.float32)
    return cast / 255 + cast


def under_errstate(x):
    with np.errstate(over="raise"):
        return x.astype(np.float32) * 2


@pytest.mark.parametrize(
    "function",
    [
        between,
        twice,
        under_errstate,
        lambda x: x.astype(np.float64) / 255,
        lambda x: x.astype(np.float32) / np.float64(255),
        lambda x: x.astype(np.float32) * np.nan,
        lambda x: x.astype(np.float32) / 0,
        lambda x: x.astype(np.float32) ** 2,
        lambda x: x.astype(np.float32).sum() / 255,
    ],
)
def test_what_it_cannot_do_stays_as_it_was(function, scaled):
    check(function, PIXELS)
    assert not scaled


def test_only_the_steps_without_other_readers(scaled):
    def function(x):
        unit = x.astype(np.float32) / 255
        return unit, unit * 2 - 1

    check(function, PIXELS)
    assert scaled


def test_bytes_in_another_order_of_memory():
    check(lambda x: x.T.astype(np.float32) / 255, PIXELS)
    check(lambda x: x[:, ::-1].astype(np.float32) / 255, PIXELS)
    check(lambda x: x[2:5, 3:].astype(np.float32) / 255, PIXELS)


def test_captured_arrays_are_looked_at_each_time():
    mean = np.full(16, 100, np.float32)
    ds = hr.Dataset.from_tensor_slices(PIXELS).map(lambda x: x.astype(np.float32) * 2 - mean)
    for change in (0, 7):
        mean += change
        assert np.array_equal(np.stack(list(ds)), PIXELS.astype(np.float32) * 2 - mean)


def test_rows_enough_for_several_threads(scaled):
    rows = np.random.default_rng(1).integers(0, 256, (600, 64, 64), np.uint8)
    ds = hr.Dataset.from_tensor_slices(rows).map(lambda x: x.astype(np.float32) / 255).batch(600)
    (made,) = ds
    assert made.tobytes() == (rows.astype(np.float32) / 255).tobytes()
    assert max(scaled) >= 1 << 18
    made += 1  # memory of its own


def test_elements_are_private_and_the_source_stays():
    rows = PIXELS.copy()
    for made in hr.Dataset.from_tensor_slices(rows).map(lambda x: x.astype(np.float32) / 255):
        made[...] = 1
    assert np.array_equal(rows, PIXELS)


def test_the_kernel_checks_what_it_gets():
    bytes_, out = np.zeros(4, np.uint8), np.zeros(4, np.float32)
    what, numbers = np.zeros(1, np.int64), np.ones(1, np.float32)
    for arguments in [
        (bytes_, what, numbers, out[:3]),
        (bytes_, what[:0], numbers[:0], out),
        (bytes_, what, np.ones(2, np.float32), out),
        (bytes_, what + 4, numbers, out),
        (bytes_, what - 1, numbers, out),
    ]:
        with pytest.raises(ValueError, match=r"number|operation|fit"):
            _native.scale_bytes(*arguments)
    with pytest.raises(TypeError):
        _native.scale_bytes(bytes_.astype(np.int8), what, numbers, out)


def test_quotients_are_the_same_to_the_last_bit_for_all_bytes():
    """Whether they are found by dividing or not."""
    values = np.arange(256, dtype=np.uint8)
    odd = np.random.default_rng(0).standard_normal(500) * 10.0 ** np.arange(-25, 25).repeat(10)
    for divisor in np.array([*range(1, 700), 127.5, 255, -255, 3e38, 1e-40, *odd], np.float32):
        out = np.empty(256, np.float32)
        _native.scale_bytes(values, np.array([3]), np.array([divisor]), out)
        with np.errstate(over="ignore", under="ignore"):
            assert out.tobytes() == (values.astype(np.float32) / divisor).tobytes(), divisor
