"""From which row on new weights hold: the same in all processes, and at once if no operation holds rows."""

import json
import random
import threading
from collections import Counter

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")
FIRST = {"a": 0, "b": 10**6}
"""The first row of each source; the others follow in order."""
KINDS = ["by number", "streamed", "by tokens"]


def mixed(kind, weights=(2, 1)):
    parts = {name: D.range(first, first + 10**6) for name, first in FIRST.items()}
    if kind == "streamed":
        parts = {name: ds.filter(lambda x: True) for name, ds in parts.items()}
    counted = {"unit": "tokens", "length": lambda x: 1 + x % 3} if kind == "by tokens" else {}
    return hr.mix(parts, dict(zip(FIRST, weights, strict=True)), seed=1, **counted)


def same(x):
    return x + 0


def document(x):
    return np.full(x % 3 + 1, x)


def documents(ds):
    return ds.map(document, output_signature=TOKENS, num_parallel_calls=4, mode="eager")


def rows_of(element):
    tokens = element["tokens"] if isinstance(element, dict) else element
    return np.ravel(tokens).tolist()


def assert_each_row_once(seen, copies, kept=lambda row: True, held=60):
    """Each row of a source comes as often as it should, up to the last ones, which operations may still hold."""
    counts = Counter(seen)
    for first in FIRST.values():
        last = max(row for row in counts if first <= row < first + 10**6)
        assert last > first + held
        for row in range(first, last - held):
            assert counts[row] == (copies(row) if kept(row) else 0), row


ON_RANKS = {
    "filter": (lambda ds: ds.filter(lambda x: x % 3 != 1), lambda row: 1, lambda row: row % 3 != 1),
    "calls, filter": (
        lambda ds: ds.map(same, num_parallel_calls=4, mode="eager").filter(lambda x: x % 3 != 1),
        lambda row: 1,
        lambda row: row % 3 != 1,
    ),
    "pack": (lambda ds: documents(ds).pack(4, pad=-1), lambda row: row % 3 + 1, None),
    "best fit": (
        lambda ds: documents(ds).pack(4, "best_fit", lookahead=6, pad=-1),
        lambda row: row % 3 + 1,
        None,
    ),
    "prefetch, pack, prefetch": (
        lambda ds: documents(ds).prefetch(8).pack(4, pad=-1).prefetch(4),
        lambda row: row % 3 + 1,
        None,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ON_RANKS)
@pytest.mark.parametrize("world_size", [2, 3])
def test_processes_change_weights_at_the_same_row(name, kind, world_size):
    operations, copies, kept = ON_RANKS[name]
    draw = random.Random(world_size)
    its = [iter(operations(mixed(kind)).distribute(rank, world_size, 2)) for rank in range(world_size)]
    seen = []

    def steps(count):
        for _ in range(count):
            for it in its:
                seen.extend(rows_of(next(it)))

    for _ in range(4):
        steps(draw.randrange(1, 5))
        weights = {"a": draw.randrange(1, 4), "b": draw.randrange(1, 4)}
        for it in its:
            it.set_weights(weights)
    steps(50)
    assert_each_row_once([row for row in seen if row >= 0], copies, kept or (lambda row: True))
    assert len({json.dumps(it.state()["mixtures"]) for it in its}) == 1
    for it in its:
        it.close()


@pytest.mark.parametrize("kind", KINDS)
def test_processes_with_balanced_rows_change_weights_at_the_same_row(kind):
    def share(rank):
        ds = mixed(kind).map(same, num_parallel_calls=4, mode="eager").filter(lambda x: x % 5 > 0)
        return ds.distribute(rank, 2, 2, balance=lambda x: x % 7, window=3)

    its, seen = [iter(share(rank)) for rank in range(2)], []
    for weights in ({"a": 1, "b": 3}, {"a": 3, "b": 1}, {"a": 1, "b": 1}):
        seen += [row for _ in range(4) for it in its for row in rows_of(next(it))]
        for it in its:
            it.set_weights(weights)
    seen += [row for _ in range(60) for it in its for row in rows_of(next(it))]
    assert_each_row_once(seen, lambda row: 1, lambda row: row % 5 > 0)


HOLD_NOTHING = {
    "filter": lambda ds: ds.filter(lambda x: True),
    "filter, batch": lambda ds: ds.filter(lambda x: True).batch(4),
    "skip": lambda ds: ds.skip(3),
    "scan": lambda ds: ds.scan(np.int64(0), lambda number, x: (number + 1, x)),
    "calls, batch": lambda ds: ds.map(same, mode="eager", num_parallel_calls=4).batch(4),
    "ignore_errors": lambda ds: ds.map(same, mode="eager").ignore_errors().batch(2),
    "skip_steps": lambda ds: ds.batch(2).skip_steps([1, 20]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOLD_NOTHING)
def test_the_next_element_has_the_new_weights(name, kind):
    it = iter(HOLD_NOTHING[name](mixed(kind, (1, 0))))
    seen = [row for _ in range(7) for row in rows_of(next(it))]
    assert all(row < FIRST["b"] for row in seen)
    it.set_weights({"a": 0, "b": 1})
    report = it.mixture_report()
    assert report["a"]["rows"] == seen[-1] + 1 and report["b"]["rows"] == 0
    if kind == "by tokens":
        assert report["a"]["tokens"] == sum(1 + row % 3 for row in range(seen[-1] + 1))
    following = [row for _ in range(7) for row in rows_of(next(it))]
    assert following == [FIRST["b"] + i for i in range(len(following))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOLD_NOTHING)
def test_a_source_of_weight_0_can_be_removed_at_once(name, kind):
    def plan(names):
        parts = {n: D.range(FIRST[n], FIRST[n] + 10**6) for n in names}
        if kind == "streamed":
            parts = {n: ds.filter(lambda x: True) for n, ds in parts.items()}
        counted = {"unit": "tokens", "length": _length} if kind == "by tokens" else {}
        return HOLD_NOTHING[name](hr.mix(parts, seed=1, on_change="adopt", **counted))

    it = iter(plan("ab"))
    seen = [row for _ in range(7) for row in rows_of(next(it))]
    it.set_weights({"a": 0, "b": 1})
    it = plan("b").iterator(state=it.state())
    seen += [row for _ in range(40) for row in rows_of(next(it))]
    rows = [row for row in seen if row >= FIRST["b"]]
    skipped = rows[0] - FIRST["b"] if name in ("skip", "skip_steps") else 0
    gaps = np.diff(rows)
    assert skipped <= 3 and (gaps >= 1).all() and (gaps > 1).sum() <= (name == "skip_steps") * 2


def _length(x):
    return 1 + x % 3


@pytest.mark.parametrize(
    "change",
    [lambda ds: ds, lambda ds: ds.batch(3), lambda ds: ds.map(same).enumerate(), lambda ds: ds.distribute(1, 2, 2)],
    ids=["alone", "batch", "enumerate", "distribute"],
)
def test_a_streamed_source_joins_sources_that_are_read_by_number(change):
    """Also if the weights were changed before, so that the first rows of the mixture are forgotten."""

    def plan(names):
        parts = {n: D.range(1000 * i, 1000 * i + 7) for i, n in enumerate("ab", 1)}
        parts["c"] = D.range(3000, 3007).filter(lambda x: True)
        return change(hr.mix({n: parts[n] for n in names}, seed=1, on_change="adopt"))

    def rows(element):
        return np.ravel(element[1] if isinstance(element, tuple) else element).tolist()

    it = iter(plan("ab"))
    for _ in range(6):
        next(it)
    it.set_weights({"a": 1, "b": 3})
    for _ in range(4):
        next(it)
    before = {"c": {"rows": 0}, **it.mixture_report()}
    it = plan("abc").iterator(state=it.state())
    seen = [row for _ in range(40) for row in rows(next(it))]
    after = it.mixture_report()
    for i, name in enumerate("abc", 1):
        delivered = [1000 * i + k % 7 for k in range(before[name]["rows"], after[name]["rows"])]
        mine = [row for row in seen if row // 1000 == i]
        assert mine and _in_order(mine, delivered)  # the other process has the rest
        assert mine == delivered or len(seen) < sum(entry["rows"] for entry in after.values())


def _in_order(part, whole):
    rest = iter(whole)
    return all(row in rest for row in part)


def test_rows_that_were_handed_over_out_of_order_count_as_drawn():
    """A later row overtakes the first one, which then still comes, and no other in its place."""
    release = threading.Event()

    def held(x):
        if x == 0:
            release.wait()
        return x

    ds = hr.mix({"a": D.range(100), "b": D.range(1000, 1100)}, {"a": 1, "b": 0}, seed=1)
    it = iter(ds.map(held, mode="eager", num_parallel_calls=2, deterministic=False))
    seen = [int(next(it))]
    assert seen == [1]
    release.set()
    it.set_weights({"a": 1, "b": 1})
    seen += [int(next(it)) for _ in range(40)]
    counts = Counter(seen)
    for first in (0, 1000):
        mine = [row for row in counts if row // 1000 == first // 1000]
        assert all(counts[row] == 1 for row in range(first, max(mine) - 4))
    it.close()
