"""mix: datasets in one by weights, exactly, reproducibly, in any number of epochs of each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.ops.shared.mix_history import halved
from headrace.testing import check_transformation

D = hr.Dataset


def sources(*sizes):
    """Datasets of numbers that identify their source: 1000, 1001, …, 2000, …"""
    return {f"d{i}": D.range(1000 * i, 1000 * i + size) for i, size in enumerate(sizes, 1)}


def streamed(ds):
    return ds.filter(lambda x: True)  # has no numbers


def kinds(elements):
    return np.asarray(elements) // 1000


def test_weights_are_kept_exactly_and_each_dataset_in_its_order(run):
    ds = hr.mix(sources(40, 7), {"d1": 3, "d2": 1}, seed=1)
    got = np.array(run(ds.take(512)))
    for block in (got[:256], got[256:]):
        assert (kinds(block) == 2).sum() == 64
    for kind, size in ((1, 40), (2, 7)):
        mine = got[kinds(got) == kind]
        assert (mine == 1000 * kind + np.arange(len(mine)) % size).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(any), st.integers(0, 10**9))
def test_of_any_number_of_blocks_every_weight_has_its_share(weights, blocks):
    counts = np.empty(len(weights), np.int64)
    _native.mix_counts(1, halved(tuple(weights)), 256 * blocks, counts)
    assert counts.sum() == 256 * blocks
    want = 256 * blocks * np.array(weights) / sum(weights)
    assert np.abs(counts - want).max() <= 1.5 + 256 * blocks * len(weights) / 2**30
    assert not counts[np.array(weights) == 0].any()


@given(st.integers(2, 6), st.integers(0, 2**40), st.integers(0, 2**63))
def test_the_rows_of_a_dataset_come_one_after_another(branches, start, key):
    shares = halved(tuple(range(1, branches + 1)))
    at, found = np.arange(start, start + 700), np.empty((2, 700), np.int64)
    _native.mix_rows(key, shares, at, *found)
    for branch in range(branches):
        rows = found[1][found[0] == branch]
        assert (np.diff(rows) == 1).all()
    counts = np.empty(branches, np.int64)
    _native.mix_counts(key, shares, start + 700, counts)
    for branch in range(branches):
        assert (found[1][found[0] == branch] < counts[branch]).all()


def test_neighbours_are_drawn_and_not_dealt_in_turn():
    ds = hr.mix(sources(9, 9), seed=1)
    turns = [kinds(list(ds.shard(2, index).take(500))) for index in (0, 1)]
    assert all(abs((turn == 1).mean() - 0.5) < 0.1 for turn in turns)
    first, second = (list(hr.mix(sources(9, 9), seed=seed).take(100)) for seed in (1, 2))
    assert first != second
    assert first == list(hr.mix(sources(9, 9), seed=1).take(100))


@pytest.mark.parametrize("change", [lambda ds: ds, streamed])
def test_a_schedule_changes_weights_at_its_step(run, change):
    given = {name: change(ds) for name, ds in sources(50, 50, 50).items()}
    ds = hr.mix(given, [1, 1, 0], seed=3, schedule={100: [0, 0, 1], 160: {"d1": 1, "d2": 0, "d3": 1}})
    got = np.array(run(ds.take(1000)))
    turns = kinds(got)
    assert set(turns[:100]) == {1, 2}
    assert set(turns[100:160]) == {3}
    assert set(turns[160:]) == {1, 3}
    assert ((turns[160 : 160 + 768] == 3).sum()) == 384
    for kind in (1, 2, 3):  # each continues where it was
        mine = got[turns == kind]
        assert (mine == 1000 * kind + np.arange(len(mine)) % 50).all()


def test_numbers_and_streams_are_mixed_alike():
    by_number = hr.mix(sources(20, 30), [2, 1], seed=4)
    in_turn = hr.mix({name: streamed(ds) for name, ds in sources(20, 30).items()}, [2, 1], seed=4)
    assert list(by_number.take(300)) == list(in_turn.take(300))
    assert [by_number[i] for i in (0, 7, 299)] == [list(in_turn.take(300))[i] for i in (0, 7, 299)]
    assert by_number.cardinality() == hr.INFINITE_CARDINALITY


def test_a_state_goes_on_in_the_epoch_of_each_dataset():
    given = {name: streamed(ds).shuffle(5, seed=1) for name, ds in sources(10, 4).items()}
    ds = hr.mix(given, [1, 2], seed=2)
    with ds.iterator() as it:
        whole = [next(it) for _ in range(200)]
    it = hr.mix(given, [1, 2], seed=2).iterator()
    assert [next(it) for _ in range(90)] == whole[:90]
    state = it.state()
    lines = {number: line for number, line in enumerate(state["plan"]) if line.startswith("repeat")}
    assert all(state["marks"][str(number)][2][0] > 0 for number in lines), "both have begun anew"
    again = hr.mix(given, [1, 2], seed=2).iterator(state=state)
    assert [next(again) for _ in range(110)] == whole[90:]


def test_each_epoch_of_a_shuffled_dataset_has_its_own_order():
    ds = hr.mix({"a": D.range(50).shuffle(seed=1), "b": D.range(1000, 1010)}, [1, 0], seed=1)
    got = [int(x) for x in ds.take(100)]
    assert sorted(got[:50]) == sorted(got[50:]) == list(range(50))
    assert got[:50] != got[50:]


def test_without_repeat_it_ends_where_a_dataset_has_no_more(run):
    got = kinds(run(hr.mix(sources(100, 3), [1, 1], seed=1, repeat=False)))
    assert (got == 2).sum() == 3
    assert abs((got == 1).sum() - 3) < 20


def test_other_weights_are_another_pipeline():
    ds = hr.mix(sources(9, 9), [1, 2], seed=1)
    state = ds.iterator().state()
    with pytest.raises(hr.StateError, match=r"\(1.0, 2.0\).*\(1.0, 3.0\)"):
        hr.mix(sources(9, 9), [1, 3], seed=1).iterator(state=state)


def test_bad_arguments_are_named():
    for wrong, said in [
        (lambda: hr.mix(sources(3, 3), [1]), "2 datasets, and weights of shape"),
        (lambda: hr.mix(sources(3, 3), {"d1": 1, "x": 2}), "the weights name"),
        (lambda: hr.mix(sources(3, 3), [0, 0]), "must not all be 0"),
        (lambda: hr.mix(sources(3, 3), [1, -1]), "at least 0"),
        (lambda: hr.mix(sources(3, 0)), "'d2' has no elements"),
        (lambda: hr.mix(sources(3, 3), schedule={0: [1, 1]}), "from 1 on"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    for wrong in (lambda: hr.mix([D.range(3)]), lambda: hr.mix({"a": 3}), lambda: hr.mix({})):
        with pytest.raises(TypeError, match="mix takes"):
            wrong()
    with pytest.raises(hr.SpecError, match=r"'a' and 'b' differ"):
        hr.mix({"a": D.range(3), "b": D.from_tensor_slices(["x"])})


def test_nothing_is_promised_of_elements_that_turn_out_to_differ():
    pairs = hr.Dataset.range(3).map(lambda x: (x, str(x)))
    numbers = hr.Dataset.range(3).map(lambda x: int(str(x)))
    ds = hr.mix({"pairs": pairs, "numbers": numbers}, seed=1).take(9).map(lambda *row: {"row": row, "text": str(row)})
    assert ds.element_spec == hr.TensorSpec(None, None)
    check_transformation(ds, cuts=3)


def test_no_rank_is_promised_of_elements_of_several():
    lines = hr.Dataset.from_tensor_slices(["a b", "c"])
    ds = hr.mix({"lines": lines, "words": lines.map(hr.text.split)}, seed=1).take(9).map(lambda x: (len(str(x)), x))
    assert ds.element_spec[1] == hr.TensorSpec(None, str)
    check_transformation(ds, cuts=3)
