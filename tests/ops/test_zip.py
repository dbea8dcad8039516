"""zip: elements of several datasets side by side."""

import pytest

import headrace as hr

D = hr.Dataset


def test_zip_takes_structures(run):
    a, b = D.range(3), D.range(10, 20)
    assert run(D.zip(a, b)) == [(0, 10), (1, 11), (2, 12)]
    assert run(D.zip((a, (b,))))[0] == (0, (10,))
    assert run(D.zip({"x": a, "y": b}))[2] == {"x": 2, "y": 12}
    assert run(D.zip(datasets=(a, b))) == run(D.zip(a, b))
    assert len(D.zip(a, b)) == 3


@pytest.mark.parametrize("bad", [(), ([D.range(1), D.range(1)],), (D.range(1), 3)])
def test_zip_of_anything_else_is_refused(bad):
    with pytest.raises(TypeError, match="zip"):
        D.zip(*bad)


def test_a_zipped_tuple_with_a_failure_is_one_failure():
    it = iter(D.zip(D.range(3), D.range(3).map(lambda x: 1 / 0 if x == 1 else x)))
    assert next(it) == (0, 0)
    with pytest.raises(hr.ElementError):
        next(it)
    assert next(it) == (2, 2)


def test_zip_reads_no_further_than_its_shortest():
    read = []
    counted = D.range(100).map(lambda x: read.append(int(x)) or x)
    assert list(D.zip(counted, D.range(2)).skip(50)) == []
    assert read == [0, 1, 2]
