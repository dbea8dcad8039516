"""Functions that draw: augmentations as people write them, and every draw with arguments of every kind."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace.checks import check, rows, small

import headrace as hr
from headrace.iterator import Settings
from headrace.testing import difference, outcomes, reference_outcomes
from headrace.trace.graph import Graph

D = hr.Dataset
GREY = rows("u1", 8, 8)
COLOUR = rows("u1", 8, 7, 3)
FLOATS = rows("f4", 6, 5)
VECTOR = rows("f8", 7)
LABEL = small("i8")
BYTE = small("u1", below=4)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
SCALES = np.array([0.5, 1.0, 2.0])


def flip(x, rng):
    return np.where(rng.bernoulli(0.5), x[:, ::-1], x)


def flip_both_ways(x, rng):
    up, left = rng.bernoulli(0.5, size=2)
    x = np.where(up, x[::-1], x)
    return np.where(left, x[:, ::-1], x)


def brightness(x, rng):
    return np.clip(x.astype(np.float32) / 255 + rng.uniform(-0.2, 0.2), 0, 1)


def contrast(x, rng):
    x = x.astype(np.float32)
    middle = x.mean()
    return (x - middle) * rng.uniform(0.8, 1.2) + middle


def jitter_colours(x, rng):
    return (x * rng.uniform(0.7, 1.3, size=3)).astype(np.float32)


def noise(x, rng):
    return x + rng.normal(0, 0.1, size=x.shape).astype(np.float32)


def erase_by_a_mask(x, rng):
    top, left = rng.integers(0, 5, size=2)
    r, c = np.arange(8)[:, None], np.arange(8)
    inside = (r >= top) & (r < top + 3) & (c >= left) & (c < left + 3)
    return np.where(inside, 0, x)


def erase(x, rng):
    i, j = rng.integers(0, 6), rng.integers(0, 6)
    x[i : i + 3, j : j + 3] = rng.integers(0, 256, size=(3, 3), dtype=np.uint8)
    return x


def drop_out(x, rng):
    kept = rng.random(x.shape, dtype=np.float32) >= 0.25
    return np.where(kept, x / np.float32(0.75), np.float32(0))


def smooth(x, y, rng):
    target = np.eye(10, dtype=np.float32)[y]
    amount = np.float32(rng.uniform(0, 0.2))
    return x, target * (1 - amount) + amount / 10


def mix(x, y, rng):
    weight = np.float32(np.maximum(rng.random(), rng.random()))
    return weight * x + (1 - weight) * x[::-1], weight, y


def crop(x, rng):
    i = rng.integers(0, 4)
    j = rng.integers(0, 3)
    return x[i : i + 5, j : j + 5]


def crop_both_axes(x, rng):
    i, j = rng.integers(0, 4, size=2)
    return x[i : i + 5, j : j + 5].astype(np.float32) / 255


def pad_and_crop(x, rng):
    x = np.pad(x, ((2, 2), (2, 2)))
    i, j = rng.integers(0, 5), rng.integers(0, 5, dtype=np.int8)
    return x[i : i + 8, j : j + 8]


def draws_by_branch(x, rng):
    if rng.random() < 0.5:
        x = x + rng.normal(size=7)
    elif rng.bernoulli(0.3):
        return x * rng.uniform(1, 2), rng.integers(9)
    return x[::-1] * 2, rng.integers(9)


def turns(x, rng):
    if rng.bernoulli():
        x = x[:, ::-1]
    if rng.random() < 0.5:
        x = x[::-1]
    return x


def crops_and_turns(x, rng):
    top = rng.integers(0, 3)
    x = x[top : top + 2]
    if rng.random() < 0.5:
        x = x[:, ::-1]
    return x if rng.bernoulli(0.7) else 255 - x


def crop_and_flip(x, rng):
    i = rng.integers(3, endpoint=True)
    x = x[..., 1 + i : i + 4, ::-1]
    return np.where(rng.bernoulli(), x[::-1], x)


def shuffle_pixels(x, rng):
    rng.shuffle(x)
    return x


def shuffle_columns(x, rng):
    x = x.copy()
    rng.shuffle(x, axis=1)
    return x.sum(axis=1)


def shuffled_numbers(x, rng):
    order = np.arange(7)
    rng.shuffle(order)
    return x[order]


def one_of_three(x, rng):
    kind = rng.integers(3)
    return np.select([kind == 0, kind == 1], [x, -x], x * 2)


def token_dropout(x, rng):
    return np.where(rng.random(7) < 0.3, 0, x)


def in_a_helper(x, rng):
    def shifted(value, by):
        return value + by.normal(scale=SCALES).sum()

    return shifted(shifted(x, rng), rng)


FUNCTIONS = {
    "flip": (flip, COLOUR),
    "flip floats": (flip, FLOATS),
    "flip both ways": (flip_both_ways, GREY),
    "brightness": (brightness, GREY),
    "contrast": (contrast, GREY),
    "jitter colours": (jitter_colours, COLOUR),
    "noise": (noise, FLOATS),
    "erase by a mask": (erase_by_a_mask, GREY),
    "erase": (erase, GREY),
    "drop out": (drop_out, FLOATS),
    "smooth": (smooth, (VECTOR, LABEL)),
    "mix": (mix, (FLOATS, LABEL)),
    "crop": (crop, COLOUR),
    "crop floats": (lambda x, rng: crop(np.pad(x, ((0, 2), (0, 2))), rng), FLOATS),
    "crop both axes": (crop_both_axes, GREY),
    "pad and crop": (pad_and_crop, GREY),
    "crop and flip": (crop_and_flip, COLOUR),
    "crop by data": (lambda x, y, rng: x[y : y + 3] + rng.random(), (VECTOR, BYTE)),
    "write by data": (lambda x, y, rng: _wrote(x, y, rng.normal(size=2)), (VECTOR, BYTE)),
    "shuffle pixels": (shuffle_pixels, COLOUR),
    "shuffle columns": (shuffle_columns, GREY),
    "shuffled numbers": (shuffled_numbers, VECTOR),
    "one of three": (one_of_three, FLOATS),
    "token dropout": (token_dropout, rows("i8", 7)),
    "in a helper": (in_a_helper, VECTOR),
    "permute channels": (lambda x, rng: rng.permutation(x, axis=2), COLOUR),
    "permute a table": (lambda x, rng: rng.permutation(WEIGHTS) * x, rows("f8")),
    "pick a channel": (lambda x, rng: x[:, :, rng.integers(3)], COLOUR),
    "pick a scale": (lambda x, rng: x * rng.choice([0.5, 1.0, 2.0]), VECTOR),
    "pick by weight": (lambda x, rng: (rng.choice(4, p=WEIGHTS), x), VECTOR),
    "pick some by weight": (lambda x, rng: rng.choice(4, 3, replace=False, p=WEIGHTS) + x[:3], VECTOR),
    "pick rows": (lambda x, rng: rng.choice(x, 3, replace=False), FLOATS),
    "pick columns": (lambda x, rng: rng.choice(x, (2, 2), axis=1), COLOUR),
    "pick one of two": (lambda x, y, rng: rng.choice([x[0], y * 1.0]), (VECTOR, LABEL)),
    "below data": (lambda x, rng: rng.integers(x + 1), LABEL),
    "between data": (lambda x, y, rng: rng.integers(y, x.astype(np.int64) % 7 + 11, size=7), (rows("u1", 7), LABEL)),
    "bytes, ends included": (lambda x, rng: rng.integers(-3, x, dtype=np.int8, endpoint=True), BYTE),
    "any integer": (lambda x, rng: rng.integers(-(2**63), 2**63 - 1, endpoint=True) ^ x, rows("i8")),
    "uniform by data": (lambda x, y, rng: rng.uniform(y, y + 2.5, size=(2, 7)) + x, (VECTOR, LABEL)),
    "uniform by an array": (lambda x, rng: rng.uniform(-SCALES, SCALES) * x, rows("f4")),
    "normal by data": (lambda x, rng: rng.normal(x, np.abs(x) % 2), rows("i4", 3)),
    "normal by float32": (lambda x, rng: rng.normal(np.float32(x), 0.5), rows("i2")),
    "coin by data": (lambda x, rng: rng.bernoulli(x / 10), LABEL),
    "coins by data": (lambda x, rng: rng.bernoulli(x, size=(3, 2)), small("f4", 2, below=2)),
    "floats of 4 bytes": (lambda x, rng: rng.random((2, 3), np.float32) + x, rows("f4")),
    "nothing": (lambda x, rng: x * 2, VECTOR),
    "an empty draw": (lambda x, rng: (rng.random(0), rng.random(), x), LABEL),
    "a size from a shape": (lambda x, rng: rng.normal(size=x.shape) * len(x), COLOUR),
    "asks for the class": (lambda x, rng: x if isinstance(rng, int) else -x, LABEL),
    "branch": (lambda x, rng: x if rng.random() < 0.5 else -x, VECTOR),
    "coin": (lambda x, rng: x[::-1] if rng.bernoulli() else x, VECTOR),
    "draws by branch": (draws_by_branch, VECTOR),
    "turns": (turns, COLOUR),
    "crops and turns": (crops_and_turns, COLOUR),
}
EAGER = {
    "python number": (lambda x, rng: x[int(rng.integers(3)) :], VECTOR, "makes a Python number of data"),
    "a length by data": (lambda x, rng: x[: rng.integers(3)], VECTOR, "slices by data"),
    "a growing slice": (lambda x, y, rng: x[y : 2 * y], (VECTOR, LABEL), "slices by data"),
    "a size by data": (lambda x, rng: rng.random(x).sum(), LABEL, "with a size that is data"),
    "a permutation by data": (lambda x, rng: rng.permutation(x), LABEL, "with a x that is data"),
    "shuffles a list": (lambda x, rng: _shuffled([1, 2, 3], rng)[0] * x, LABEL, "shuffles what is no array"),
    "shuffles a table": (lambda x, rng: _shuffled(SCALES, rng)[0] * x, LABEL, "does not own"),
    "text": (lambda x, rng: (x, rng.choice(["a", "b"])), LABEL, "rng.choice gives"),
    "no such draw": (lambda x, rng: rng.gamma(x), LABEL, "AttributeError"),
    "too many arguments": (lambda x, rng: rng.random(1, 2, 3), LABEL, "TypeError"),
}


def test_a_generator_is_no_result():
    assert "returns a" in D.from_tensor_slices(LABEL).random_map(lambda x, rng: (x, rng))._node.graph


def _wrote(x, start, value):
    x[start : start + 2] = value
    return x


def _shuffled(x, rng):
    rng.shuffle(x)
    return x


drawing = partial(check, build=lambda ds, fn: ds.random_map(fn, seed=3))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_draws(name):
    drawing(*FUNCTIONS[name])


@pytest.mark.parametrize("name", EAGER)
def test_a_function_that_draws_and_is_called_on_each(name):
    before = SCALES.copy()
    fn, data, reason = EAGER[name]
    if name == "shuffles a table":
        ds = D.from_tensor_slices(data).random_map(fn, seed=3)
        assert reason in ds._node.graph
        list(ds)
        SCALES[:] = before
    else:
        drawing(fn, data, reason)


def both(ds, fn, **how):
    return ds.random_map(fn, seed=5, **how), ds.random_map(fn, seed=5, mode="eager")


@pytest.mark.parametrize("settings", [Settings(), Settings(optimise=False), Settings(block_rows=3)], ids=str)
@pytest.mark.parametrize(
    "how", [{}, {"num_parallel_calls": 1}, {"num_parallel_calls": 8}, {"mode": "process"}], ids=str
)
def test_threads_processes_and_a_resume_change_no_bit(how, settings):
    def fn(x, rng):
        return x, rng.normal(size=3) * rng.uniform(x, x + 2), rng.permutation(4)

    traced, eager = both(D.range(50).shuffle(20, seed=1).repeat(2), fn, **how)
    want = [[np.asarray(part).tobytes() for part in row] for row in eager]
    with traced._iterator(settings) as it:
        got = [next(it) for _ in range(33)]
        state = json.loads(json.dumps(it.state()))
    got += list(eager.iterator(state)) if len(how) else list(traced.iterator(state))
    assert [[np.asarray(part).tobytes() for part in row] for row in got] == want


def test_draws_of_a_block_are_one_kernel_call_each(monkeypatch):
    from headrace import _native

    made = []
    kernel = _native.random_normal
    monkeypatch.setattr(_native, "random_normal", lambda *args: made.append(len(args[-1])) or kernel(*args))
    ds = D.from_tensor_slices(VECTOR).random_map(lambda x, rng: x + rng.normal(size=7) + rng.normal(), seed=1)
    list(ds.batch(len(VECTOR)).with_options(hr.Options(cpu_budget=1)))  # a parallel scan begins with few rows
    assert made.count(len(VECTOR)) == 2
    assert isinstance(ds._node.graph, Graph)


def test_slices_that_numpy_cuts_short_are_cut_short():
    """A block with such a slice is made row by row; the spec admits both."""
    ds = D.from_tensor_slices((VECTOR, rows("i8") % 9 - 1)).random_map(lambda x, i, rng: x[i : i + 4], seed=1)
    assert ds.element_spec == hr.TensorSpec((None,), "f8")
    drawing(lambda x, i, rng: x[i : i + 4], (VECTOR, rows("i8") % 9 - 1))
    drawing(lambda x, i, rng: x[i : i + 100], (np.tile(VECTOR, 40), rows("i1") % 120))


def test_slices_within_drawn_bounds_have_a_known_size():
    ds = D.from_tensor_slices(GREY)
    assert ds.random_map(crop_both_axes).element_spec == hr.TensorSpec((5, 5), "f4")
    beyond = ds.random_map(lambda x, rng: _cropped(x, rng.integers(0, 5)))
    assert beyond.element_spec == hr.TensorSpec((None, None), "u1")
    wrapping = D.from_tensor_slices(rows("u1", 250))
    wrapping = wrapping.random_map(lambda x, rng: _cropped(x, rng.integers(0, 124, dtype=np.int8)))
    assert wrapping.element_spec == hr.TensorSpec((None,), "u1"), "123 + 5 is negative as an int8"


def _cropped(x, i):
    return x[i : i + 5]


@given(
    low=st.integers(-(2**15), 2**15 - 1),
    dtype=st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]),
    size=st.sampled_from([None, (), 1, 3, (2, 2), 0]),
    endpoint=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
)
def test_integers_of_any_bounds(low, dtype, size, endpoint, seed):
    """As called on each, error for error: bounds out of range of the dtype, empty intervals, wide and narrow data."""
    bounds = rows(dtype, n=11, seed=low % 97)

    def fn(x, rng):
        return rng.integers(low, x, size=size, endpoint=endpoint), rng.integers(x, 2**15, size=size)

    traced, eager = (D.from_tensor_slices(bounds).random_map(fn, seed, mode=mode) for mode in ("auto", "eager"))
    assert difference(outcomes(iter(traced)), reference_outcomes(eager)) is None


@given(data=st.data(), seed=st.integers(0, 2**63 - 1))
def test_any_order_of_draws(data, seed):
    """The counter is the order of the draws in the function, whatever they are."""
    makers = {
        "random": lambda x, rng: rng.random(),
        "float32": lambda x, rng: rng.random(3, dtype=np.float32),
        "uniform": lambda x, rng: rng.uniform(x, 2.0, size=2),
        "normal": lambda x, rng: rng.normal(x),
        "bernoulli": lambda x, rng: rng.bernoulli(0.3, size=(2, 2)),
        "integers": lambda x, rng: rng.integers(10, size=3),
        "permutation": lambda x, rng: rng.permutation(5),
        "choice": lambda x, rng: rng.choice(6, 2, replace=False),
        "weighted": lambda x, rng: rng.choice(4, 3, p=WEIGHTS),
    }
    chosen = tuple(
        makers[name] for name in data.draw(st.lists(st.sampled_from(sorted(makers)), min_size=1, max_size=5))
    )

    def fn(x, rng):
        return tuple([make(x, rng) for make in chosen])

    check(fn, np.linspace(0, 1, 9), build=lambda ds, fn: ds.random_map(fn, seed=seed))
