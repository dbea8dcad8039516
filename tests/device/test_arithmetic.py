"""NumPy's operations on PyTorch's CPU device against NumPy: the same dtypes, shapes and, for exact ones, bits."""

import numpy as np
import pytest

import headrace as hr

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small operations on several threads wait for the slowest of them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


f32 = np.float32
TABLE = np.arange(20, dtype=np.float32).reshape(10, 2)
MATRIX = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
EXACT = {
    "arithmetic": lambda x, i, u: (x * 2 - x / 3 + 1, i * 2 - 7, u + u, u / 255, u / f32(255), -x, abs(i), i**2),
    "mixed dtypes": lambda x, i, u: (x + u[:5], i / 2, u * f32(0.5), i + u[2:], x * i[0], x > u[1:], u == 3, i * True),
    "division of integers": lambda x, i, u: (i // 3, i % 3, -i // 3, -i % 3, u // 7, i % -4),
    "division by zero": lambda x, i, u: (i // (i * 0), i % (i * 0), x / (x * 0)),
    "rounding": lambda x, i, u: (np.floor(x), np.ceil(x), np.rint(x * 10), np.trunc(x), np.sign(x)),
    "choices": lambda x, i, u: (
        np.where(x > 0, x, 0),
        np.maximum(x, f32(0.1)),
        np.clip(x, -0.5, 0.5),
        np.clip(i, 2, None),
    ),
    "logic": lambda x, i, u: (
        (x > 0) & (i[0] > 2),
        ~(x > 0),
        np.logical_or(x > 0, i[0] > 1),
        i & 3,
        i | 8,
        i ^ 5,
        i << 2,
    ),
    "casts": lambda x, i, u: (
        x.astype(np.float64),
        (x * 100).astype(np.int8),
        u.astype(f32),
        x.astype(bool),
        np.float16(x),
    ),
    "reductions": lambda x, i, u: (
        x.max(),
        i.sum(),
        u.sum(dtype=np.int64),
        i.min(axis=0),
        (x > 0).any(),
        (x > 0).all(axis=1),
    ),
    "places of extremes": lambda x, i, u: (x.argmax(), x.argmin(axis=1), i.argmax(axis=0)),
    "shapes": lambda x, i, u: (
        x.reshape(5, -1),
        x.T,
        x.ravel(),
        np.expand_dims(x, 0),
        x[None],
        x.swapaxes(0, 1),
        x.flatten(),
    ),
    "order": lambda x, i, u: (x[::-1], x[:, ::-1], np.flip(x), np.roll(x, 1, axis=1), np.fliplr(x), np.repeat(i, 2)),
    "parts": lambda x, i, u: (
        x[0],
        x[..., 1],
        x[1:, :2],
        x[-1, -1],
        x[[0, 2]],
        np.take(x, [1, 0], axis=1),
        x[:, None, 0],
    ),
    "joined": lambda x, i, u: (np.concatenate([x, x * 2]), np.stack([x, x], axis=-1), np.concatenate([x, x], axis=1)),
    "padded": lambda x, i, u: (np.pad(x, 1), np.pad(x, ((1, 0), (0, 2)), constant_values=3), np.pad(x, 1, mode="edge")),
    "lookups": lambda x, i, u: (TABLE[i % 10], np.take(TABLE, i % 10, axis=0), np.eye(5, dtype=f32)[i % 5]),
    "one hot": lambda x, i, u: ((np.arange(6) == i[0] % 6).astype(f32),),
    "scalars": lambda x, i, u: (x.max() * 2 + i[0], np.array([x[0, 0], x[1, 1]]), f32(i[1])),
    "nothing": lambda x, i, u: {"x": x, "two": 2.0, "i": i},
}
NEAR = {
    "means": lambda x, i, u: (x.mean(), u.mean(axis=0), x.std(), x.var(axis=1), x.sum(), x.prod(), np.mean(i)),
    "functions": lambda x, i, u: (np.exp(x), np.log(abs(x) + 1), np.sqrt(abs(x)), np.sin(x), np.tanh(x), abs(x) ** 1.5),
    "products": lambda x, i, u: (x @ MATRIX, np.matmul(x, MATRIX)),
    "normalised": lambda x, i, u: ((x - x.mean()) / (x.std() + f32(1e-6)), u / f32(255) - f32(0.5)),
}


def written(x, i, u):
    y = x * 1
    y[..., 0] = 0
    y *= 2
    return y, u


def rows():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(9, 3, 5)).astype(np.float32)
    return hr.Dataset.from_tensor_slices((x, rng.integers(0, 50, (9, 4)), rng.integers(0, 256, (9, 6), dtype=np.uint8)))


def compare(fn, check):
    here, there = list(rows().map(fn)), list(rows().map(fn, device="cpu"))
    assert len(there) == len(here) == 9
    for a, b in zip(there, here, strict=True):
        pairs = zip(a.values(), b.values(), strict=True) if isinstance(a, dict) else zip(a, b, strict=True)
        for ours, theirs in pairs:
            assert (type(ours), ours.dtype, np.shape(ours)) == (type(theirs), theirs.dtype, np.shape(theirs))
            check(ours, theirs)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fn", [*EXACT.values(), written], ids=[*EXACT, "written"])
def test_the_same_bits(fn):
    compare(fn, lambda a, b: np.testing.assert_array_equal(a, b))


@pytest.mark.parametrize("fn", NEAR.values(), ids=NEAR)
def test_the_same_but_for_last_bits(fn):
    compare(fn, lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6))
