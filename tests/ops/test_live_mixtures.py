"""Mixtures that change while they run: every source goes on where it stood, whatever happens to the others."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest

import headrace as hr
from headrace.execute.state import sealed

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")
SIZES = {"a": 37, "b": 11, "c": 90, "d": 5, "e": 64}


def source(name, how):
    """A source whose rows tell its name and their number, three ways: by number, in turn, and shuffled."""
    base = 1000 * (1 + sorted(SIZES).index(name))
    ds = D.range(base, base + SIZES[name])
    if how == "streamed":
        return ds.filter(lambda x: True)
    return ds.shuffle(seed=3) if how == "shuffled" else ds


def expected(name, how, rows):
    """The first rows of a source by itself."""
    return [int(x) for x in source(name, how).repeat().take(rows)] if rows else []


def mixed(weights, how, seed, operations):
    """A mixture that changes; in tokens, a row counts as many as the number that it is."""
    unit = "tokens" if how == "tokens" else "rows"
    ds = hr.mix({name: source(name, how) for name in weights}, weights, seed=seed, unit=unit, on_change="adopt")
    return operations(ds)


def flat(element):
    return [int(x) for x in np.ravel(element)]


OPERATIONS = {
    "alone": lambda ds: ds,
    "batches": lambda ds: ds.map(lambda x: x + 0).batch(3).prefetch(2),
    "two ranks": lambda ds: ds.distribute(0, 1, 4),
}


def drawn_weights(draw, names):
    while True:
        weights = {name: draw.choice([0, 1, 2, 5]) for name in names}
        if any(weights.values()):
            return weights


@pytest.mark.parametrize("number", range(20))
def test_sources_come_once_and_in_order_through_fifty_changes(number):
    draw = random.Random(number)
    how = ["by number", "streamed", "shuffled", "tokens"][number % 4]
    operations = list(OPERATIONS.values())[number // 4 % 3]
    names = ["a", "b", "c"]
    weights = drawn_weights(draw, names)
    it = iter(mixed(weights, how, number, operations))
    seen = []
    for _ in range(50):
        for _ in range(draw.randrange(12)):
            seen += flat(next(it))
        change = draw.randrange(3)
        if change == 0:
            it.set_weights(drawn_weights(draw, names))
        else:
            absent = sorted(set(SIZES) - set(names))
            if change == 1 and absent:
                names = draw.sample([*names, draw.choice(absent)], len(names) + 1)
            elif len(names) > 1:
                names.remove(draw.choice(names))
            state = json.loads(json.dumps(it.state()))
            it = mixed(drawn_weights(draw, names), how, number, operations).iterator(state=state)
    for _ in range(30):
        seen += flat(next(it))
    counts = {}
    for name in SIZES:
        base = 1000 * (1 + sorted(SIZES).index(name))
        mine = [x for x in seen if base <= x < base + 1000]
        assert mine == expected(name, how, len(mine)), name
        counts[name] = len(mine)
    report = it.mixture_report()
    assert {name: entry["rows"] for name, entry in report.items()} == {n: c for n, c in counts.items() if n in report}
    if how == "tokens":
        assert {n: entry["tokens"] for n, entry in report.items()} == {
            n: sum(expected(n, how, counts[n])) for n in report
        }
    assert all(not counts[name] for name in set(counts) - set(report))
    assert len(json.dumps(it.state())) < 3000


def test_weights_hold_from_the_next_element_on():
    it = iter(hr.mix({"a": D.range(10**6), "b": D.range(-(10**6), 0)}, {"a": 1, "b": 0}, seed=1).batch(256).prefetch(4))
    assert (next(it) >= 0).all() and (next(it) >= 0).all()
    it.set_weights({"a": 3, "b": 1})
    assert [(next(it) < 0).sum() for _ in range(3)] == [64] * 3
    it.set_weights({"a": 0, "b": 1})
    assert (next(it) < 0).all()
    assert it.mixture_report() == {"a": {"rows": 1088, "epochs": 0}, "b": {"rows": 448, "epochs": 0}}


@pytest.mark.parametrize("how", ["by number", "streamed"])
def test_a_state_with_set_weights_is_exact_in_the_same_plan(how):
    def plan():
        return hr.mix({n: source(n, how) for n in "abc"}, [1, 2, 3], seed=5, schedule={40: [3, 2, 1]}).batch(4)

    it = iter(plan())
    for _ in range(5):
        next(it)
    it.set_weights({"a": 1, "b": 1, "c": 0})
    first = [next(it).tolist() for _ in range(3)]
    state = json.loads(json.dumps(it.state()))
    rest = [next(it).tolist() for _ in range(30)]
    again = plan().iterator(state=state)
    assert [next(again).tolist() for _ in range(30)] == rest
    assert all(x < 3000 for batch in (*first, *rest) for x in batch), "the schedule is dropped"
    plain = iter(plan())
    plain.restore(state)
    assert next(plain).tolist() == rest[0]


@pytest.mark.parametrize(
    "hold",
    [
        lambda ds: ds.shuffle(20, seed=2).batch(4),
        lambda ds: ds.map(lambda x: np.arange(x % 7)).padded_batch(2).filter(lambda b: b.size > 3),
        lambda ds: ds.map(_document, output_signature=hr.TensorSpec((None,), "int64")).pack(16),
        lambda ds: ds.map(_document, output_signature=hr.TensorSpec((None,), "int64")).pack(
            16, "best_fit", lookahead=9
        ),
        lambda ds: ds.batch(2).distribute(0, 2, 2, balance=lambda batch: batch.sum(), window=3),
    ],
    ids=["shuffle", "filter", "pack", "best fit", "balance"],
)
@pytest.mark.parametrize("how", ["by number", "streamed"])
def test_operations_that_hold_rows_stay_exact(hold, how):
    def plan(weights):
        return hold(hr.mix({n: source(n, how) for n in weights}, weights, seed=5, on_change="adopt"))

    it = iter(plan({"a": 1, "b": 2}))
    for steps in (7, 3):
        for _ in range(steps):
            next(it)
        it.set_weights({"a": steps, "b": 1})
        state = json.loads(json.dumps(it.state()))
        rest = [_plain(next(it)) for _ in range(25)]
        again = plan({"a": 1, "b": 2}).iterator(state=state)
        assert [_plain(next(again)) for _ in range(25)] == rest
        other = plan({"a": 1, "b": 2, "c": 4}).iterator(state=state)
        found = [_plain(next(other)) for _ in range(60)]
        assert found != rest
        it = plan({"a": 1, "b": 2}).iterator(state=state)


@pytest.mark.parametrize("change", [lambda ds: ds, lambda ds: ds.batch(2), lambda ds: ds.distribute(0, 1)])
def test_a_mixture_that_ends_changes_too(change):
    def plan(weights):
        return change(
            hr.mix({n: source(n, "streamed") for n in weights}, weights, seed=5, repeat=False, on_change="adopt")
        )

    it, seen = iter(plan({"c": 1, "e": 2})), []
    for weights in ({"c": 1, "e": 9}, {"c": 3, "e": 1}):
        seen += [x for _ in range(5) for x in flat(next(it))]
        it.set_weights(weights)
        it = plan({"c": 1, "e": 2}).iterator(state=json.loads(json.dumps(it.state())))
        it.set_weights({"c": 2, "e": 1})
    it = plan({"c": 1, "e": 1, "a": 1}).iterator(state=it.state())
    seen += [x for element in it for x in flat(element)]
    for name in "ace":
        base = 1000 * (1 + sorted(SIZES).index(name))
        mine = [x for x in seen if base <= x < base + 1000]
        assert mine and mine == expected(name, "streamed", len(mine))


def _document(x):
    return np.full(x % 7 + 1, x)


def _plain(element):
    return repr(element)


def test_another_mixture_is_refused_unless_it_is_adopted():
    def plan(names, weights=None, **more):
        return hr.mix({n: source(n, "by number") for n in names}, weights, seed=5, **more).batch(4)

    it = iter(plan("ab"))
    next(it)
    state = it.state()
    for other in (plan("ab", [1, 2]), plan("abc")):
        with pytest.raises(hr.StateError, match='on_change="adopt"'):
            other.iterator(state=state)
    other = hr.mix({"a": D.range(36), "b": source("b", "by number")}, seed=5, on_change="adopt").batch(4)
    with pytest.raises(hr.StateError, match="source 'a' of the mixture is another one"):
        other.iterator(state=state)
    with pytest.raises(hr.StateError, match="another pipeline around its mixture"):
        plan("ab", [1, 2], on_change="adopt").map(lambda x: x).iterator(state=state)


@pytest.mark.parametrize("part", ["line", "names", "lines", "seeds", "history"])
@pytest.mark.parametrize("nonsense", [None, -1, [], ["a"], {"segments": []}])
def test_a_state_with_nonsense_about_its_mixture_is_refused(part, nonsense):
    def plan(names):
        return hr.mix({n: source(n, "streamed") for n in names}, seed=5, on_change="adopt").batch(4)

    it = iter(plan("ab"))
    next(it)
    state = it.state()
    state["mixtures"] = [{**state["mixtures"][0], part: nonsense}]
    with pytest.raises(hr.StateError):
        next(plan("abc").iterator(state=sealed(state)))


def test_drawn_seeds_stay_with_their_sources():
    def plan(names):
        parts = {n: D.range(1000 * i, 1000 * i + 50).shuffle() for i, n in enumerate("abc") if n in names}
        return hr.mix(parts, seed=1, on_change="adopt")

    it = iter(plan("ac"))
    seen = [int(next(it)) for _ in range(40)]
    it = plan("abc").iterator(state=json.loads(json.dumps(it.state())))
    seen += [int(next(it)) for _ in range(60)]
    for i in (0, 2):
        mine = [x for x in seen if x // 1000 == i][:50]
        assert len(set(mine)) == len(mine) > 25


OTHER_PROCESS = """
import json, sys
import headrace as hr
weights, ranks, steps, state = json.loads(sys.stdin.read())
bases = {"a": 1000, "b": 2000, "c": 3000}
ds = hr.mix({n: hr.Dataset.range(bases[n], bases[n] + 40) for n in weights}, weights, seed=5, on_change="adopt")
its = [ds.distribute(rank, ranks, 2).iterator(state=state) for rank in range(ranks)]
rows = [next(it).tolist() for _ in range(steps) for it in its]
print(json.dumps([rows, its[-1].state()]))
"""


def test_adopting_works_in_another_process_and_with_other_ranks():
    seen, state = [], None
    for weights, ranks in (({"a": 1, "b": 3}, 2), ({"b": 1, "c": 2}, 3)):
        given = json.dumps([weights, ranks, 6, state])
        done = subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS], input=given, capture_output=True, text=True, check=True
        )
        rows, state = json.loads(done.stdout)
        seen += [x for batch in rows for x in batch]
    for base in (1000, 2000, 3000):
        mine = [x for x in seen if base <= x < base + 1000]
        assert mine and mine == [base + i % 40 for i in range(len(mine))]


def test_a_feed_changes_its_weights_too():
    torch = pytest.importorskip("torch")
    feed = hr.mix({n: source(n, "by number") for n in "ab"}, [1, 0], seed=5, on_change="adopt").batch(8).to_torch()
    it = iter(feed)
    assert int(next(it).max()) < 2000
    it.set_weights({"a": 0, "b": 1})
    second = next(it)
    assert isinstance(second, torch.Tensor) and int(second.min()) >= 2000
    state = it.state()
    other = hr.mix({n: source(n, "by number") for n in "abc"}, [0, 0, 1], seed=5, on_change="adopt").batch(8).to_torch()
    other.load_state_dict(state)
    assert int(next(iter(other)).min()) >= 3000


def test_proportional_weights_and_temperature():
    parts = {"a": D.range(900), "b": D.range(-100, 0)}
    assert sum(int(x) < 0 for x in hr.mix(parts, "proportional", seed=1).take(2560)) == 256
    assert sum(int(x) < 0 for x in hr.mix(parts, "proportional", seed=1, temperature=2).take(2560)) == 640
    for wrong, said in [
        (lambda: hr.mix(parts, "equal"), 'numbers or "proportional"'),
        (lambda: hr.mix(parts, temperature=2), "temperature is for weights"),
        (lambda: hr.mix(parts, "proportional", temperature=0), "temperature must be above 0"),
        (lambda: hr.mix({"a": parts["a"].filter(lambda x: True)}, "proportional"), "length of 'a' is not known"),
        (lambda: iter(hr.mix(parts, seed=1)).set_weights({"a": 1}), "the weights name"),
        (lambda: iter(parts["a"]).set_weights({"a": 1}), "0 mixtures"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
