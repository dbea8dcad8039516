"""mix(unit="tokens"): weights are shares of tokens, and mixture_report() counts them."""

import json

import numpy as np
import pytest

import headrace as hr
from headrace.execute.state import sealed
from headrace.testing import check_transformation

D = hr.Dataset
TOKENS = hr.TensorSpec((None,), "int64")
SIZES = {"short": 9, "long": 70, "middle": 30}


def documents(name, *, count=50):
    """Documents of a source: each token is the number of the source."""
    number, longest = list(SIZES).index(name), SIZES[name]
    sizes = np.random.default_rng(number).integers(1, longest, count)
    return D.from_tensor_slices(hr.Ragged.from_rows([np.full(size, number) for size in sizes]))


def mixed(weights, **more):
    return hr.mix({name: documents(name) for name in weights}, weights, **{"seed": 1, "unit": "tokens", **more})


def shares(elements, names):
    counts = np.bincount(np.concatenate(elements), minlength=len(SIZES))
    return {name: counts[list(SIZES).index(name)] for name in names}


def test_shares_of_tokens_are_kept_to_about_a_row_of_each_source(run):
    weights = {"short": 1, "long": 2, "middle": 1}
    got = run(mixed(weights).take(600))
    for rows in (40, 100, 333, 600):
        found = shares(got[:rows], weights)
        total = sum(found.values())
        for name, weight in weights.items():
            assert abs(found[name] - total * weight / 4) <= 2 * max(SIZES.values()), (rows, name)


def test_each_source_comes_in_its_own_order():
    got = list(mixed({"short": 1, "long": 1}).take(300))
    for number, name in enumerate(("short", "long")):
        mine = [row.tolist() for row in got if row[0] == number]
        assert mine == [row.tolist() for row in documents(name).repeat().take(len(mine))]


def test_neighbours_are_drawn_and_not_dealt_in_turn():
    rows = {name: D.from_tensors(np.full(8, number)) for number, name in enumerate("ab")}
    ds = hr.mix(rows, seed=1, unit="tokens")
    for index in (0, 1):
        assert 0.4 < np.mean([row[0] for row in ds.distribute(index, 2).take(400)]) < 0.6
    first, second = ([int(row[0]) for row in hr.mix(rows, seed=seed, unit="tokens").take(60)] for seed in (1, 2))
    assert first != second


def test_a_schedule_changes_shares_at_its_step(run):
    later = {100: {"short": 0, "long": 1}, 140: {"short": 1, "long": 1}}
    got = run(mixed({"short": 1, "long": 0}, schedule=later).take(400))
    assert {int(row[0]) for row in got[:100]} == {0}
    assert {int(row[0]) for row in got[100:140]} == {1}
    found = shares(got[140:], ["short", "long"])
    assert abs(found["short"] - found["long"]) <= 2 * SIZES["long"]


@pytest.mark.parametrize("unit", ["rows", "tokens"])
def test_the_report_counts_tokens(unit):
    it = iter(mixed({"short": 1, "long": 1, "middle": 0}, unit=unit, length=len))
    seen = [next(it) for _ in range(120)]
    report = it.mixture_report()
    for number, name in enumerate(SIZES):
        mine = [len(row) for row in seen if row[0] == number]
        assert report[name] == {"rows": len(mine), "epochs": len(mine) // 50, "tokens": sum(mine)}


def test_rows_are_chosen_alike_whether_tokens_are_counted_or_not():
    weights = {"short": 1, "long": 3}
    plain, counted = (
        mixed(weights, unit="rows", length=length, schedule={70: {"short": 2, "long": 1}}) for length in (None, len)
    )
    assert [row.tolist() for row in plain.take(300)] == [row.tolist() for row in counted.take(300)]
    assert hr.mix({"a": D.range(5)}, seed=1)[3] == 3
    with pytest.raises(TypeError, match="mix by rows, without a length"):
        counted[3]


def test_the_report_after_batches_and_packs_counts_what_they_hold():
    for held, rows in ((lambda ds: ds.ragged_batch(4), 40), (lambda ds: ds.pack(64, "best_fit", lookahead=20), None)):
        it = iter(held(mixed({"short": 1, "long": 1})))
        for _ in range(10):
            next(it)
        report = it.mixture_report()
        read = sum(entry["rows"] for entry in report.values())
        assert read == rows or (rows is None and read % 20 == 0)
        seen = shares(list(mixed({"short": 1, "long": 1}).take(read)), ["short", "long"])
        assert {name: entry["tokens"] for name, entry in report.items()} == seen


def test_every_promise_is_kept():
    for more in ({"schedule": {10: [3, 1]}}, {"repeat": False}, {"unit": "rows", "length": len}):
        check_transformation(mixed({"short": 1, "long": 2}, **more).take(25))
    streamed = {name: documents(name, count=20).filter(lambda row: len(row) > 2).shuffle(4, seed=2) for name in SIZES}
    check_transformation(hr.mix(streamed, seed=1, unit="tokens", length=len).take(25))


def picky(row):
    if len(row) == 7:
        raise ValueError("seven")
    return len(row)


def test_failures_and_empty_rows_have_their_turns():
    def broken(i):
        if i % 5 == 2:
            raise ValueError("bad")
        return np.full(i % 3, i)

    bad = D.range(30).map(broken, output_signature=TOKENS)
    ds = hr.mix({"bad": bad, "good": documents("middle")}, seed=1, unit="tokens")
    check_transformation(ds.take(40))
    check_transformation(mixed({"short": 1, "long": 2}, length=picky).take(40))


def test_a_generator_is_read_when_its_row_is_given():
    read = []

    def rows():
        for i in range(100):
            read.append(i)
            yield np.arange(i % 4 + 1)

    ds = hr.mix(
        {"a": D.from_generator(rows, output_signature=TOKENS), "b": documents("short")},
        seed=1,
        unit="tokens",
        repeat=False,
    )
    it = iter(ds)
    for _ in range(20):
        next(it)
    assert len(read) == it.mixture_report()["a"]["rows"]


def test_records_are_named():
    ds = mixed({"short": 1, "long": 1}).ragged_batch(2)
    named = [row.number for row in ds.rows_of(3)]
    (batch,) = list(ds.skip(3).take(1))
    assert [len(row) for row in batch] == [
        len(documents(list(SIZES)[row[0]])[number]) for row, number in zip(batch, named, strict=True)
    ]


def test_a_state_of_rows_is_refused_for_tokens_and_nonsense_too():
    it = iter(mixed({"short": 1, "long": 1}, unit="rows", on_change="adopt"))
    next(it)
    with pytest.raises(hr.StateError):
        mixed({"short": 1, "long": 1}, on_change="adopt").iterator(state=it.state())
    it = iter(mixed({"short": 1, "long": 1}))
    next(it)
    state = json.loads(json.dumps(it.state()))
    marks = next(
        entry for entry in state["marks"].values() if isinstance(entry, list) and entry[2:] and len(entry[2]) == 3
    )
    for wrong in ([-1, 0, []], [5, 6, []], [1, 0, [["short", -1, 0, 0]]], [1, 0, [["short", 1]]], "x"):
        marks[2][2] = wrong
        with pytest.raises(hr.StateError):
            next(mixed({"short": 1, "long": 1}).iterator(state=sealed(dict(state))))


def test_bad_arguments_are_named():
    rows = {"a": D.from_tensors(np.arange(3))}
    for wrong, said in [
        (lambda: hr.mix(rows, unit="words"), "unit must be one of"),
        (lambda: hr.mix(rows, "proportional", unit="tokens"), "proportional weights count rows"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    with pytest.raises(hr.SpecError, match="give length as one of"):
        hr.mix({"a": D.from_tensors({"x": np.arange(3), "y": 1})}, unit="tokens")
