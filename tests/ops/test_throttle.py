"""throttle: no faster than a rate."""

import pytest

import headrace as hr

D = hr.Dataset


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.throttle(), TypeError, "rows_per_second"),
        (lambda d, f: d.throttle(rows_per_second=0), ValueError, "above 0"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)


def test_the_elements_stay_as_they_are(run):
    assert run(D.range(4).throttle(rows_per_second=1e6)) == [0, 1, 2, 3]
    assert run(D.range(4).throttle(bytes_per_second=1e9)) == [0, 1, 2, 3]


def test_closing_ends_the_wait_for_the_next_element():
    with iter(D.range(4).throttle(rows_per_second=1e-6).prefetch(2)) as it:
        assert next(it) == 0
