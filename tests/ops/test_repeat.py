"""repeat: the elements again."""

import pytest

import headrace as hr

D = hr.Dataset


def lists(rows):
    return [r.tolist() for r in rows]


def numbers(rows):
    return [int(x) for x in rows]


def test_repeat_goes_on_after_an_epoch_without_elements():
    passes = []

    def numbers():
        passes.append(len(passes))
        yield from range(0 if len(passes) in (1, 3) else 2)

    ds = D.from_generator(numbers, output_signature=hr.TensorSpec((), "int64"))
    assert lists(ds.repeat(4)) == [0, 1, 0, 1]
    assert passes == [0, 1, 2, 3]
    passes.clear()
    assert lists(ds.repeat()) == []
    assert list(D.range(0).repeat(10**15)) == []


@pytest.mark.parametrize(("count", "want"), [(0, []), (1, [0, 1]), (3, [0, 1] * 3)])
def test_repeat(run, count, want):
    assert numbers(run(D.range(2).repeat(count))) == want


@pytest.mark.parametrize("count", [None, -1, -7])
def test_repeat_for_ever(run, count):
    ds = D.range(2).repeat(count)
    assert ds.cardinality() == hr.INFINITE_CARDINALITY
    assert numbers(run(ds.take(5))) == [0, 1, 0, 1, 0]
    with pytest.raises(TypeError, match="infinite"):
        len(ds)


def test_repeating_nothing_ends(run):
    assert run(D.range(0).repeat()) == []
    assert run(D.range(3).filter(lambda x: False).repeat()) == []
    assert D.range(0).repeat().cardinality() == 0
