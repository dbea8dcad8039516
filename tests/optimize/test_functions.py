"""Rules about functions: maps that follow one another, filters that need not wait, calls handed over in lots."""

import threading

import numpy as np
import pytest

import headrace as hr
from headrace.iterator import Settings
from headrace.optimize.rules import apply_rules
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

D = hr.Dataset
PAIRS = (np.arange(40), np.arange(40) / 7)


def reasons(ds):
    return str(ds.explain()).partition("because:")[2]


def test_maps_that_follow_one_another_are_one():
    ds = D.range(40).map(lambda x: x + 1).map(lambda x: (x, x * 2)).map(lambda x, y: y - x)
    assert list(ds) == list(range(1, 41))
    assert "fuse_maps at map" in reasons(ds)
    assert len(apply_rules(ds._node).combines) == 3
    check_transformation(ds)
    check_transformation(ds.shuffle(7, seed=1).batch(3))


def test_a_chain_of_maps_is_fetched_by_number():
    ds = D.from_tensor_slices(np.arange(20)).map(lambda x: x + 1).map(lambda x: x * 2)
    assert ds[3] == 8
    check_transformation(ds.shuffle(seed=1))


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.map(lambda x: x + 1, mode="eager").map(lambda x: x * 2),
        lambda d: d.map(lambda x: x + 1).map(lambda x: x * 2, num_parallel_calls=2),
        lambda d: d.map(lambda x: x + 1).batch(2).map(lambda x: x * 2),
    ],
)
def test_maps_that_run_otherwise_stay_apart(make):
    assert "fuse_maps" not in reasons(make(D.range(9)))


def test_an_error_in_a_chain_is_that_of_its_own_function():
    table = np.arange(3)
    ds = D.range(9).map(lambda x: x % 5).map(lambda x: table[x]).map(lambda x: x + 1)
    assert difference(outcomes(iter(ds)), reference_outcomes(ds)) is None
    lines = []
    for kind, value in outcomes(iter(ds)):
        if kind == "error":
            lines.append(value)
    assert len(lines) == 3
    assert len(set(lines)) == 3
    check_transformation(ds)


def test_a_filter_goes_before_a_map_whose_results_it_does_not_look_at():
    ds = D.from_tensor_slices(PAIRS).map(lambda i, x: (i, x, x * 2 + i)).filter(lambda i, x, y: i % 4 == 1)
    assert "filter_first at filter" in reasons(ds)
    assert [int(i) for i, _, _ in ds] == list(range(1, 40, 4))
    check_transformation(ds)
    check_transformation(ds.shuffle(5, seed=1).batch(2))


def test_rows_that_go_are_spared_the_map(monkeypatch):
    seen = []
    ds = D.from_tensor_slices((np.arange(5000), np.ones(5000))).map(lambda i, x: (i, x, x * 2))
    run = type(ds._node.maps).run

    def counted(graph, columns, n):
        seen.append((len(columns), n))
        return run(graph, columns, n)

    monkeypatch.setattr(type(ds._node.maps), "run", counted)
    assert len(list(ds.filter(lambda i, x, y: i % 100 == 0))) == 50
    assert sum(n for columns, n in seen if columns == 2) < 500


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.map(lambda i, x: (i, x, x * 2)).filter(lambda i, x, y: y > 3),
        lambda d: d.map(lambda i, x: (i, x, np.arange(50)[i])).filter(lambda i, x, y: i > 3),
        lambda d: d.map(lambda i, x: (i + 1, x, x)).filter(lambda i, x, y: i > 3),
        lambda d: d.map(lambda i, x: (i, x, x * 2), num_parallel_calls=2).filter(lambda i, x, y: i > 3),
        lambda d: d.map(lambda i, x: i).filter(lambda i: i > 3),
    ],
    ids=["looks at it", "may fail", "is made", "on threads", "larger rows"],
)
def test_a_filter_stays_where_moving_it_could_be_told_or_costs_more(make):
    ds = make(D.from_tensor_slices(PAIRS))
    assert "filter_first" not in reasons(ds)
    check_transformation(ds)


def test_a_filter_stays_where_overflows_are_errors():
    ds = D.from_tensor_slices(PAIRS).map(lambda i, x: (i, x, x * 2)).filter(lambda i, x, y: i > 3)
    with np.errstate(over="raise"):
        assert "filter_first" not in reasons(ds)
    assert "filter_first" in reasons(ds)


def test_a_predicate_that_fails_has_its_errors_in_place():
    table = np.arange(5) < 3
    ds = D.from_tensor_slices(PAIRS).map(lambda i, x: (i, x, x * 2)).filter(lambda i, x, y: table[i % 7])
    assert "filter_first" in reasons(ds)
    check_transformation(ds)


def text(x):
    return f"{x}"


def test_calls_before_a_batch_are_handed_over_in_lots():
    ds = D.range(100).map(text, num_parallel_calls=2).batch(8)
    assert "hand_over_in_lots at batch" in reasons(ds)
    check_transformation(ds, cuts=5)
    check_transformation(D.range(50).map(lambda x: 6 // (int(x) % 7), num_parallel_calls=3).batch(4), cuts=8)


def test_rows_whose_reading_is_observable_are_not_read_in_lots():
    rows = D.from_generator(lambda: iter(range(20)), output_signature=hr.TensorSpec((), "int64"))
    assert "hand_over_in_lots" not in reasons(rows.map(text, num_parallel_calls=2).batch(8))
    assert "hand_over_in_lots" not in reasons(D.range(20).map(text, num_parallel_calls=2))


def test_closing_waits_for_the_call_in_flight_and_no_other():
    calls, slow, entered, leave = [], threading.Event(), threading.Event(), threading.Event()

    def wait(x):
        calls.append(int(x))
        if slow.is_set():
            entered.set()
            leave.wait()
        return float(x), str(x)

    it = iter(D.range(10_000).map(wait, num_parallel_calls=1).batch(64))
    for _ in range(20):
        next(it)
    slow.set()
    entered.wait()
    before = len(calls)
    threading.Timer(0.05, leave.set).start()
    it.close()
    assert len(calls) <= before + 1


def test_a_state_of_parallel_calls_out_of_order_is_restored_where_they_would_be_fused():
    def pipeline(**how):
        return D.range(40).map(lambda x: x + 1, **how).map(lambda x: x * 2)

    free = pipeline(num_parallel_calls=3, deterministic=False)
    for cut in range(0, 40, 7):
        with iter(free) as it:
            taken = [int(next(it)) for _ in range(cut)]
            state = it.state()
        for settings in (Settings(), Settings(optimise=False)):
            rest = [int(x) for x in pipeline()._iterator(settings, state)]
            assert sorted(taken + rest) == list(range(2, 82, 2))
