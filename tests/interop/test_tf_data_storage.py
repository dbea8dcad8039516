"""cache(filename), save, load and snapshot, each library with files of its own."""

import pytest

from . import dicts
from .conftest import assert_same, build, cases, elements, headrace, tf_data

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture
def files(tmp_path):
    """A fresh name for each dataset that is built."""
    made = iter(range(100))
    return lambda: str(tmp_path / str(next(made)))


def ragged(D):
    return D.range(4).map(lambda x: [x] * 2).batch(3)


@cases(
    {
        "numbers": lambda D: D.range(5),
        "dicts": dicts,
        "batches": lambda D: dicts(D).batch(2),
        "short batches": ragged,
        "nothing": lambda D: D.range(0),
    }
)
def test_files_change_nothing(pipeline, files):
    assert_same(lambda D: pipeline(D).cache(files()), sizes_may_be_open=True)
    assert_same(lambda D: pipeline(D).cache(files()).repeat(2), sizes_may_be_open=True)
    assert_same(lambda D: pipeline(D).snapshot(files()), sizes_may_be_open=True)
    assert_same(lambda D: pipeline(D).snapshot(files()).repeat(2), sizes_may_be_open=True)


@cases(
    {
        "numbers": lambda D: D.range(5),
        "dicts": dicts,
        "batches": lambda D: dicts(D).batch(2),
        "nothing": lambda D: D.range(0),
    }
)
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_what_was_saved_is_loaded(pipeline, compression, files):
    def saved(D):
        place = files()
        pipeline(D).save(place, compression=compression)
        return D.load(place, compression=compression)

    assert_same(saved)


def test_shards_take_turns(files):
    def saved(D):
        place = files()
        D.range(7).save(place, shard_func=lambda x: x % 2)
        return D.load(place)

    assert_same(saved)


def test_the_reader_puts_the_shards_together(files):
    def saved(D):
        place = files()
        D.range(7).save(place, shard_func=lambda x: x % 2)
        return D.load(place, reader_func=lambda shards: shards.flat_map(lambda shard: shard))

    assert elements(build(saved, tf_data())) == elements(build(saved, headrace()))


def test_a_cache_file_is_read_by_the_next_pipeline(library, files):
    place = files()
    first = elements(build(lambda D: D.range(5).cache(place), library))
    assert elements(build(lambda D: D.range(5).cache(place), library)) == first


def test_a_half_read_cache_file_is_never_served_as_the_whole(library, files):
    place = files()
    list(build(lambda D: D.range(5).cache(place).take(2), library))
    assert len(elements(build(lambda D: D.range(5).cache(place), library))) == 5
