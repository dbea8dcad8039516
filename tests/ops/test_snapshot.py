"""snapshot: elements kept in files for later runs."""

import pytest

import headrace as hr

D = hr.Dataset


def test_a_snapshot_of_another_pipeline_is_stored_beside_the_first(tmp_path):
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


def outcomes(ds):
    """Elements, and messages in the places of those that failed."""
    it, found = iter(ds), []
    while True:
        try:
            found.append(int(next(it)))
        except StopIteration:
            return found
        except hr.ElementError as error:
            found.append("bad!" if "ValueError: bad!" in str(error) else repr(error))


def refuse_multiples_of_three(x):
    if x % 3 == 0:
        raise ValueError("bad!")
    return x


@pytest.mark.parametrize("rows", [1, 8])
def test_failures_and_the_rows_after_them_stay_in_a_snapshot_with_shards(tmp_path, rows):
    ds = D.range(rows).map(refuse_multiples_of_three).snapshot(tmp_path, shard_func=lambda x: x % 2)
    first, second = outcomes(ds), outcomes(ds)
    assert first == [x if x % 3 else "bad!" for x in range(rows)]
    assert sorted(map(str, second)) == sorted(map(str, first))
    assert outcomes(ds) == second


def test_a_snapshot_with_shards_is_found_by_number(tmp_path):
    ds = D.range(6).snapshot(tmp_path, shard_func=lambda x: x // 3)
    assert ds[1] == 3  # shards take turns, as in every pass after the first
    assert list(ds) == [0, 3, 1, 4, 2, 5] == [ds[i] for i in range(6)]
    assert sorted(ds.shuffle()) == [0, 1, 2, 3, 4, 5]
    it = iter(ds)
    next(it)
    assert list(ds.iterator(it.state())) == [3, 1, 4, 2, 5]
