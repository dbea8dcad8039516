"""Functions of numbers and rows of numbers: features, labels, tokens, dates, signals."""

import numpy as np
import pytest
from tests.trace.checks import ROWS, check, ordinary, rows, small

import headrace as hr

X = rows("f8")
X32 = rows("f4")
I = rows("i8")  # noqa: E741
I32 = rows("i4")
V = rows("f8", 7)
V32 = rows("f4", 16)
M = rows("f8", 4, 4)
B = rows("?", 6)
LABEL = small("i8")
TOKENS = small("i8", 9, below=50)
POSITIVE = np.abs(ordinary("f8", 41)) + 0.1
EMPTY = np.zeros((5, 0, 3), np.float32)
DAYS = np.arange("2020-01-01", "2020-02-11", dtype="M8[D]")
SECONDS = (np.arange(41) * 86461).astype("M8[s]")
TABLE = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(7, 3))
EDGES = np.array([-1.0, 0.0, 0.5, 2.0])
ONES = np.ones(7)
COUNTS = np.arange(ROWS + 2)
BOOLS = np.array([False, True])


def one_hot(y):
    out = np.zeros(10, np.float32)
    out[y] = 1
    return out


def smooth(y):
    return np.eye(10)[y] * 0.9 + 0.1 / 10


def mixup(a, b):
    return 0.3 * a + 0.7 * b


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def zscore(v, mean=2.5, std=1.5):
    return (v - mean) / std


def polynomial(x):
    return np.stack([x, x * x, x * x * x])


def crossed(a, b):
    return (a * 31 + b) % 100


def cyclic(hour):
    angle = 2 * np.pi * hour / 24
    return np.array([np.sin(angle), np.cos(angle)])


def bucket(x):
    return np.digitize(x, EDGES)


def masked(tokens):
    mask = tokens != 0
    return {"tokens": tokens, "mask": mask, "length": mask.sum()}


def shift(tokens):
    return tokens[:-1], tokens[1:]


def pad_to(tokens, length=12):
    return np.pad(tokens, (0, length - len(tokens)), constant_values=-1)


def positions(tokens):
    return np.arange(len(tokens)) * (tokens > 0)


def clamp(x):
    x = np.minimum(x, 10)
    return np.maximum(x, -10)


def running(v):
    v = v.copy()
    v[1:] = v[1:] - v[:-1]
    return v


def windows(v):
    return np.stack([v[i : i + 3] for i in range(len(v) - 2)])


def moving_mean(v):
    total = np.cumsum(v)
    return (total[3:] - total[:-3]) / 3


def energy(v):
    v -= v.mean()
    v *= v
    return np.sqrt(v.sum())


def top(v):
    order = np.argsort(-v)
    return v[order[:3]]


FUNCTIONS = {
    "identity": (lambda x: x, X),
    "constant": (lambda x: 1, X),
    "add": (lambda x: x + 1, I),
    "scale": (lambda x: x * 2.5, X),
    "scale single": (lambda x: x * 2.5, X32),
    "overflow": (lambda x: x * x, I),
    "divide": (lambda x: x / 3, I),
    "floor": (lambda x: x // 7, I),
    "modulo": (lambda x: x % 7, I),
    "modulo of floats": (lambda x: x % 1.5, X),
    "divmod": (lambda x: divmod(x, 7), I),
    "even": (lambda x: x % 2 == 0, I),
    "reflected": (lambda x: 1 - x, X),
    "reciprocal": (lambda x: 1.0 / x, X),
    "square": (lambda x: x**2, X),
    "cube single": (lambda x: x**3, X32),
    "cube of a vector": (lambda v: v**3, V32),
    "square of a vector": (lambda v: v**2, V32),
    "root of a vector": (lambda v: v**0.5, V32),
    "integer power": (lambda x: x**3, I),
    "exp": (lambda x: np.exp(x), X),
    "log1p": (lambda x: np.log1p(x), X),
    "log of a vector": (lambda v: np.log(v), V32),
    "signed log": (lambda x: np.sign(x) * np.log1p(np.abs(x)), X),
    "sqrt": (lambda x: np.sqrt(x), X),
    "abs": (abs, X),
    "a ufunc itself": (np.sqrt, X),
    "a type itself": (np.float32, X),
    "negative": (lambda x: -x, X),
    "invert": (lambda x: ~x, I),
    "and": (lambda a, b: (a > 0) & (b < 1), (X, V[:, 0])),
    "or": (lambda a: (a > 0.5) | np.isnan(a), X),
    "where": (lambda x: np.where(x > 0, x, 0.01 * x), X),
    "where nan": (lambda x: np.where(np.isnan(x), 0.0, x), X),
    "isclose": (lambda x: np.isclose(x, 1.0), X),
    "clip": (lambda x: np.clip(x, -1, 1), X),
    "clip by method": (lambda v: v.clip(min=0), V),
    "clamp": (clamp, X),
    "round": (lambda x: np.round(x, 2), X),
    "builtin round": (lambda x: round(x, 1), POSITIVE),
    "rint": (lambda v: np.rint(v), V),
    "cast": (lambda x: np.int32(x), X),
    "cast to bytes": (lambda v: v.astype(np.uint8), V),
    "cast a label": (lambda y: y.astype(np.int32), LABEL),
    "as array": (lambda x: np.asarray(x, dtype=np.float32), X),
    "array of two": (lambda a, b: np.array([a, b]), (X, I)),
    "list of two": (lambda a, b: {"pair": [a, b]}, (X, X)),
    "select": (lambda x: np.select([x < 0, x < 1], [-1.0, x], default=2.0), X),
    "zscore": (zscore, V),
    "polynomial": (polynomial, X),
    "polynomial of floats": (lambda x: 3 * x**2 - 2 * x + 1, X),
    "cyclic": (cyclic, POSITIVE),
    "crossed": (crossed, (LABEL, small("i8", seed=3))),
    "hash": (lambda a, b: (a * 2654435761 ^ b) % 1024, (LABEL, I)),
    "bucket": (bucket, X),
    "buckets": (lambda v: np.searchsorted(EDGES, v, side="right"), V),
    "standard scaling": (lambda v: (v - v.mean()) / v.std(), V),
    "unit norm": (lambda v: v / np.linalg.norm(v), V),
    "sum of squares": (lambda v: (v * v).sum(), V32),
    "minmax": (lambda v: (v - v.min()) / np.ptp(v), V),
    "softmax": (softmax, V),
    "entropy": (lambda v: -(softmax(v) * np.log(softmax(v))).sum(), V),
    "dot": (lambda v: v.dot(ONES), V),
    "linear": (lambda v: v @ WEIGHTS, V),
    "bilinear": (lambda v: v @ WEIGHTS @ WEIGHTS.T @ v, V),
    "einsum": (lambda m: np.einsum("ij,ij->i", m, m), M),
    "tensordot": (lambda m: np.tensordot(m, m, axes=([0], [0])), M),
    "trace": (lambda m: np.trace(m), M),
    "inverse": (lambda m: np.linalg.inv(m + 50 * np.eye(4)), np.nan_to_num(M, posinf=0, neginf=0).clip(-9, 9)),
    "outer": (lambda v: np.outer(v, v), V),
    "cumsum": (lambda v: np.cumsum(v), V),
    "running": (running, V),
    "moving mean": (moving_mean, V),
    "windows": (windows, V),
    "diff": (lambda v: np.diff(v), V),
    "energy": (energy, V),
    "argmax": (lambda v: v.argmax(), V),
    "sorted": (lambda v: np.sort(v), V),
    "sorted in place": (lambda v: (v.sort(), v)[1], V),
    "top": (top, V),
    "median": (lambda v: np.median(v), V),
    "quantiles": (lambda v: np.quantile(v, [0.25, 0.75]), V),
    "any": (lambda b: b.any(), B),
    "all along": (lambda m: (m > 0).all(axis=0), M),
    "count": (lambda b: b.sum(), B),
    "last": (lambda v: v[-1], V),
    "reverse": (lambda v: v[::-1], V),
    "every other": (lambda v: v[::2] * 2, V),
    "columns": (lambda v: v[[0, 2, 4]], V),
    "row": (lambda m: m[1], M),
    "diagonal": (lambda m: m[np.arange(4), np.arange(4)], M),
    "upper": (lambda m: np.triu(m), M),
    "split": (lambda v: np.split(v[:6], 3), V),
    "unpack": (lambda v: sum(v), V),
    "concatenate": (lambda v, x: np.concatenate([v, [x]]), (V, X)),
    "join": (lambda a, b: np.concatenate([a, b]), (V, V32)),
    "hstack": (lambda v, x: np.hstack([v, x]), (V, X)),
    "vstack": (lambda a, b: np.vstack([a, b]), (V, V)),
    "empty axis": (lambda x: x * 2 + x.sum(), EMPTY),
    "one hot": (one_hot, LABEL),
    "one hot by eye": (lambda y: np.eye(10, dtype=np.float32)[y], LABEL),
    "one hot by comparison": (lambda y: (np.arange(10) == y).astype(np.float32), LABEL),
    "smooth": (smooth, LABEL),
    "mixup": (mixup, (V, V[::-1].copy())),
    "embedding": (lambda t: TABLE[t], TOKENS),
    "mean embedding": (lambda t: TABLE[t].mean(axis=0), TOKENS),
    "take": (lambda t: np.take(TABLE, t, axis=0), TOKENS),
    "look up one": (lambda y: TABLE[y, 2], LABEL),
    "pick": (lambda v, y: v[y % 7], (V, LABEL)),
    "gather": (lambda v, t: np.take_along_axis(v, t % 7, axis=0), (V, TOKENS)),
    "masked": (masked, TOKENS),
    "shift": (shift, TOKENS),
    "pad": (pad_to, TOKENS),
    "positions": (positions, TOKENS),
    "begin and end": (lambda t: np.concatenate([[1], t, [2]]), TOKENS),
    "attention mask": (lambda t: (t[:, None] != 0) & (t[None, :] != 0), TOKENS),
    "causal mask": (lambda t: np.tril(np.ones((len(t), len(t)), bool)) & (t != 0), TOKENS),
    "bag of words": (lambda t: np.bincount(t, minlength=50), TOKENS),
    "n-grams": (lambda t: np.stack([t[:-1], t[1:]], axis=1), TOKENS),
    "day number": (lambda d: (d - np.datetime64("2020-01-01")).astype(np.int64), DAYS),
    "weekday": (lambda d: (d.astype("M8[D]").astype(np.int64) - 4) % 7, SECONDS),
    "month": (lambda d: d.astype("M8[M]").astype(int) % 12 + 1, DAYS),
    "seconds of day": (lambda d: (d - d.astype("M8[D]")).astype(int), SECONDS),
    "spectrum": (lambda v: np.abs(np.fft.rfft(v)), V),
    "convolve": (lambda v: np.convolve(v, [1, 2, 1], mode="same"), V),
    "interpolate": (lambda v: np.interp(np.linspace(0, 6, 13), np.arange(7), v), V),
    "gradient": (lambda v: np.gradient(v), V),
    "window": (lambda v: v * np.hanning(7), V),
    "frames": (lambda v: v[:6].reshape(3, 2).mean(axis=1), V),
    "decibel": (lambda v: 20 * np.log10(np.maximum(np.abs(v), 1e-5)), V32),
    "out": (lambda v: np.multiply(v, 2, out=v), V),
    "reduce": (lambda v: np.add.reduce(v), V),
    "accumulate": (lambda v: np.maximum.accumulate(v), V),
    "hypot": (lambda a, b: np.hypot(a, b), (X, X32)),
    "zeros like": (lambda v: np.zeros_like(v) + v[0], V),
    "full": (lambda x: np.full(3, 2.0) * x, X),
    "linspace": (lambda x: np.linspace(0, 1, 5) * x, X),
    "default dtype": (lambda x: np.zeros(3, dtype=x.dtype) + x, X32),
    "shape arithmetic": (lambda m: m.reshape(m.shape[0] * m.shape[1]) / m.size, M),
    "swap": (lambda a, b: (b, a), (X, I)),
    "twice the same": (lambda x: (x, x), X),
    "nested": (lambda x: {"a": (x, x + 1), "b": {"c": x > 0}}, X),
    "weak integer": (lambda x: x + 200, rows("u1")),
    "weak float": (lambda x: x + 0.5, rows("f2")),
    "bool arithmetic": (lambda b: b * 2 + b, rows("?")),
    "a number of a table": (lambda x: TABLE[3, 2], X),
    "a number of a table beside others": (lambda x: (x, TABLE[3, 2], TABLE.sum()), X),
    "numbers of tables alone": (lambda x: {"a": EDGES[1], "b": WEIGHTS.max(), "c": EDGES[1] > 0}, X),
    "a row of a table": (lambda x: (TABLE[3], x), X),
    "a row of a table as long as the block": (lambda x: COUNTS[:ROWS], X),
    "numbers of a table, counted with": (lambda x: (EDGES[1] + EDGES[2], x * EDGES[3], EDGES.dtype.itemsize), X),
    "a table in another shape": (lambda x: WEIGHTS.T.reshape(-1), X),
}


CONDITIONS = {
    "a number of a table": lambda x: BOOLS[1],
    "no number of a table": lambda x: BOOLS.all(),
    "a table compared": lambda x: EDGES[1] < EDGES[2],
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("build", [hr.Dataset.filter, hr.Dataset.take_while], ids=["filter", "take_while"])
def test_a_condition_that_no_element_changes(name, build):
    check(CONDITIONS[name], X, build=build)


def test_a_key_that_no_element_changes():
    ds = hr.Dataset.range(50).group_by_window(lambda x: COUNTS[3], lambda key, rows: rows.batch(20), 20)
    assert [batch.tolist() for batch in ds] == [list(range(20)), list(range(20, 40)), list(range(40, 50))]
    kept = hr.Dataset.range(50).rejection_resample(lambda x: COUNTS[1], [0.5, 0.5], [0.5, 0.5], seed=1)
    assert [(int(kind), int(x)) for kind, x in kept] == [(1, x) for x in range(50)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_numbers(name):
    check(*FUNCTIONS[name])
