"""Functions that look traceable and are not, or that a careless tracer gets wrong."""

import functools
import math
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from tests.trace.checks import check, how, rows, small

import headrace as hr

D = hr.Dataset
X = rows("f8")
I = rows("i8")  # noqa: E741
V = rows("f8", 7)
LABEL = small("i8")
TABLE = np.arange(30.0).reshape(10, 3)
SCALE = 2.0
SEEN = []
LOOKUP = [1.0, 2.0]
NESTED = [[1.0, 2.0], [3.0, 4.0]]
TABLES = [np.arange(2.0), np.arange(3.0)]
LOOP = [2.5]
LOOP.append(LOOP)
SETTINGS = {"scale": [1.0, 0.5]}
WORDS = np.array(["a", "b"])
LONG_LIST = [1.5] * 2000
KINDS = {1, 2}
with tempfile.NamedTemporaryFile() as mapped_file:
    MAPPED = np.memmap(mapped_file, np.float64, "w+", shape=(10,))
MAPPED[:] = np.arange(10) ** 2
COUNT = 0


def counts(x):
    global COUNT  # noqa: PLW0603
    COUNT += 1
    return x


def logs(x):
    SEEN.append(1)
    return x


def branches(x):
    if x > 0:
        return x
    return -x


def returns_early(x):
    for i in range(5):
        if i == 3:
            return x + i
    return x


def returns_early_on_data(v):
    for value in v:
        if value > 1:
            return value
    return v[0]


def tries(x):
    try:
        return x + 1
    except TypeError:
        return x


def tries_to_hide(x):
    try:
        if float(x) > 0:
            x = x * 2
    except BaseException:
        return x
    return x + 1


def recursive(x, depth=3):
    return x if depth == 0 else recursive(x * 2, depth - 1)


def recursive_on_data(x):
    return x if x < 1 else recursive_on_data(x / 2)


def writes_to_its_argument(v):
    v[0] = 7
    v += 1
    return v


def writes_to_a_view(v):
    head = v[:3]
    head += 1
    return v


def goes_on_with_a_view(v):
    v = v[1:]
    v += 1
    return v


def keeps_a_view(v):
    head = v[:3]
    v[0] = 5
    return head


def writes_to_the_table(y):
    row = TABLE[y]
    row += 0
    return row


def generates(x):
    yield x


def gathers(*args):
    return sum(args)


def with_names(x, *, factor=3):
    return x * factor


def asks_for_its_class(x):
    return x * 2 if isinstance(x, np.ndarray) else x + 1


def asks_for_a_scalar(x):
    return x * 2 if isinstance(x, np.floating) and not isinstance(x, np.integer) else x + 1


def asks_for_its_exact_class(x):
    return x * 2 if type(x) is np.float64 else x + 1


def picky(x):
    return TABLE[x]


def sometimes_raises(x):
    return 2 ** (x % 5 - 1)


def helper(x):
    return x * SCALE


def nonlocal_counter():
    calls = 0

    def fn(x):
        nonlocal calls
        calls += 1
        return x * calls

    return fn


def closures():
    return [lambda x: x * i for i in range(3)]  # noqa: B023 - the last value is meant, as Python has it


class Doubler:
    factor = 2

    def __call__(self, x):
        return x * self.factor

    def double(self, x):
        return x * self.factor


class Pair(NamedTuple):
    a: float
    b: float


@dataclass
class Sample:
    x: np.ndarray
    y: int


@dataclass
class Noisy:
    x: np.ndarray

    def doubled(self):
        SEEN.append(1)
        return self.x * 2


TRACED = {
    "early return without data": (returns_early, X),
    "try without an error": (tries, X),
    "recursion without data": (recursive, X),
    "writes to its argument": (writes_to_its_argument, V),
    "goes on with a view of it": (goes_on_with_a_view, V),
    "any number of arguments": (gathers, (X, X, I)),
    "default arguments": (with_names, X),
    "partial": (functools.partial(with_names, factor=5), X),
    "partial of a lambda": (functools.partial(lambda f, x: x * f, 3.0), X),
    "partial with an array": (functools.partial(np.multiply, TABLE[0]), X),
    "isinstance of an array": (asks_for_its_class, V),
    "isinstance of a scalar": (asks_for_its_class, X),
    "isinstance of a kind of scalar": (asks_for_a_scalar, X),
    "isinstance of a float": (lambda x: x * 2 if isinstance(x, float) else x, X),
    "raises on some, by an index": (picky, I),
    "raises on some, by a power": (sometimes_raises, np.abs(small("i8", below=99))),
    "a helper with a global": (helper, X),
    "a function within": (lambda x: [f(x) for f in (lambda y: y + 1, lambda y: y * 2)], X),
    "a comprehension": (lambda v: np.stack([v[i] * i for i in range(3)]), V),
    "a loop over rows": (lambda v: sum(value * value for value in v), V),
    "zip and enumerate": (lambda v: sum(i * a for i, a in enumerate(zip(v[:3], v[3:6], strict=True)) for a in a), V),
    "a namedtuple": (lambda a, b: Pair(b, a), (X, I)),
    "a namedtuple's fields": (lambda p: p.a + p.b, Pair(X, I)),
    "a dataclass": (lambda v, y: Sample(v, y), (V, LABEL)),
    "a dict changed": (lambda d: {**d, "x": d["x"] * 2}, {"x": X, "y": I}),
    "a dict's item dropped": (lambda d: [d.pop("y"), d][1], {"x": X, "y": I}),
    "a closure over a loop variable": (closures()[1], X),
    "math with constants": (lambda x: x * math.sqrt(2), X),
    "a string passed on": (lambda x, s: (x * 2, s), (X, [f"row {i}" for i in range(len(X))])),
    "ragged rows passed on": (lambda r, x: (x + 1, r), (hr.Ragged.from_rows([np.arange(i % 4) for i in range(41)]), X)),
    "a new axis by a flag": (lambda v: v[True], V),
    "a string method on a constant": (lambda x: {"X".lower(): x}, X),
    "star unpacking": (lambda v: [*v[:2], v[2] + 1], V),
    "a list": (lambda x: x * LOOKUP[1] + len(LOOKUP), X),
    "a list as an array": (lambda v: (v[:2] - np.array(LOOKUP), v[:2] * LOOKUP), V),
    "a list by a number, which repeats it": (lambda y: np.array([1, 2] * 2) + y, LABEL),
    "a list returned": (lambda x: (x, LOOKUP), X),
    "a list of lists": (lambda x: [x * a + b for a, b in NESTED], X),
    "a list of arrays": (lambda x: TABLES[1] * x, X),
    "a list that holds itself": (lambda x: x * LOOP[1][1][0], X),
    "a dict of lists": (lambda x: x * SETTINGS["scale"][1], X),
    "a memmap": (lambda y: (MAPPED[y], MAPPED[2:4], MAPPED * y), LABEL),
    "sorted keys": (lambda d: tuple(d[k] for k in sorted(d)), {"b": X, "a": I}),
    "an if on data": (branches, X),
}
EAGER = {
    "an early return on data": (returns_early_on_data, V, "branches on data"),
    "a trace error in a bare except": (tries_to_hide, X, "Python number"),
    "recursion on data": (recursive_on_data, np.abs(X[:9]).clip(0, 3), "branches on data"),
    "a write to a view": (writes_to_a_view, V, "another name or view"),
    "a view kept": (keeps_a_view, V, "another name or view"),
    "a write to a captured array": (writes_to_the_table, LABEL, "does not own"),
    "a large list": (lambda x: x * LONG_LIST[0], X, "LONG_LIST, a list of 2,000 items"),
    "a list changed": (lambda x: [LOOKUP.append(LOOKUP.pop() + 0.0), x][1], X, "changes LOOKUP, a list"),
    "a list changed by its class": (lambda x: [list.reverse(NESTED), x][1], X, "changes NESTED, a list"),
    "a list in a list changed": (lambda x: [NESTED[0].append(NESTED[0].pop(0)), x][1], X, "changes NESTED, a list"),
    "an item of a list by data": (lambda y: LOOKUP[y % 2], LABEL, "Python number|eager"),
    "an array of text": (lambda y: np.int64(len(WORDS)) + y, LABEL, "WORDS, an array of dtype <U1"),
    "a set": (lambda x: x * len(KINDS), X, "KINDS, a set"),
    "a callable object": (Doubler(), X, "Doubler"),
    "a method": (Doubler().double, X, "method"),
    "a local class": (lambda x: Doubler()(x), X, "Doubler"),
    "exact class": (asks_for_its_exact_class, X, "type()"),
    "a C function": (math.floor, np.arange(9.0), "floor"),
    "a C function inside": (lambda x: math.floor(x), np.arange(9.0), "Python number"),
    "float()": (lambda x: float(x) * 2, X, "Python number"),
    "int()": (lambda x: int(x) % 3, I, "Python number"),
    "text": (lambda x: f"{x}", I, "text"),
    "a mask": (lambda v: v[v > 0], V, "mask"),
    "unique": (lambda v: np.unique(v), V, "unique"),
    "a slice by data": (lambda v, y: v[: y + 1], (V, LABEL), "slices by data"),
    "a range by data": (lambda y: np.arange(y), LABEL, "not traced|arange|Python number|raises"),
    "item": (lambda x: x.item(), X, ".item"),
    "an import": (lambda x: __import__("math").pi * x, X, "__import__"),
    "a method of a record": (lambda n: n.doubled(), Noisy(V), "Noisy.doubled"),
    "operations on text": (lambda s: s.upper(), ["a", "b", "c", "d"], "not a dense array"),
    "operations on ragged rows": (
        lambda r: r * r,
        hr.Ragged.from_rows([np.arange(i % 4) for i in range(9)]),
        "not a dense array",
    ),
    "always raises": (lambda x: {}["missing"], X, "KeyError"),
    "a numpy array of text": (lambda x: np.array(["a", "b"]), X, "array"),
}


@pytest.mark.parametrize("name", TRACED)
def test_what_can_be_traced_is_right(name):
    check(*TRACED[name])


@pytest.mark.parametrize("name", EAGER)
def test_what_cannot_be_traced_is_called_on_each(name):
    fn, data, reason = EAGER[name]
    check(fn, data, reason.partition("|")[0] if "|" not in reason else "row by row")


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: x + random.random(), "random"),
        (lambda x: x + time.time(), "time"),
        (lambda x: x + np.random.default_rng().normal(), "numpy.random"),
        (counts, "assigns the global COUNT"),
        (logs, "changes SEEN, a list"),
        (nonlocal_counter(), "assigns calls"),
        (lambda x: print(x), "print"),
        (generates, "generator"),
        (lambda x: Counter([1]), "Counter"),
        (lambda x: input("?"), "input"),
        (lambda x: setattr(hr, "nothing", x), "setattr"),
    ],
)
def test_what_has_effects_is_not_even_tried(fn, reason):
    SEEN.clear()
    before = COUNT
    assert reason in how(fn, D.from_tensor_slices(X))
    assert ([], before) == (SEEN, COUNT)


def test_a_nonlocal_counter_counts_every_element_once_and_in_order():
    assert list(D.range(1, 6).map(nonlocal_counter())) == [1, 4, 9, 16, 25]


def test_a_captured_array_may_change_between_epochs():
    table = np.arange(4.0)
    ds = D.range(4).map(lambda i: table[i] * 2)
    assert list(ds) == [0, 2, 4, 6]
    table[:] = 1
    assert list(ds) == [2, 2, 2, 2]
    assert "vectorised" in ds.explain()


def test_a_captured_list_may_change_between_epochs():
    factors = [2.0]
    ds = D.range(4).map(lambda i: i * factors[-1])
    assert list(ds) == [0, 2, 4, 6]
    factors.append(3.0)
    assert list(ds) == [0, 3, 6, 9]
    factors[-1] = 4.0
    assert list(ds) == [0, 4, 8, 12]
    assert "vectorised" in ds.explain()


@pytest.mark.parametrize("change", [{"b": 3}, {"a": 5}, {"c": 1}])
def test_a_captured_dict_may_change_between_epochs(change):
    table = {"a": 1, "b": 2}
    ds = hr.Dataset.range(20).map(lambda x: x * table["a"] + table["b"])
    assert list(ds) == [x + 2 for x in range(20)]
    table.update(change)
    assert list(ds) == [x * table["a"] + table["b"] for x in range(20)]


def test_a_captured_memmap_is_read_anew():
    ds = D.range(3).map(lambda i: MAPPED[i])
    assert list(ds) == [0, 1, 4]
    MAPPED[1] = 7
    try:
        assert list(ds) == [0, 7, 4]
    finally:
        MAPPED[1] = 1


def test_an_object_among_the_globals_may_change_between_epochs(monkeypatch):
    ds = D.range(4).map(lambda x: x * LOOKUP[1])
    assert list(ds) == [0, 2, 4, 6]
    monkeypatch.setitem(globals(), "LOOKUP", [0, 3])
    with pytest.warns(hr.ChangeWarning, match="the global LOOKUP, of class list"):
        assert list(ds) == [0, 3, 6, 9]
    assert ds.element_spec == hr.TensorSpec((), np.int64)


def test_a_captured_array_may_change_its_shape():
    table = np.arange(6.0)
    ds = D.range(2).repeat(4).map(lambda i: table[i].sum())
    assert list(ds)[:2] == [0, 1]
    table.shape = (2, 3)
    assert list(ds)[:2] == [3, 12]


def test_more_words_than_the_bag_holds():
    tokens = np.array([[0, 1], [1, 1], [2, 0], [9, 1], [0, 0]])
    ds = D.from_tensor_slices(tokens).map(lambda t: np.bincount(t, minlength=4))
    assert [len(bag) for bag in ds] == [4, 4, 4, 10, 4]
    assert ds.element_spec == hr.TensorSpec([None], np.int64)


def test_a_function_owns_its_results():
    table = np.zeros(3)
    ds = D.range(5).map(lambda x: (x, table, table))
    for _, a, b in ds:
        np.add(a, 1, out=a)
        np.add(b, 2, out=b)
        assert (table == 0).all()
        assert a[0] == 1
        assert b[0] == 2


def test_the_source_is_never_written_to():
    source = np.ones((6, 3))
    ds = D.from_tensor_slices(source).map(writes_to_its_argument)
    assert [row.tolist() for row in ds] == [[8, 2, 2]] * 6
    assert (source == 1).all()
    for row in D.from_tensor_slices(source).map(lambda x: x):
        row[...] = 7
    assert (source == 1).all()


def test_the_guilty_element_is_found_and_the_others_are_not_lost():
    it = iter(D.from_tensor_slices([0, 1, 99, 3, -99]).map(picky))
    got = []
    for _ in range(5):
        try:
            got.append(next(it).tolist())
        except hr.ElementError as error:
            got.append((error.ordinal, type(error.__cause__)))
    assert got == [[0, 1, 2], [3, 4, 5], (2, IndexError), [9, 10, 11], (4, IndexError)]


def test_warnings_that_are_errors_are_raised_at_their_element():
    with np.errstate(all="raise"):
        it = iter(D.from_tensor_slices([1.0, 0.0, 2.0, 4.0]).map(lambda x: 1 / x))
        assert next(it) == 1
        with pytest.raises(hr.ElementError) as caught:
            next(it)
        assert isinstance(caught.value.__cause__, FloatingPointError)
        assert list(it) == [0.5, 0.25]
