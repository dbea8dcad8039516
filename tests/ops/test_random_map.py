"""random_map: the same numbers, wherever and whenever an element is made."""

import json

import numpy as np
import pytest

import headrace as hr
from headrace.iterator import Settings

D = hr.Dataset


def number(x, rng):
    return x, rng.integers(2**62)


def draws(ds):
    return [int(n) for _, n in ds]


def test_the_function_gets_the_components_and_a_generator(run):
    pairs = D.from_tensor_slices((np.arange(4), np.arange(4) * 1.5))
    rows = run(pairs.random_map(lambda a, b, rng: (a, b, rng.normal(size=3), rng.choice(["x", "y"])), seed=1))
    assert [(int(a), float(b)) for a, b, _, _ in rows] == [(i, i * 1.5) for i in range(4)]
    assert all(z.shape == (3,) and s in "xy" for _, _, z, s in rows)
    assert len({z.tobytes() for _, _, z, _ in rows}) == 4
    (row,) = run(D.from_tensors({"a": 1}).random_map(lambda d, rng: d["a"] + rng.uniform(0, 1)))
    assert 1 <= row < 2


def test_a_seed_reproduces_the_epochs_and_epochs_differ():
    def epochs(seed):
        ds = D.range(6).random_map(number, seed)
        return [draws(ds) for _ in range(3)]

    assert epochs(5) == epochs(5)
    assert epochs(5) != epochs(6)
    assert epochs(None) != epochs(None)
    assert len({n for epoch in epochs(5) for n in epoch}) == 18


def test_epochs_are_those_of_repeat_wherever_it_stands():
    ds = D.range(6).random_map(number, seed=5)
    first = draws(D.range(6).random_map(number, seed=5))
    inside, outside = draws(ds.repeat(3)), draws(D.range(6).repeat(3).random_map(number, seed=5))
    assert inside == outside
    assert inside[:6] == first
    assert len(set(inside)) == 18


def test_numbers_belong_to_elements_not_to_their_places():
    plain = {int(x): int(n) for x, n in D.range(20).random_map(number, seed=5)}
    for moved in [
        D.range(20).shuffle(20, seed=1),
        D.range(20).shuffle(),
        D.range(20).filter(lambda x: x % 3 == 0),
        D.range(20).shard(3, 1),
        D.range(20).skip(4).take(9),
        D.range(20).map(lambda x: x),
        D.range(20).prefetch(3),
    ]:
        got = [(int(x), int(n)) for x, n in moved.random_map(number, seed=5)]
        assert got
        assert all(plain[x] == n for x, n in got)


def test_two_maps_with_one_seed_agree_side_by_side_and_differ_in_a_chain():
    a, b = D.range(5).random_map(number, seed=5), D.range(5).map(lambda x: -x).random_map(number, seed=5)
    assert [int(m) == int(n) for (_, m), (_, n) in D.zip(a, b)] == [True] * 5
    chained = D.range(5).random_map(number, seed=5).random_map(lambda x, m, rng: (m, rng.integers(2**62)), seed=5)
    assert not any(int(m) == int(n) for m, n in chained)
    other = D.range(5).random_map(number, seed=9).random_map(lambda x, m, rng: (x, rng.integers(2**62)), seed=5)
    assert draws(other) == draws(D.range(5).random_map(number, seed=5)), "another seed upstream changes nothing"


def test_one_dataset_in_two_places_has_two_sets_of_numbers():
    ds = D.range(5).random_map(number, seed=5)
    assert not any(int(m) == int(n) for (_, m), (_, n) in D.zip(ds, ds))
    assert len(set(draws(ds.concatenate(ds)))) == 10


def test_a_shuffle_with_the_same_seed_is_independent():
    """Keys are separate: else the position of an element would determine its draws."""
    ds = D.range(2000).shuffle(2000, seed=5).random_map(lambda x, rng: (x, rng.random()), seed=5)
    order, numbers = map(np.array, zip(*ds, strict=True))
    assert abs(np.corrcoef(order, numbers)[0, 1]) * np.sqrt(2000) < 4


VARIANTS = {
    "plain": {},
    "a thread": {"num_parallel_calls": 1},
    "threads": {"num_parallel_calls": 8},
    "any order": {"num_parallel_calls": 4, "deterministic": False},
    "processes": {"num_parallel_calls": 2, "mode": "process"},
    "eager": {"mode": "eager"},
}


@pytest.mark.parametrize("settings", [Settings(), Settings(optimise=False), Settings(block_rows=3)], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_but_seed_epoch_and_element_matters(variant, settings):
    def build(**how):
        return D.range(50).shuffle(20, seed=1).random_map(number, seed=5, **how)

    want = sorted((int(x), int(n)) for x, n in build())
    ds = build(**VARIANTS[variant])
    with ds._iterator(settings) as it:
        got = [next(it) for _ in range(13)]
        state = json.loads(json.dumps(it.state()))
    resumed = build(**VARIANTS["threads" if variant == "plain" else variant])
    got += list(resumed.iterator(state))
    assert sorted((int(x), int(n)) for x, n in got) == want


def test_a_state_may_be_restored_under_another_mode_and_brings_its_seed_along():
    with iter(D.range(30).random_map(number)) as it:
        got = [next(it) for _ in range(7)]
        state = json.loads(json.dumps(it.state()))
        rest = draws(it)
    again = D.range(30).random_map(number, num_parallel_calls=2, mode="process")
    assert draws(again.iterator(state)) == rest
    assert len({*draws(got), *rest}) == 30


def test_an_index_gives_what_iteration_gives():
    ds = D.from_tensor_slices(np.arange(10)).shuffle(seed=3).random_map(number, seed=5)
    rows = draws(ds)
    assert [int(ds[i][1]) for i in range(10)] == rows
    assert draws(ds[2:8:2]) == rows[2:8:2]


def test_a_cache_keeps_numbers_and_what_is_drawn_after_it_is_new():
    ds = D.range(5).random_map(number, seed=5).cache()
    assert draws(ds) == draws(ds)
    after = ds.random_map(lambda x, n, rng: number(x, rng), seed=5)
    assert not set(draws(after)) & set(draws(after))


def test_flat_map_gives_every_parent_its_own_numbers():
    ds = D.range(6).flat_map(lambda _: D.range(4).random_map(number, seed=5))
    assert len(set(draws(ds))) == 24


def test_errors_in_the_function_belong_to_their_elements(run):
    ds = D.range(4).random_map(lambda x, rng: 1 // int(x), seed=1)
    with pytest.raises(hr.ElementError, match="random_map failed on element 0: ZeroDivisionError"):
        run(ds)
    assert [int(x) for x in ds.ignore_errors()] == [1, 0, 0]


def test_a_generator_kept_for_later_says_so():
    kept = []
    list(D.range(1).random_map(lambda x, rng: kept.append(rng) or x))
    with pytest.raises(RuntimeError, match="one call of the function"):
        kept[0].random()


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: D.range(3).random_map(lambda x: x), TypeError, "1 component of an element.*and a generator"),
        (lambda: D.range(3).random_map(5), TypeError, "random_map takes a function"),
        (lambda: D.range(3).random_map(number, seed="x"), TypeError, "seed must be an integer"),
        (lambda: D.range(3).random_map(number, mode="fork"), ValueError, "mode must be one of .*'process'.*not 'fork'"),
        (lambda: D.range(3).random_map(number, num_parallel_calls=0), ValueError, "at least 1"),
    ],
)
def test_bad_arguments_are_construction_errors(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_its_place_and_seed_are_part_of_a_state():
    state = iter(D.range(3).random_map(number, seed=1)).state()
    with pytest.raises(hr.StateError, match=r"was random_map\(fn, seed=1\), here it is random_map\(fn, seed=2\)"):
        D.range(3).random_map(number, seed=2).iterator(state)
