"""rebatch: batches of other sizes."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def lists(rows):
    return [r.tolist() for r in rows]


def test_rebatch_cycles_through_sizes(run):
    ds = D.range(6).batch(4)
    assert lists(run(ds.rebatch(3))) == [[0, 1, 2], [3, 4, 5]]
    assert lists(run(ds.rebatch([1, 0, 2]))) == [[0], [], [1, 2], [3], [], [4, 5]]
    assert lists(run(ds.rebatch([4, 1, 4], drop_remainder=True))) == [[0, 1, 2, 3], [4]]


@pytest.mark.parametrize("sizes", [3, [2, 3], [3, 0, 1]])
def test_ragged_batches_stay_ragged(run, sizes):
    rows = [np.arange(i % 2 + 1) for i in range(5)]
    signature = (hr.TensorSpec([None], np.int64), hr.TensorSpec([2], np.int64))
    ds = D.from_generator(lambda: iter([(row, [0, 1]) for row in rows]), output_signature=signature)
    batches = run(ds.ragged_batch(2).take(3).rebatch(sizes))
    assert [r.tolist() for batch, _ in batches for r in batch] == [r.tolist() for r in rows]
    assert all(isinstance(batch, hr.Ragged) for batch, _ in batches if len(batch))
    assert all(dense.shape[1:] == (2,) for _, dense in batches)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.batch(2).rebatch(0), ValueError, "batch_size"),
        (lambda d, f: d.batch(2).rebatch([]), ValueError, "batch_size"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)


def test_an_empty_batch_looks_the_same_whether_or_not_the_spec_was_asked_for(run):
    def make():
        pairs = D.range(2).scan(0, lambda total, x: (total + x, (total, x)))
        return pairs.random_map(lambda a, b, rng: (a, rng.permutation(2)), seed=1).batch(2).rebatch([0, 1])

    asked = make()
    assert asked.element_spec[1].shape == (None, 2)
    assert [batch[1].shape for batch in run(make())] == [batch[1].shape for batch in run(asked)]
