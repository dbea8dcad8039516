"""skip_steps: all but some elements, named by their step."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


@pytest.mark.parametrize(
    ("steps", "want"),
    [([], [0, 1, 2, 3]), ([0], [1, 2, 3]), ([3, 1, 1], [0, 2]), ([0, 1, 2, 3], []), ([7], [0, 1, 2, 3])],
)
def test_skip_steps(run, steps, want):
    ds = D.range(4).skip_steps(steps)
    assert [int(x) for x in run(ds)] == want
    assert len(ds) == len(want)


def test_every_other_batch_is_bit_equal(run):
    ds = D.range(100).shuffle(16, seed=3).random_map(lambda x, rng: x + rng.normal(), seed=1).batch(7)
    everything = list(run(ds))
    bad = [2, 3, 9, 14]
    left = list(run(ds.skip_steps(bad)))
    want = [batch for step, batch in enumerate(everything) if step not in bad]
    assert len(left) == len(want)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(left, want, strict=True))


def test_a_function_with_effects_runs_on_left_out_elements_too():
    seen = []
    ds = D.range(6).map(lambda x: seen.append(int(x)) or x, mode="eager").skip_steps([1, 4])
    assert [int(x) for x in ds] == [0, 2, 3, 5]
    assert seen == [0, 1, 2, 3, 4, 5]


def test_steps_count_from_0_in_every_epoch():
    ds = D.range(3).skip_steps([1]).repeat(2)
    assert [int(x) for x in ds] == [0, 2, 0, 2]


def test_rows_are_found_by_number():
    ds = D.range(10).skip_steps([0, 4, 5, 9])
    assert [int(ds[i]) for i in range(len(ds))] == [1, 2, 3, 6, 7, 8]


def test_steps_must_be_counts():
    with pytest.raises(ValueError, match="-2 is negative"):
        D.range(3).skip_steps([1, -2])
    with pytest.raises(TypeError, match="steps"):
        D.range(3).skip_steps([1.5])


def test_a_state_resumes_between_left_out_steps():
    ds = D.range(20).shuffle(5, seed=1).skip_steps([0, 3, 4, 11]).batch(3)
    it = iter(ds)
    for _ in range(3):
        next(it)
    state = it.state()
    rest = list(it)
    again = list(ds.iterator(state=state))
    assert len(rest) == 3
    assert all(np.array_equal(a, b) for a, b in zip(rest, again, strict=True))
