"""The conformance kit: check that a pipeline, and every operation in it, keeps headrace's guarantees.

>>> from headrace.testing import check_transformation
>>> check_transformation(hr.Dataset.range(20).shuffle(5, seed=1).batch(3))
"""

from __future__ import annotations

import gc
import json
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from headrace import reference
from headrace.adapters.feed import Feed
from headrace.columns.block import Block, Failure
from headrace.core.types import JsonObject, Nested
from headrace.dataset import Dataset
from headrace.errors import ElementError
from headrace.execute.pool import TINY_CUTS, ScanPolicy
from headrace.execute.run import Pass
from headrace.execute.stream import END
from headrace.iterator import Epochs, Iterator, Settings
from headrace.optimize.rules import apply_rules, prepare
from headrace.physical.lower import NestedPlans, lower, lower_pass
from headrace.plan.node import Node, obstacle
from headrace.plan.prepared import Prepared
from headrace.plan.spec import Spec
from headrace.plan.structure import flatten

Outcome = tuple[str, Any]
"""("value", the element) or ("error", its message)."""

_REAPER_SECONDS = 60.0
"""How long a dropped iterator may take to close: a user's call that is in flight has to return first."""

_VARIANTS = (
    Settings(),
    Settings(optimise=False),
    Settings(block_rows=1),
    Settings(block_rows=3, with_ids=True, tiny_cuts=True),
    Settings(optimise=False, block_rows=1000),
    Settings(tiny_cuts=True),
)


_PREPARATIONS = (
    (prepare, ScanPolicy()),
    (Prepared.of, ScanPolicy()),
    (NestedPlans(TINY_CUTS.min_threads), TINY_CUTS),
)


def outcomes(it: Iterator, limit: int | None = None) -> list[Outcome]:
    """Return what an iterator gives, errors in their places."""
    got: list[Outcome] = []
    while limit is None or len(got) < limit:
        try:
            got.append(("value", next(it)))
        except StopIteration:
            break
        except ElementError as error:  # excluding the record, which is looked up afterwards
            got.append(("error", error.args[0]))
    return got


def reference_outcomes(ds: Dataset, epoch: int = 0, limit: int | None = None) -> list[Outcome]:
    """Return what the naive executor gives."""
    return [
        ("error", str(row.value)) if isinstance(row.value, ElementError) else ("value", row.value)
        for row in islice(reference.run(ds._node, epoch), limit)
    ]


def same(a: object, b: object) -> bool:
    """Return whether two elements are equal: structure, dtypes, shapes and every bit."""
    (sa, la), (sb, lb) = flatten(a), flatten(b)
    return sa == sb and all(_same_leaf(x, y) for x, y in zip(la, lb, strict=True))


def _same_leaf(x: object, y: object) -> bool:
    if not isinstance(x, np.ndarray | np.generic):
        return type(x) is type(y) and bool(x == y)
    if type(x) is not type(y) or x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.hasobject:
        return bool(np.array_equal(x, y))
    return np.asarray(x).tobytes() == np.asarray(y).tobytes()


def _same_delivered(got: Nested, wanted: Nested) -> bool:
    """Return whether a trainer got equal elements; arrays that NumPy cannot read are compared by their repr."""
    if type(got) is not type(wanted):
        return False
    if isinstance(wanted, Mapping):
        return list(got) == list(wanted) and all(_same_delivered(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return len(got) == len(wanted) and all(map(_same_delivered, got, wanted))
    try:
        ours, theirs = np.asarray(got), np.asarray(wanted)
    except Exception:  # on a device, of a dtype that NumPy has not, jagged
        return repr(got) == repr(wanted)
    return repr(got) == repr(wanted) if theirs.dtype.hasobject else _same_leaf(ours, theirs)


def difference(got: Sequence[Outcome], want: Sequence[Outcome]) -> str | None:
    """Return where two sequences differ, or None."""
    for i, (g, w) in enumerate(zip(got, want, strict=False)):
        if g[0] != w[0] or not (same(g[1], w[1]) if g[0] == "value" else g[1] == w[1]):
            return f"element {i} is {g[1]!r}, not {w[1]!r}"
    if len(got) != len(want):
        kind, value = max(got, want, key=len)[min(len(got), len(want))]
        which = "the first too many" if len(got) > len(want) else "the first that is missing"
        return f"{len(got)} elements, not {len(want)}; {which} is the {kind} {value!r}"
    return None


def _check_rewrites(ds: Dataset) -> None:
    """Spec and cardinality stay what they are after every rule, and in the plan that runs."""

    def check(rule: Callable[[Node], Node | None], before: Node, after: Node) -> None:
        _require(_promises_differ(before, after), f"{rule.__name__} at {before.operation}", ds)

    plan = apply_rules(ds._node, check=check)
    for cpus in (1, TINY_CUTS.min_threads):
        _require(_promises_differ(plan, lower(plan, cpus)), f"the plan for {cpus} processors", ds)
        _require(_promises_differ(ds._node, lower_pass(ds._node, cpus)), f"the plan for {cpus} processors", ds)


def _promises_differ(before: Node, after: Node) -> str | None:
    if before.cardinality != after.cardinality:
        return f"cardinality was {before.cardinality} and is {after.cardinality}"
    return None if before.spec == after.spec else f"element_spec was {before.spec} and is {after.spec}"


def _require(reason: str | None, what: str, ds: Dataset) -> None:
    if reason is not None:
        raise AssertionError(f"{what}: {reason}\n{ds.explain()}")


def check_transformation(
    ds: Dataset, *, cuts: int | None = None, limit: int = 1000, ordered: bool = True, epochs: int = 2
) -> None:
    """Raise AssertionError unless `ds` keeps every promise.

    - Both executors give the same elements and errors, in every epoch, whatever the block size, optimised or not,
      in order or on tiny cuts of the sources.
    - A state taken at a cut, sent through JSON and restored under other settings, gives exactly the rest. So does a
      pass that was interrupted there and continues. All cuts are tried, or `cuts` of them, chosen at random.
    - Skipping rows, anywhere, equals pulling and dropping them.
    - Rows have ids of their own, the same on both executors: randomness is keyed by them.
    - Closing at any cut leaves no stream and no thread.
    - `cardinality`, `element_spec` and `ds[i]` are correct. No rule of the optimiser and no choice of a strategy
      changes the first two.

    Only the first `limit` elements are checked. `ordered=False` is for pipelines with `deterministic=False`: the same
    elements, in any order.
    """
    node = ds._node
    _check_rewrites(ds)
    for epoch in range(epochs):
        want = reference_outcomes(ds, epoch, limit)
        for settings in _VARIANTS:
            it = _pass(ds, settings, epoch)
            _require(_differs(outcomes(it, limit), want, ordered), f"{settings}, epoch {epoch}", ds)
            _check_closed(it, ds)
        _check_resume(ds, want, epoch, cuts, limit, ordered)
        _check_ids(ds, epoch, limit, ordered)
        if ordered:
            _check_skips(ds, want, epoch)
    want = reference_outcomes(ds, 0, limit + 1)
    _check_cardinality(ds, want, limit)
    spec = Spec.of_signature(ds.element_spec)
    for kind, value in want:
        if kind == "value" and node.spec.known:
            _require(spec.refusal(value), "element_spec", ds)
    if obstacle(node) is None:
        failed = next((i for i, (kind, _) in enumerate(want) if kind == "error"), limit)
        _check_random_access(ds, want[: min(failed, limit) if node.has_extra_failures else limit])


def check_feed(feed: Feed, *, cuts: int | None = None, limit: int = 100) -> None:
    """Raise AssertionError unless a trainer's feed gives the same after a resume, and leaves nothing open.

    It must have a known length of at most `limit`, and is looked at in its next epoch.

    >>> from headrace.testing import check_feed
    >>> check_feed(hr.Dataset.range(6).shuffle(3, seed=1).batch(2).to_torch())
    """
    assert len(feed) <= limit, f"{len(feed)} elements are too many to look at; limit={len(feed)} says otherwise"
    begin = json.loads(json.dumps(feed.state_dict()))
    want = list(feed)
    assert len(want) == len(feed), f"{len(want)} elements, and len says {len(feed)}"
    places = range(len(want) + 1)
    for cut in places if cuts is None or cuts > len(want) else sorted(random.sample(places, cuts)):
        feed.load_state_dict(begin)
        with iter(feed) as it:
            taken = list(islice(it, cut))
            state = json.loads(json.dumps(feed.state_dict()))
        if cut < len(want):
            feed.load_state_dict(state)
            taken += list(feed)
        for number, (got, wanted) in enumerate(zip(taken, want, strict=True)):
            assert _same_delivered(got, wanted), f"cut at {cut}, element {number} is {got!r}, not {wanted!r}"
    assert our_threads() == [], "threads are left"


def _differs(got: list[Outcome], want: list[Outcome], ordered: bool) -> str | None:
    if not ordered:
        got, want = sorted(got, key=repr), sorted(want, key=repr)
    return difference(got, want)


def _pass(ds: Dataset, settings: Settings, epoch: int, state: JsonObject | None = None) -> Iterator:
    return Iterator(ds._node, Epochs(next=epoch), settings, state)


def _check_resume(ds: Dataset, want: list[Outcome], epoch: int, cuts: int | None, limit: int, ordered: bool) -> None:
    places = list(range(len(want) + 1))
    chosen = places if cuts is None or cuts >= len(places) else sorted(random.sample(places, cuts))
    it = _pass(ds, _VARIANTS[-1 if epoch % 2 else 0], epoch)
    taken: list[Outcome] = []
    for number, cut in enumerate(chosen):
        taken += outcomes(it, cut - len(taken))
        state = json.loads(json.dumps(it.state()))
        settings = _VARIANTS[(number + 1) % len(_VARIANTS)]
        again = _pass(ds, settings, epoch, state)
        rest = outcomes(again, limit - cut)
        reason = difference(rest, want[cut:]) if ordered else _differs(taken + rest, want, False)
        _require(reason, f"resumed at {cut} of epoch {epoch} with {settings}", ds)
        _check_closed(again, ds)
        if number % 3 == 1:
            it._shut()  # as an interrupt does: the pass opens its streams again, from the mark it holds
        if number % 3 == 2:  # a state of a restored pass is as good as any, and closing may come at any time
            state = json.loads(json.dumps(it.state()))
            _check_closed(it, ds)
            it = _pass(ds, _VARIANTS[number % len(_VARIANTS)], epoch, state)
    _check_closed(it, ds)


def _check_ids(ds: Dataset, epoch: int, limit: int, ordered: bool) -> None:
    rows = islice(reference.rows_of(ds._node, epoch), limit)
    want = [row.id for row in rows if not isinstance(row.value, ElementError)]
    if len(set(want)) < len(want):
        raise AssertionError(f"two elements have one id, hence the same randomness\n{ds.explain()}")
    for ready, scan in _PREPARATIONS:
        run = Pass(ready, scan=scan)
        run.open(run.context(ready(ds._node), with_ids=True, any_order=False).epoch(epoch))
        source = run.root
        got: list[tuple[int, int]] = []
        while source.ordinal < limit and (item := source.pull(min(7, limit - source.ordinal))) is not END:
            if isinstance(item, Block):
                assert item.ids is not None, f"rows without ids\n{ds.explain()}"
                got += [(int(path), int(number)) for path, number in item.ids]
        run.close()
        if (got != want) if ordered else (sorted(got) != sorted(want)):
            raise AssertionError(f"the ids of rows differ from the reference executor's\n{ds.explain()}")


def _check_skips(ds: Dataset, want: list[Outcome], epoch: int) -> None:
    """Pull and skip rows in turn, some of them as a resume does: the rest is what it was."""
    for ready, scan in _PREPARATIONS:
        run = Pass(ready, scan=scan)
        run.open(run.context(ready(ds._node), any_order=False).epoch(epoch))
        try:
            at = 0
            while at < len(want):
                got = _pulled(run, min(random.choice((1, 1, 2, 5)), len(want) - at), ds, at)
                _require(difference(got, want[at : at + len(got)]), f"after rows that were passed over, at {at}", ds)
                at += len(got)
                count = min(random.randint(0, 4), len(want) - at)
                passed = run.root.skip(count, replay=random.random() < 0.7)
                _require(None if passed == count else f"{passed} of {count} rows", f"passing over rows at {at}", ds)
                at += passed
        finally:
            run.close()


def _pulled(run: Pass, want: int, ds: Dataset, at: int) -> list[Outcome]:
    item = run.pull(want)
    if item is END:
        return [("error", "the end")]
    if isinstance(item, Failure):
        return [("error", item.error.args[0])]
    got: list[Outcome] = []
    rows = item.elements()
    while len(got) < item.rows:
        try:
            got.append(("value", next(rows)))
        except Exception as error:  # of an element that cannot be assembled
            got.append(("error", ds._node.error(error, at + len(got)).args[0]))
    return got


def _check_closed(it: Iterator, ds: Dataset) -> None:
    run = it._run
    it.close()
    if run is not None and run.open_streams:
        raise AssertionError(f"{len(run.open_streams)} streams are open after close()\n{ds.explain()}")


def our_threads() -> list[str]:
    """Return the names of headrace's live threads, after the iterators without references have been closed."""
    if _our_threads():
        gc.collect()
        for thread in threading.enumerate():
            if thread.name == "headrace-reaper":  # closes a dropped iterator in the background
                thread.join(_REAPER_SECONDS)
    return _our_threads()


def _our_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("headrace-")]


def _check_cardinality(ds: Dataset, want: list[Outcome], limit: int) -> None:
    count, found = ds._node.cardinality, len(want)
    if ds._node.has_extra_failures and count.known and found <= limit:  # those of dropped rows are not counted
        found = min(found, max(count, sum(kind == "value" for kind, _ in want)))
    if count.known and (found != count if found <= limit else count <= limit):
        raise AssertionError(f"cardinality says {count}, there are {found} elements\n{ds.explain()}")
    if count == -1 and found <= limit:
        raise AssertionError(f"cardinality says infinite, there are {found} elements\n{ds.explain()}")


def _check_random_access(ds: Dataset, want: list[Outcome]) -> None:
    for i in {0, 1, len(want) // 2, len(want) - 1} & set(range(len(want))):
        try:
            got: Outcome = ("value", ds[i])
        except ElementError as error:
            got = ("error", str(error))
        kind, value = want[i]
        if got[0] != kind or (kind == "value" and not same(got[1], value)):
            raise AssertionError(f"ds[{i}] is {got[1]!r}, iteration gives {value!r}\n{ds.explain()}")
    if len(want) > 2 and ds._node.cardinality.known:
        part = ds[1:-1:2]
        _require(difference(outcomes(iter(part)), reference_outcomes(part)), "ds[1:-1:2]", ds)
