"""snapshot: elements kept in files for later runs."""

import pytest

import headrace as hr

D = hr.Dataset


def test_a_snapshot_of_another_pipeline_lies_beside_the_first(tmp_path):
    for stop in (5, 6, 5):
        assert list(D.range(stop).snapshot(tmp_path)) == list(range(stop))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_snapshot_hands_its_shards_to_the_reader(tmp_path):
    ds = D.range(6).snapshot(
        tmp_path, shard_func=lambda x: x % 2, reader_func=lambda shards: shards.flat_map(lambda shard: shard)
    )
    assert list(ds) == [0, 1, 2, 3, 4, 5]
    assert list(ds) == [0, 2, 4, 1, 3, 5]


def test_a_state_of_a_pass_that_wrote_shards_is_restored_when_they_are_written(tmp_path):
    ds = D.range(6).snapshot(tmp_path, shard_func=lambda x: x % 2)
    it = iter(ds)
    next(it), next(it)
    state = it.state()
    assert list(it) == [2, 3, 4, 5] == list(ds.iterator(state))


def test_shard_numbers_are_integers(tmp_path):
    with pytest.raises(hr.ElementError, match=r"shard_func must return an integer, not 0\.5"):
        list(D.range(2).snapshot(tmp_path, shard_func=lambda x: 0.5))
