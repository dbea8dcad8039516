"""distribute(balance=): every step costs all ranks nearly the same, and no row is lost when ranks come or go."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.distribute.even_costs import dealt
from headrace.testing import check_transformation

D = hr.Dataset


def lognormal(count, seed=0):
    drawn = np.random.default_rng(seed).lognormal(np.log(600) - 0.5, 1, count)
    return np.clip(drawn.astype(int), 1, 2048)


def numbered(sizes):
    """Rows of a number and a size."""
    return D.from_tensor_slices({"n": np.arange(len(sizes)), "size": np.asarray(sizes)})


@given(
    st.lists(st.integers(0, 50), max_size=60),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_dealing_is_a_permutation_and_no_worse_than_in_turn(sizes, world_size, share):
    costs = np.array(sizes, np.float64)
    order = dealt(costs, world_size, share)
    assert sorted(order.tolist()) == list(range(len(sizes)))
    steps = len(sizes) // (world_size * share)
    whole = steps * world_size * share
    assert order[whole:].tolist() == list(range(whole, len(sizes)))
    if steps:
        ours = costs[order[:whole]].reshape(-1, share).sum(1)
        assert ours.max() <= costs[:whole].sum() / len(ours) + costs.max() * share


def test_64_ranks_have_nearly_the_same_cost():
    steps = 12
    costs = lognormal(64 * 8 * steps).astype(np.float64) ** 2
    ratios = []
    for first in range(0, len(costs), 64 * 8 * 4):
        window = costs[first : first + 64 * 8 * 4]
        shares = window[dealt(window, 64, 8)].reshape(-1, 64, 8).sum(2)
        ratios += (shares.max(1) / shares.mean(1)).tolist()
    assert np.mean(ratios) <= 1.03, ratios


def test_ranks_get_every_row_once_in_steps_of_equal_cost():
    sizes = lognormal(4 * 4 * 20)
    shares = [list(numbered(sizes).distribute(r, 4, 4, balance="size", cost="quadratic", window=4)) for r in range(4)]
    assert sorted(np.concatenate([b["n"] for share in shares for b in share]).tolist()) == list(range(len(sizes)))
    ratios, naive = [], []
    for number, step in enumerate(zip(*shares, strict=True)):
        costs = [(batch["size"].astype(float) ** 2).sum() for batch in step]
        ratios.append(max(costs) / np.mean(costs))
        plain = (sizes[16 * number : 16 * number + 16].astype(float) ** 2).reshape(4, 4).sum(1)
        naive.append(plain.max() / plain.mean())
    assert np.mean(ratios) < 1.2 and np.mean(naive) > 1.5


def flaky(n):
    if n % 11 == 3:
        raise ValueError(f"bad {n}")
    return {"n": n, "size": n * 7 % 13 - (n == 20) * 100}


@pytest.mark.parametrize("uneven", ["drop", "pad", "wrap"])
def test_every_promise_is_kept(uneven):
    sizes = [n * 37 % 41 for n in range(50)]
    check_transformation(numbered(sizes).distribute(1, 3, 2, uneven, balance="size", window=2))
    rows = D.range(40).map(
        flaky, output_signature={"n": hr.TensorSpec((), "int64"), "size": hr.TensorSpec((), "int64")}
    )
    check_transformation(rows.distribute(0, 2, 3, uneven, balance=lambda row: row["size"], cost="quadratic", window=2))
    check_transformation(rows.filter(lambda row: row["n"] % 3 > 0).distribute(1, 2, None, uneven, balance="size"))


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_a_state_goes_on_with_other_ranks_at_any_cut(seed):
    random = np.random.default_rng(seed)
    ds = numbered(random.integers(0, 1000, 60)).repeat(2)
    seen, state = [], None
    while True:
        world_size, share, window = random.integers(1, 4, 3).tolist()
        its = [
            ds.distribute(rank, world_size, share, balance="size", window=window).iterator(state=state)
            for rank in range(world_size)
        ]
        steps = int(random.integers(1, 7))
        last = False
        for _ in range(steps):
            batches = [next(it, None) for it in its]
            last = batches[0] is None
            if last:
                assert all(batch is None for batch in batches)
                break
            seen += [int(n) for batch in batches for n in batch["n"]]
        if last:
            break
        states = [json.loads(json.dumps(it.state())) for it in its]
        state = states[int(random.integers(world_size))]
    assert len(seen) >= 120 - 9
    counts = np.bincount(seen, minlength=60)
    assert counts.max() <= 2 and (counts == 2).sum() >= 60 - 9


def test_bad_arguments_are_named():
    for wrong, said in [
        (lambda: numbered([1]).distribute(0, 1, balance="size", window=0), "window must be"),
        (lambda: numbered([1]).distribute(0, 1, balance="size", cost="cubic"), "cost must be one of"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
    with pytest.raises(hr.SpecError, match="no component 'x'"):
        numbered([1]).distribute(0, 1, balance="x")
