"""shard: every n-th element."""

import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_shards_divide_the_elements(run, shards):
    parts = [numbers(run(D.range(5).shard(shards, i))) for i in range(shards)]
    assert parts == [list(range(i, 5, shards)) for i in range(shards)]
    assert [len(D.range(5).shard(shards, i)) for i in range(shards)] == [len(p) for p in parts]


@pytest.mark.parametrize(("shards", "index"), [(0, 0), (-1, 0), (2, 2), (2, -1)])
def test_a_bad_shard_is_refused(shards, index):
    with pytest.raises(ValueError, match=r"num_shards|index"):
        D.range(3).shard(shards, index)
