"""Functions that branch on data run on whole blocks: every row on its own path, to the bit."""

import math
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.checks import check, ordinary, rows, small

import headrace as hr
from headrace.testing import check_transformation, difference, our_threads, outcomes, reference_outcomes
from headrace.trace.graph import ROWS_TO_VERIFY, Graph

D = hr.Dataset
X, V, WHOLE, LABEL = rows("f8"), rows("f8", 5), rows("i8"), small("i8")
MATRIX, GREY = rows("f4", 6, 33), rows("u1", 9, 11)
COLOUR = rows("u1", 40, 40, 3)
SCALES = np.array([0.5, 2.0, -1.0, 0.0, 3.0])
LIMIT = 1.0


def early_return(x):
    if x > 3:
        return x * 2
    if x < -3:
        return -x
    return x + 1


def nested(v):
    if v[0] > 0:
        if v[1] > v[2]:
            return v * 2
        return v[::-1] + 1
    return -v if v[3] > 0 else v


def helper(x):
    return x * 2 if x > 0 else x - 1


def in_helpers(x):
    return helper(helper(x)) + 1


def writes(v):
    if v[0] > 0:
        v[1] = 7
    else:
        v *= 2
    if v[1] > 3:
        v[2:] = 0
    return v


def sums_what_is_positive(v):
    total = v[0] * 0
    for value in v[:3]:
        if value > 0:
            total += value
    return total


def looks_at_a_view_later(m):
    turned = m.T.astype(np.float32)[:, ::-1] * 2
    return turned.sum(axis=0) if m[0, 0] > 0 else turned.mean(axis=0)


def keeps_what_both_need(v):
    doubled = v * 2
    raised = doubled + 1
    if raised[0] > 1:
        return np.sqrt(np.abs(doubled)) + raised
    return doubled - 1


def asks_twice(x):
    large = x > 1
    y = x * 2 if large else x
    return y + 1 if large else y - 1


def raises(x):
    if x < -2:
        raise ValueError("too small")
    return x * 2


def raises_with_text(x):
    if x < -2:
        raise ValueError(f"{x} is too small, {x:.1f}")
    return x * 2


def raises_with_data(x):
    if x < -2:
        raise ValueError("too small", x)
    return x * 2


def compiled(source, **scope):
    """A function as Python compiles it: pytest rewrites what an assert does."""
    scope["__name__"] = __name__
    exec(source, scope)
    return scope["fn"]


asserts = compiled('def fn(x):\n    assert x >= -2, f"{x} is too small"\n    return x * 2')


def catches(x):
    try:
        if x < 0:
            raise ValueError("negative")
    except ValueError:
        return -x
    return x


def under_errstate(x):
    with np.errstate(all="ignore"):
        if x > 0:
            return np.log(x)
    return x / 3


def by_mode(x, mode="double"):
    if mode == "double" and x > 1:
        return x * 2
    return x


BRANCHES = {
    "an if": (lambda x: x * 2 if x > 0 else -x, X, 2),
    "a sum": (lambda v: v * 2 if v.sum() > 0 else -v, V, 2),
    "early returns": (early_return, X, 3),
    "nested ifs": (nested, V, 4),
    "a constant": (lambda x: x if x > 0 else 7.5, X, 2),
    "constants": (lambda x: 1 if x > 0 else -1, X, 2),
    "an array of constants": (lambda v: v if v[0] > 0 else np.zeros(5), V, 2),
    "one of two": (lambda x, y: x if y else -x, (X, LABEL), 2),
    "the truth of a number": (lambda x: x * 2 if x else x + 1, X, 2),
    "the truth of an array of one": (lambda v: v * 2 if v[:1] else v + 1, V, 2),
    "the truth of a complex number": (lambda x: x * 2 if x else x + 1, rows("c16"), 2),
    "the truth of a flag": (lambda x: 1 if x else 2, rows("?"), 2),
    "not": (lambda x: not x > 0, X, 2),
    "and": (lambda x: x > 0 and x < 1, X, 2),
    "or": (lambda x, y: y > 3 or x > 0, (X, LABEL), 2),
    "a chain": (lambda x: x if 0 < x < 1 else -x, X, 3),
    "a chain kept": (lambda x: 0 < x < 1, X, 2),
    "one of some": (lambda y: y * 2 if y in (1, 3, 5) else y, LABEL, 4),
    "min of two": (lambda x: min(x, 3), WHOLE, 2),
    "max of three": (lambda v: max(v[0], v[1], v[2]), V, 4),
    "any": (lambda v: v if any(v[:3] > 1) else -v, V, 4),
    "asked twice": (asks_twice, X, 2),
    "helpers": (in_helpers, X, 4),
    "writes": (writes, V, 4),
    "a loop of few": (sums_what_is_positive, V, 8),
    "a view made before": (looks_at_a_view_later, MATRIX, 2),
    "values for both": (keeps_what_both_need, V, 2),
    "views only": (lambda m: m[::-1] if m[0, 0] > 9 else m, GREY, 2),
    "views of large rows": (lambda m: m[:, ::-1] if m[0, 0, 0] > 9 else m.transpose(1, 0, 2), COLOUR, 2),
    "large rows": (lambda m: m + np.uint8(1) if m[0, 0, 0] > 9 else m * np.uint8(3), COLOUR, 2),
    "large constants": (lambda m: np.zeros_like(m) if m[0, 0, 0] > 9 else m, COLOUR, 2),
    "several components": (lambda x, v: {"v": v * 2, "s": v.sum()} if x > 0 else {"v": v, "s": x}, (X, V), 2),
    "text passed on": (lambda x, s: (x * 2, s) if x > 0 else (x, s), (X, [f"row {i}" for i in range(len(X))]), 2),
    "ragged rows passed on": (
        lambda r, x: (x + 1, r) if x > 0 else (x, r),
        (hr.Ragged.from_rows([np.arange(i % 4) for i in range(41)]), X),
        2,
    ),
    "components exchanged": (lambda x, y: (x, y) if x > y else (y, x), (X, X[::-1].copy()), 2),
    "one array twice": (lambda v: (v, v) if v[0] > 0 else (v, v + 1), V, 2),
    "a table": (lambda v: v * SCALES if v[0] > LIMIT else v + SCALES, V, 2),
    "a table decides": (lambda x: x * 2 if SCALES[0] > 1 else x + 1, X, 2),
    "a table returned": (lambda v: SCALES if v[0] > 0 else v, V, 2),
    "raises": (raises, X, 2),
    "raises with text": (raises_with_text, X, 2),
    "raises with data": (raises_with_data, X, 2),
    "asserts": (asserts, X, 2),
    "catches": (catches, X, 2),
    "errstate": (under_errstate, X, 2),
    "a setting": (by_mode, X, 2),
    "row by row": (lambda v: np.median(v) if v[0] > 0 else np.cumsum(v)[2], V, 2),
    "a division": (lambda x, y: x / y if y != 0 else 0.0, (X, LABEL), 2),
}  # fmt: skip


def halves(x):
    while x > 1:
        x = x / 2
    return x


def notes_what_it_sees(x):
    if x > 0:
        SEEN.append(1)
    return x


def keeps_the_text(x):
    try:
        if x < 0:
            raise ValueError(f"{x}")
    except ValueError as error:
        return len(str(error))
    return 1


def text_by_call(x):
    if x < 0:
        raise ValueError(describe(f"{x}"))
    return x


def describe(text):
    return text + "!"


def five_ifs(v):
    for value in v:
        if value > 0:
            v = v + 1
    return v


def many_paths(v):
    return sum(1 if value > 0 else -1 for value in v[:4])


class NotedError(Exception):
    """Leaves a trace where it is made."""

    def __init__(self, text):
        SEEN.append(1)
        super().__init__(text)


def raises_what_is_noted(x):
    if x > 1e9:
        raise NotedError("too large")
    return x


def leaves_the_program(x):
    if x > 1e9:
        raise SystemExit(1)
    return x


SEEN: list[int] = []
REFUSED = {
    "a loop": (halves, np.arange(9.0), "branches on data more than 4 times in a row at "),
    "five ifs": (five_ifs, V, "branches on data more than 4 times in a row at "),
    "sixteen paths": (many_paths, V, "branches on data in more than 8 ways at "),
    "an array of several": (lambda v: v if v > 0 else -v, V, "branches on data at "),
    "other dtypes": (lambda x: x if x > 0 else 0, X, "gives float64 on one path, int64 on another"),
    "other shapes": (lambda v: v if v[0] > 0 else v[:2], V, "on one path, "),
    "other structures": (lambda x: (x, x) if x > 0 else x, X, "on one path, "),
    "None": (lambda x: x if x > 0 else None, X, "returns None"),
    "text": (lambda x: "a" if x > 0 else "b", X, "something other than a dense array"),
    "texts exchanged": (
        lambda x, s, t: s if x > 0 else t,
        (X, ["a"] * 41, ["b"] * 41),
        "something other than a dense array",
    ),
    "an effect on one path": (notes_what_it_sees, X, "changes SEEN, a list"),
    "an error with an effect": (raises_what_is_noted, X, "NotedError.__init__ is code of the class"),
    "what is no element's error": (leaves_the_program, np.arange(9.0), "raises SystemExit (1)"),
    "text that is caught": (keeps_the_text, X, "makes text of data"),
    "text that is called with": (text_by_call, X, "makes text of data"),
    "a number on one path": (lambda x: math.floor(x) if x > 3 else 0, np.arange(9.0), "Python number"),
    "a lookup on one path": (lambda y: {1: 2}[y] if y == 1 else 0, LABEL, "raises TypeError"),
    "membership": (lambda v: 1 if 3.0 in v else 2, V, "branches on data"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BRANCHES)
def test_every_row_takes_its_path(name):
    fn, data, paths = BRANCHES[name]
    check(fn, data)
    graph = D.from_tensor_slices(data).map(fn)._node.graph
    assert f", {paths} paths" in graph.summary


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_paths_is_called_on_each(name):
    before = len(SEEN)
    D.from_tensor_slices(REFUSED[name][1]).map(REFUSED[name][0])
    assert len(SEEN) == before
    check(*REFUSED[name])


def test_a_path_sees_no_rows_but_its_own():
    """No warning for a logarithm of what is not positive, no error for an index beyond the end."""
    data = (X, small("i8", below=9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fn in (lambda x, _: np.log(x) if x > 0 else -1.0, lambda _, y: SCALES[y] if y < 5 else 0.0):
            ds = D.from_tensor_slices(data).map(fn)
            assert isinstance(ds._node.graph, Graph)
            assert difference(outcomes(iter(ds.batch(41))), reference_outcomes(ds.batch(41))) is None
            assert not any(ds._node.function.settled_graph(ds._node.input.spec).unverified)


@pytest.mark.parametrize("calls", [None, 2, hr.AUTOTUNE])
@pytest.mark.parametrize("fn", [raises, raises_with_text, asserts], ids=["raises", "text", "assert"])
def test_errors_are_those_of_the_rows(fn, calls):
    numbers = np.arange(2000.0)
    numbers[[700, 1999]] = -3
    ds = D.from_tensor_slices(numbers).map(fn, calls).batch(10)
    assert isinstance(ds._node.input.graph, Graph)
    got, want = outcomes(iter(ds)), reference_outcomes(ds)
    assert difference(got, want) is None
    assert sum(kind == "error" for kind, _ in want) == 2


@pytest.mark.parametrize("wrong", [0, 1])
def test_each_path_is_compared_with_calls_whichever_block_it_comes_in(wrong):
    ds = D.from_tensor_slices(np.arange(-400.0, 400)).map(lambda x: x * (2 + wrong) if x < 0 else x * 4)
    graph = ds._node.graph
    step = graph.tree.sides[wrong].steps[-1]
    kernel = step.kernel
    step.kernel = lambda values, n: kernel(values, n) + 1
    list(ds.skip(400) if wrong == 0 else ds.take(400))
    assert graph.unverified == ([ROWS_TO_VERIFY, 0] if wrong == 0 else [0, ROWS_TO_VERIFY])
    assert "vectorised" in ds.explain()
    assert difference(outcomes(iter(ds)), reference_outcomes(ds)) is None
    assert "gave other values when run on a block" in ds.explain()


def test_threads_compare_every_path():
    ds = D.from_tensor_slices(ordinary("f8", 3000)).map(early_return, num_parallel_calls=4)
    results = []
    threads = [threading.Thread(target=lambda: results.append(outcomes(iter(ds.batch(64))))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = reference_outcomes(ds.batch(64))
    assert len(results) == 3
    assert all(difference(got, want) is None for got in results)
    assert ds._node.graph.unverified == [0, 0, 0]


def test_what_the_paths_give_belongs_to_the_block():
    table = np.arange(5.0)
    source = np.ones((64, 5))
    source[::2] = -1
    ds = D.from_tensor_slices(source).map(lambda v: v if v[0] > 0 else table).batch(64)
    for batch in ds:
        np.add(batch, 100, out=batch)
    assert (table == np.arange(5.0)).all()
    assert set(np.unique(source)) == {-1, 1}


def test_names_that_a_path_uses_may_change():
    fn = compiled("def fn(x):\n    return x * k[0] if x > 3 else x", k=[2.0])
    ds = D.range(9).map(lambda x: x * 1.0).map(fn)
    assert [float(x) for x in ds] == [0, 1, 2, 3, 8, 10, 12, 14, 16]
    fn.__globals__["k"][0] = 3.0
    assert [float(x) for x in ds] == [0, 1, 2, 3, 12, 15, 18, 21, 24]


def test_chains_and_filters():
    numbers = D.from_tensor_slices((X, WHOLE))
    chain = numbers.map(lambda x, i: (x * 2 if x > 0 else -x, i)).map(lambda x, i: (x, i + 1) if i > 3 else (x - 1, i))
    assert "4 paths" in chain.explain()
    early = numbers.map(lambda x, i: (x * 2 if x > 0 else -x, i)).filter(lambda _, i: i > 2 if i < 7 else True)
    for ds in (chain, early, early.batch(7), numbers.filter(lambda x, i: x > 0 and i != 3)):
        with np.errstate(all="ignore"):
            assert difference(outcomes(iter(ds)), reference_outcomes(ds)) is None
    assert not early._node.input.graph.reads ^ {0, 1}


@st.composite
def programs(draw, square):
    """Source of a function of a vector, or a `square` of which the order in memory matters.

    Assignments, writes in place and ifs, of which the paths share values.
    """
    at = "[{0}, {0}]" if square else "[{0}]"
    lines = ["def fn(v, rng):", "    a, b, c = v + 1, v.T, v[::-1] * 0.5"]
    names = st.sampled_from("abcv")
    numbers = st.sampled_from(["0.5", "-1.0", "2.0", "t", "rng.normal()", "rng.random(9)", "v.sum()"])
    conditions = st.sampled_from([
        "{}" + at.format(0) + " > 0", "{}.sum() > {}" + at.format(1), "{}.max() > 2 and {}" + at.format(2) + " < 1",
        "rng.random() < 0.5", "not {}" + at.format(3),
    ])  # fmt: skip
    forms = st.sampled_from([
        "{} = {} + {}", "{} = {} * {}", "{} = {}[::-1] - {}", "{} = np.abs({}) * {}", "{} = np.cumsum({}, 0) + {}",
        "{} = np.sort({}) + {}", "{} = {}.T + {}", "{} = v * 0 + {}.sum(axis=0) + {}",
        "{} = v * 2 + {}.T.mean(axis=0) * {}",
    ])  # fmt: skip

    def assign():
        return draw(forms).format(draw(names), draw(names), draw(names if draw(st.booleans()) else numbers))

    def write():
        name, other = draw(names), draw(names)
        copied = f"{name} = {name}.copy(); {name}[1] = {other}[2] * 2"
        return draw(st.sampled_from([copied, f"{name} = {name} * 1; {name} += 1"]))

    def block(indent, ifs):
        space = " " * indent
        for _ in range(draw(st.integers(1, 3))):
            lines.append(space + draw(st.sampled_from([assign, assign, write]))())
        if ifs:
            condition = draw(conditions)
            lines.append(f"{space}if {condition.format(*[draw(names) for _ in range(condition.count('{}'))])}:")
            block(indent + 4, draw(st.integers(0, ifs - 1)))
            if draw(st.booleans()):
                lines.append(f"{space}else:")
                block(indent + 4, draw(st.integers(0, ifs - 1)))
            if draw(st.integers(0, 3)) == 0:
                lines.append(f"{space}    return {draw(names)} + v * 0, {draw(names)}.sum()")
            lines.append(space + assign())

    block(4, 2)
    lines.append(f"    return {draw(names)} + v * 0, {draw(names)}.sum()")
    return "\n".join(lines)


@settings(max_examples=60, deadline=None)
@given(st.booleans().flatmap(lambda square: st.tuples(st.just(square), programs(square))), st.integers(0, 99))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_functions_of_many_paths(program, seed):
    square, source = program
    fn = compiled(source, np=np, t=np.linspace(-1, 2, 9))
    data = np.random.default_rng(seed).normal(0, 2, (60, 9, 9) if square else (60, 9)).astype("f4" if square else "f8")
    ds = D.from_tensor_slices(data).random_map(fn, seed)
    with np.errstate(all="ignore"):
        reason = difference(outcomes(iter(ds)), reference_outcomes(ds))
    assert reason is None, source
    if not square:  # a sum over what was written to in another order than C may be given up, which the rows do not show
        found = ds._node.function.graph(ds._node.input.spec)
        assert "gave other" not in str(found), source


def turned(image, rng):
    return image[:, ::-1] if rng.random() < 0.5 else image


@pytest.mark.parametrize("calls", [None, 2, hr.AUTOTUNE])
def test_pipelines_keep_every_promise(calls):
    """Resume, random access and the order, wherever rows of different paths are cut apart."""
    numbers = D.from_tensor_slices(ordinary("f8", 60))
    images = D.from_tensor_slices(GREY)
    for ds in (
        numbers.map(early_return, calls).batch(7),
        numbers.map(raises, calls).map(helper).batch(4),
        numbers.shuffle(20, seed=1).map(helper, calls).filter(lambda x: x > 1 and x < 50, num_parallel_calls=calls),
        images.shuffle(seed=3).random_map(turned, 5, calls).batch(8),
        numbers.random_map(lambda x, rng: rng.normal() if x > 0 else rng.random() + x, 1, calls).batch(6),
    ):
        check_transformation(ds, cuts=6, limit=60)
    assert our_threads() == []


def test_processes_call_it_on_each_row():
    ds = D.from_tensor_slices(ordinary("f8", 60)).map(early_return, 2, mode="process").batch(7)
    assert difference(outcomes(iter(ds)), reference_outcomes(ds)) is None
