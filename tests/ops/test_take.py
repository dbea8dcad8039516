"""take: the first elements."""

import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize(
    ("count", "want"), [(0, []), (2, [0, 1]), (9, [0, 1, 2, 3]), (-1, [0, 1, 2, 3]), (-5, [0, 1, 2, 3])]
)
def test_take(run, count, want):
    ds = D.range(4).take(count)
    assert numbers(run(ds)) == want
    assert len(ds) == len(want)


def test_a_failure_counts_for_take_skip_shard_and_enumerate():
    ds = D.range(6).map(lambda x: 1 / 0 if x == 1 else x)

    def values(ds):
        it, got = iter(ds), []
        while True:
            try:
                got.append(next(it))
            except hr.ElementError:
                got.append("!")
            except StopIteration:
                return got

    assert values(ds.take(3)) == [0, "!", 2]
    assert values(ds.skip(1)) == ["!", 2, 3, 4, 5]
    assert values(ds.shard(2, 1)) == ["!", 3, 5]
    assert values(ds.enumerate())[:3] == [(0, 0), "!", (2, 2)]
