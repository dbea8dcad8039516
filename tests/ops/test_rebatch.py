"""rebatch: batches of other sizes."""

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
