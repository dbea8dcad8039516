"""What distinguishes functions, objects and arrays in every process, and what does not."""

import argparse
import collections
import dataclasses
import enum
import functools
import logging
import math
import operator
import pathlib
import random
import re
import subprocess
import sys
import threading
import types
from functools import partial
from queue import Queue

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import headrace as hr
from headrace.identity.looker import Looker
from headrace.identity.values import SAMPLES, Budget


def digest(value, budget=None):
    return str((Looker() if budget is None else Looker(budget)).digest([value]))


def compiled(source, **scope):
    """The function `f` of some source, as another version of a user's file would have it."""
    made = {"np": np, "math": math, "__name__": "user", **scope}
    exec(compile(source, "user.py", "exec"), made)
    return made["f"]


SAME = {
    "another line": ("def f(x): return x + 1", "\n\n# a comment\ndef f(x):\n    return x + 1"),
    "a docstring": ("def f(x): return x + 1", 'def f(x):\n    "Adds one."\n    return x + 1'),
    "another docstring": ('def f(x):\n "a"\n return x', 'def f(x):\n "b"\n return x'),
    "names of variables": ("def f(x):\n y = x * 2\n return y", "def f(x):\n z = x * 2\n return z"),
    "another name": ("def f(x): return x", "def g(x): return x\nf = g"),
    "annotations": ("def f(x): return x", "def f(x: int) -> int: return x"),
    "sets of constants": ("def f(x): return x in {'a', 'b', 'c'}", "def f(x): return x in {'c', 'a', 'b'}"),
}
OTHER = {
    "a constant": ("def f(x): return x + 1", "def f(x): return x + 2"),
    "a kind of constant": ("def f(x): return x + 1", "def f(x): return x + 1.0"),
    "a sign of zero": ("def f(x): return x * 0.0", "def f(x): return x * -0.0"),
    "an operator": ("def f(x): return x + 1", "def f(x): return x - 1"),
    "a name": ("def f(x): return np.sin(x)", "def f(x): return np.cos(x)"),
    "an inner function": ("def f(x): return [y + 1 for y in x]", "def f(x): return [y + 2 for y in x]"),
    "a lambda": ("f = lambda x: (lambda y: y + 1)(x)", "f = lambda x: (lambda y: y + 2)(x)"),
    "a default": ("def f(x, k=1): return x + k", "def f(x, k=2): return x + k"),
    "a named default": ("def f(x, *, k=1): return x + k", "def f(x, *, k=2): return x + k"),
    "a global": ("k = 1\ndef f(x): return x + k", "k = 2\ndef f(x): return x + k"),
    "a global of a helper": (
        "k = 1\ndef g(x): return x + k\ndef f(x): return g(x)",
        "k = 2\ndef g(x): return x + k\ndef f(x): return g(x)",
    ),
    "a helper": ("def g(x): return 1\ndef f(x): return g(x)", "def g(x): return 2\ndef f(x): return g(x)"),
    "helpers in another order": (
        "def g(x): return 1\ndef h(x): return 2\nf = (lambda a, b: lambda x: a(b(x)))(g, h)",
        "def g(x): return 1\ndef h(x): return 2\nf = (lambda a, b: lambda x: a(b(x)))(h, g)",
    ),
    "a closure": ("f = (lambda k: lambda x: x + k)(1)", "f = (lambda k: lambda x: x + k)(2)"),
    "a docstring that is used": ('def f(x):\n "a"\n return "a"', 'def f(x):\n "b"\n return "b"'),
    "what is caught": (
        "def f(x):\n try:\n  return x[0]\n except KeyError:\n  return 0",
        "def f(x):\n try:\n  return x[0]\n except IndexError:\n  return 0",
    ),
    "how far is caught": (
        "def f(x):\n try:\n  y = x[0]\n  z = x[1]\n except KeyError:\n  y = z = 0\n return y",
        "def f(x):\n y = x[0]\n try:\n  z = x[1]\n except KeyError:\n  y = z = 0\n return y",
    ),
    "a generator": ("def f(x): return iter([1])", "def f(x): yield 1"),
    "a nested dict": ("t = {'a': [1, {2}]}\ndef f(x): return t[x]", "t = {'a': [1, {3}]}\ndef f(x): return t[x]"),
    "arguments": ("def f(x, y=None): return x", "def f(x, *, y=None): return x"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing_is_no_change(name):
    one, two = map(compiled, SAME[name])
    assert digest(one) == digest(two)


@pytest.mark.parametrize("name", OTHER)
def test_what_a_function_does_and_holds_tells_it_from_others(name):
    one, two = map(compiled, OTHER[name])
    assert digest(one) != digest(two)
    assert digest(one) == digest(compiled(OTHER[name][0]))


class Scale:
    kind = "mul"

    def __init__(self, by, other=0):
        self.by = by
        self.other = other
        self.calls = 0
        self.seen = {}
        self._lock = threading.Lock()

    def __call__(self, x):
        self.calls += 1
        self.seen[self.calls] = x
        return self.scaled(x)

    def scaled(self, x):
        return x * self.by if self.kind == "mul" else x + self.half

    @functools.cached_property
    def half(self):
        return self.by / 2


class Offset(Scale):
    def scaled(self, x):
        return x + self.by


@dataclasses.dataclass
class Settings:
    rate: float
    names: tuple = ()


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Pair = collections.namedtuple("Pair", "a b")
A, B = np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3) + 1

VALUES = {
    "numbers": [1, 2, 1.0, True, 1j, -0.0, 0.0, np.int32(1), np.int64(1), np.float32(1), None, ...],
    "text": ["a", b"a", bytearray(b"b"), "b", "\ud800", pathlib.PurePosixPath("a"), re.compile("a"), re.compile("b")],
    "containers": [[1], (1,), {1}, {1: 1}, {1: 2}, [1, 2], [2, 1], [[1], [2]], [[1, 2]], collections.deque([1]), [{}]],
    "arrays": [A, B, A.T.copy(), A.astype("f4"), A.ravel(), np.array(["a"]), np.array(["b"]), A.view("m8[s]")],
    "arrays of objects": [np.array([1, "a"], object), np.array([2, "a"], object), np.array([[1], ["a"]], object)],
    "ragged": [hr.Ragged.from_rows([[1], [2]]), hr.Ragged.from_rows([[1, 2], []]), hr.Ragged.from_rows([[1], [3]])],
    "arrow": [pa.array(["a", "b"]), pa.array(["ab", ""]), pa.array([1, 2]), pa.array([1, None]), pa.array([[1], [2]])],
    "tables": [pa.table({"a": [1]}), pa.table({"b": [1]}), pd.DataFrame({"a": [2]}), pl.DataFrame({"a": [3]})],
    "tensors": [torch.arange(3), torch.arange(1, 4), torch.zeros(3)],
    "objects": [Scale(1), Scale(2), Offset(1), Settings(1.0), Settings(2.0), Settings(1.0, ("a",)), Pair(1, 2)],
    "enums": list(Colour),
    "partials": [partial(max, 1), partial(min, 1), partial(max, 2), partial(max), partial(max, key=abs)],
    "methods": [Scale(1).scaled, Scale(2).scaled, Offset(1).scaled, {"a": 1}.get, {"a": 2}.get, "a".join, "b".join],
    "functions of libraries": [len, max, np.sin, np.cos, np.add, math.sin, re.sub, re.match, operator.add],
    "methods of types": [str.upper, str.lower, bytes.upper, int.__add__, int.__sub__, (1).__add__, (2).__add__, str],
    "getters": [operator.itemgetter(1), operator.itemgetter(2), operator.attrgetter("a"), operator.methodcaller("a")],
    "compiled by others": [functools.lru_cache(lambda x: 1), functools.lru_cache(lambda x: 2)],
    "wrapped by a library": [
        functools.singledispatch(lambda x: 1).dispatch(int), functools.singledispatch(lambda x: 2).dispatch(int)
    ],
    "datasets": [
        hr.Dataset.range(3), hr.Dataset.range(4), hr.Dataset.range(3).map(lambda x: x), hr.Dataset.range(3).batch(2),
        hr.Dataset.range(3).map(lambda x: x + 1), hr.Dataset.from_tensors(1), hr.Dataset.from_tensors(2),
    ],
    "specs": [
        hr.TensorSpec((), "int64"), hr.TensorSpec((1,), "int64"), hr.io.FixedLenFeature([], np.int64),
        hr.io.FixedLenFeature([], np.float32), hr.io.VarLenFeature(np.int64),
    ],
}  # fmt: skip


def holding(value):
    return lambda x: (x, value)


@pytest.mark.parametrize("name", VALUES)
def test_values_are_told_apart(name):
    found = [digest(value) for value in VALUES[name]]
    assert len(set(found)) == len(found)
    assert found == [digest(value) for value in VALUES[name]]
    captured = [digest(holding(value)) for value in VALUES[name]]
    assert len(set(captured)) == len(captured)


def test_where_values_lie_in_memory_makes_no_difference():
    wide = np.arange(24).reshape(4, 6)
    assert digest(wide[::2, 1:3]) == digest(wide[::2, 1:3].copy())
    assert digest(np.asfortranarray(wide)) == digest(wide)
    assert digest(pa.array(["x", "a", "b"])[1:]) == digest(pa.array(["a", "b"]))
    assert digest(pa.chunked_array([["a"], ["b"]])) == digest(pa.chunked_array([["a", "b"]]))
    assert digest(pa.array([[9], [1], [2, 3]])[1:]) == digest(pa.array([[1], [2, 3]]))
    assert digest(pa.array([0, 1, None, 3])[1:]) == digest(pa.array([1, None, 3]))
    assert digest(hr.Ragged.from_rows([[0], [1], [2, 3]])[1:]) == digest(hr.Ragged.from_rows([[1], [2, 3]]))
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": {1}, "b": {2}}) == digest({"b": {2}, "a": {1}})


def test_a_single_bit_of_a_large_array_counts_where_it_is_read_whole():
    large = np.zeros(3 << 20, np.uint8)
    before, sampled = digest(large), digest(large, SAMPLES)
    large[(1 << 20) + 17] ^= 4
    assert digest(large) != before and digest(large, SAMPLES) != sampled
    small = Budget(1 << 17, 100)
    before = digest(large, small)
    large[1 << 20] ^= 4  # between the samples
    assert digest(large, small) == before
    large[-1] ^= 4
    assert digest(large, small) != before
    many = list(range(1000))
    assert digest(many, small) != digest(many[:-1], small)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_large_tables_are_sampled(frame):
    rows = np.arange(100_000)
    one, other = frame({"x": rows, "s": rows.astype(str)}), frame({"x": rows + (rows == 99_999), "s": rows.astype(str)})
    small = Budget(1000, 100)
    assert digest(one, small) == digest(frame({"x": rows, "s": rows.astype(str)}), small)
    assert digest(one, small) != digest(other, small) and digest(one) != digest(other)
    assert digest(one, small) != digest(one[:99_999], small)


CALLS, MEMO, COUNT, BUFFER, LOG = [], {}, 0, np.zeros(3), collections.Counter()
SETTINGS = types.SimpleNamespace(calls=0, seen=[])
RNG, LOCK = np.random.default_rng(), threading.Lock()


def appends(x):
    CALLS.append(x)
    return x


def remembers(x):
    if x not in MEMO:
        MEMO[x] = x * 2
    return MEMO[x]


def counts(x):
    global COUNT  # noqa: PLW0603 - it is what this is about
    COUNT += 1
    return x


def fills(x):
    buffer = BUFFER
    buffer[:] = x
    return buffer.copy()


def fills_out(x):
    np.add(x, 1, out=BUFFER)
    return BUFFER.copy()


def tallies(x):
    LOG[x] += 1
    LOG.update([x])
    return x


def sets(x):
    SETTINGS.calls += 1
    SETTINGS.seen.append(x)
    return x


def _add(place, x):
    place[x] = 1


def hands_over(x):
    _add(MEMO, x)
    return x


def draws(x):
    with LOCK:
        return x + RNG.random() + random.random()


def closure():
    calls, count = [], 0

    def counted(x):
        nonlocal count
        count += 1
        calls.append(x)
        return x

    return counted


@pytest.mark.parametrize(
    "fn", [appends, remembers, counts, fills, fills_out, tallies, sets, hands_over, draws, closure(), Scale(3)]
)
def test_what_a_function_changes_as_it_runs_does_not_count(fn):
    before = digest(fn)
    for x in range(1, 4):
        fn(x)
    assert digest(fn) == before


def test_only_what_is_asked_for_of_an_object_counts():
    one, two = Scale(1, other="run 1"), Scale(1, other="run 2")
    assert digest(one.scaled) == digest(two.scaled) and digest(one) == digest(two)
    assert digest(lambda x: one.scaled(x)) == digest(lambda x: two.scaled(x))
    assert digest(lambda x: one.other) != digest(lambda x: two.other)


LOGGER = logging.getLogger("test")
CONFIG = {"size": 3, "run": "a"}
ARGUMENTS = argparse.Namespace(size=3, run="a", deep=Settings(1.0, ("a",)))
RECORD = Settings(1.0, ("run a",))


def configured(x):
    LOGGER.info("%s", x)
    return x * CONFIG["size"] + ARGUMENTS.size + ARGUMENTS.deep.rate + RECORD.rate


def test_only_what_is_asked_for_of_settings_counts(monkeypatch):
    before = digest(configured)
    for owner, name in [(CONFIG, "run"), (CONFIG, "new"), (vars(ARGUMENTS), "run"), (vars(RECORD), "names")]:
        monkeypatch.setitem(owner, name, "another")
    assert digest(configured) == before
    for owner, name in [(CONFIG, "size"), (vars(ARGUMENTS), "size"), (vars(RECORD), "rate")]:
        with monkeypatch.context() as context:
            context.setitem(owner, name, 4)
            assert digest(configured) != before
    assert digest(configured) == before


def test_what_is_used_whole_counts_whole(monkeypatch):
    def passed(x):
        return helper(CONFIG, x), RECORD

    def helper(config, x):
        return config["size"]

    before = digest(passed)
    monkeypatch.setitem(CONFIG, "run", "another")
    assert digest(passed) != before
    before = digest(passed)
    monkeypatch.setitem(vars(RECORD), "names", ())
    assert digest(passed) != before


def test_loggers_files_and_the_like_count_by_their_type(tmp_path):
    def logs(x):
        LOGGER.warning("%s", x)
        file.write(x)
        queue.put(x)

    file, queue = (tmp_path / "log").open("w"), Queue()
    before = digest(logs)
    LOGGER.addHandler(logging.FileHandler(tmp_path / "other"))
    LOGGER.setLevel(7)
    queue.put(1)
    try:
        assert digest(logs) == before
    finally:
        LOGGER.handlers[0].close()
        LOGGER.handlers.clear()
        file.close()


def test_what_leads_to_itself_is_looked_at_once():
    ring = [1]
    ring.append(ring)
    node = Scale(1)
    node.by = node
    assert digest(ring) == digest(ring) and digest(node) == digest(node)

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert digest(even) == digest(even) != digest(odd)


def test_what_refuses_to_be_looked_at_counts_by_its_type():
    class Closed:
        __slots__ = ("x",)

        def __getattribute__(self, name):
            raise RuntimeError("go away")

    assert digest(Closed()) == digest(Closed())
    assert digest(object()) == digest(object())
    assert digest(iter([1])) == digest(iter([2])), "to look would use it up"
    assert digest(torch.nn.Linear(2, 2)) == digest(torch.nn.Linear(2, 2)), "it is trained meanwhile"


def test_digests_are_the_same_in_every_process():
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.identity import test_identity as t
for name, values in t.VALUES.items():
    print(name, *map(t.digest, values))
for fn in (t.appends, t.remembers, t.sets, t.closure(), t.Scale(3), t.draws, *map(t.compiled, t.OTHER["a helper"])):
    print(t.digest(fn))
print(t.digest(lambda x: (x in set(t.WORDS), t.VALUES["objects"])))
"""
    root = pathlib.Path(__file__).parents[2]
    said = [
        subprocess.run(
            [sys.executable, *flags, "-c", code, root],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed, flags in [("1", ()), ("2", ("-X", "frozen_modules=off"))]
    ]
    assert said[0] == said[1] and said[0].count("\n") == len(VALUES) + 9


def test_what_travels_to_another_process_stays_what_it_is(tmp_path):
    code = """
import collections, dataclasses, subprocess, sys
import cloudpickle
from headrace.identity.looker import Looker
Pair = collections.namedtuple("Pair", "a b")
k = 3
@dataclasses.dataclass
class Settings:
    by: int
class Scale:
    def __init__(self, by): self.by = Settings(by)
    def __call__(self, x): return Pair(self.helped(x), k)
    def helped(self, x): return helper(x) * self.by.by
def helper(x): return x + k
values = [Scale(2), helper, lambda x: Scale(k)(x), Scale(3).helped]
there = "import sys, cloudpickle\\nfrom headrace.identity.looker import Looker\\n"
there += "print(*[Looker().digest([v]) for v in cloudpickle.loads(sys.stdin.buffer.read())])"
said = subprocess.run([sys.executable, "-c", there], input=cloudpickle.dumps(values), capture_output=True, check=True)
assert said.stdout.decode().split() == [str(Looker().digest([v])) for v in values], said.stdout
"""
    (tmp_path / "program.py").write_text(code)
    assert subprocess.run([sys.executable, tmp_path / "program.py"], check=False).returncode == 0


WORDS = {f"word {i}" for i in range(100)}
