"""group_by_window: elements of one key together."""

import pytest

import headrace as hr

D = hr.Dataset


def lists(rows):
    return [r.tolist() for r in rows]


def test_group_by_window(run):
    ds = D.from_tensor_slices([5, 1, 3, 5, 2, 1, 5]).group_by_window(lambda x: x, lambda k, w: w.batch(10), 2)
    assert lists(run(ds)) == [[5, 5], [1, 1], [2], [3], [5]]


def test_a_window_size_of_zero_is_an_error_at_the_element():
    ds = D.range(2).group_by_window(lambda x: x, lambda k, w: w, window_size_func=lambda k: k)
    it = iter(ds)
    with pytest.raises(hr.ElementError, match="at least 1, not 0"):
        next(it)
    assert next(it) == 1


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.group_by_window(f, f), ValueError, "window_size"),
        (lambda d, f: d.group_by_window(f, f, 2, window_size_func=f), ValueError, "window_size"),
        (lambda d, f: d.group_by_window(f, f, 0), ValueError, "window_size"),
        (lambda d, f: d.group_by_window(3, f, 1), TypeError, "function"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)
