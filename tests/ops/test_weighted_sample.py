"""weighted_sample: frequencies, epochs, resumes, and what is refused."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
WEIGHTS = [0, 1, 2, 3, 4]


def values(ds):
    return [int(x) for x in ds]


def test_elements_come_in_proportion_to_their_weights():
    drawn = values(D.range(5).weighted_sample(WEIGHTS, 50_000, seed=1))
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(shares, np.array(WEIGHTS) / 10, atol=0.01)


def test_without_replacement_the_first_is_drawn_by_weight():
    """Each epoch is another order; which comes first has the probability of its weight."""
    ds = D.range(5).weighted_sample(WEIGHTS, 4, replacement=False, seed=1)
    orders = [values(ds) for _ in range(2000)]
    assert all(sorted(order) == [1, 2, 3, 4] for order in orders)
    firsts = np.bincount([order[0] for order in orders], minlength=5) / len(orders)
    np.testing.assert_allclose(firsts, np.array(WEIGHTS) / 10, atol=0.04)


def test_epochs_differ_and_a_seed_repeats_them():
    one, other = (D.range(50).weighted_sample(np.ones(50), seed=4) for _ in range(2))
    epochs = [values(one), values(one)]
    assert epochs[0] != epochs[1]
    assert [values(other), values(other)] == epochs
    fixed = D.range(50).weighted_sample(np.ones(50), seed=4, reshuffle_each_iteration=False)
    assert values(fixed) == values(fixed) == epochs[0]


@pytest.mark.parametrize("replacement", [True, False])
def test_a_resume_is_exact_and_a_state_small(replacement):
    ds = D.range(100).weighted_sample(np.arange(100), 60, replacement=replacement, seed=2).batch(7)
    whole = [batch.tolist() for batch in ds]
    again = D.range(100).weighted_sample(np.arange(100), 60, replacement=replacement, seed=2).batch(7)
    for cut in range(len(whole) + 1):
        it = D.range(100).weighted_sample(np.arange(100), 60, replacement=replacement, seed=2).batch(7).iterator()
        for _ in range(cut):
            next(it)
        state = it.state()
        assert [batch.tolist() for batch in again.iterator(state=state)] == whole[cut:]
        assert len(str(state)) < 1500


def test_a_state_of_other_weights_is_refused():
    it = iter(D.range(9).weighted_sample(np.ones(9), seed=2))
    next(it)
    with pytest.raises(hr.StateError, match="weighted_sample"):
        D.range(9).weighted_sample(np.arange(9), seed=2).iterator(state=it.state())


def test_weights_of_the_elements():
    ds = D.from_tensor_slices({"x": np.arange(5), "w": np.array(WEIGHTS, float)})
    drawn = [int(row["x"]) for row in ds.weighted_sample("w", 500, seed=1)]
    by_function = [int(row["x"]) for row in ds.weighted_sample(lambda row: row["w"], 500, seed=1)]
    assert drawn == by_function == values(D.range(5).weighted_sample(WEIGHTS, 500, seed=1))
    pairs = D.zip((D.range(5), D.range(5)))
    assert [int(x) for x, _ in pairs.weighted_sample(lambda x, w: w, 500, seed=1)] == drawn


def test_only_what_is_drawn_is_read():
    read = []

    class Source:
        def __len__(self):
            return 1000

        def __getitem__(self, i):
            read.append(i)
            return i

    weights = np.zeros(1000)
    weights[[3, 500]] = 1
    assert set(values(D.from_torch(Source()).weighted_sample(weights, 20, seed=1))) == {3, 500}
    assert set(read) == {3, 500}


def test_random_numbers_of_an_element_that_comes_again_are_others():
    ds = D.range(1).weighted_sample([1.0], 50, seed=1).random_map(lambda x, rng: rng.random(), seed=3)
    assert len({float(x) for x in ds}) == 50


@pytest.mark.parametrize(
    ("weights", "said"),
    [([1, 2], "there are 3 elements"), ([1, -1, 2], "element 1 is -1.0"), ([0, 0, 0], "all weights are 0"),
     ([1, float("nan"), 1], "element 1 is nan")],
)  # fmt: skip
def test_weights_that_are_none_are_refused(weights, said):
    with pytest.raises(ValueError, match=said):
        D.range(3).weighted_sample(weights)


def test_what_cannot_be_sampled_says_what_to_do():
    with pytest.raises(hr.NotIndexableError, match="rejection_resample"):
        D.range(9).filter(lambda x: x > 3).weighted_sample([1] * 5)
    with pytest.raises(ValueError, match="before repeat"):
        D.range(9).repeat().weighted_sample([1] * 9)
    with pytest.raises(ValueError, match="only 2 have a weight"):
        D.range(3).weighted_sample([0, 1, 1], 3, replacement=False)
