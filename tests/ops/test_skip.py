"""skip: all but the first elements."""

import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize(("count", "want"), [(0, [0, 1, 2, 3]), (3, [3]), (9, []), (-1, []), (-5, [])])
def test_skip(run, count, want):
    ds = D.range(4).skip(count)
    assert numbers(run(ds)) == want
    assert len(ds) == len(want)
