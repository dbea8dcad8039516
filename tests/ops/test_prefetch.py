"""prefetch: elements made before they are asked for."""

import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize("size", [-2, -5])
def test_a_bad_prefetch_is_refused(size):
    with pytest.raises(ValueError, match="buffer_size"):
        D.range(3).prefetch(size)


def test_prefetching_nothing_is_nothing(run):
    assert numbers(run(D.range(3).prefetch(0))) == [0, 1, 2]


def test_errors_pass_through_prefetch_in_their_places():
    it = iter(D.range(4).map(lambda x: 1 / 0 if x == 1 else x).prefetch(2))
    assert next(it) == 0
    with pytest.raises(hr.ElementError):
        next(it)
    assert numbers(it) == [2, 3]
