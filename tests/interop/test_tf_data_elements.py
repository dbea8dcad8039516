"""Operations on one dataset: map, filter, batch, repeat, take, skip, shard, enumerate, prefetch, cache."""

import numpy as np
import pytest

from . import Pair, Point, dicts, endless, evens, tuples
from .conftest import assert_same, build, cases, headrace, numbers, see, tf_data

tf = pytest.importorskip("tensorflow")
pytestmark = [
    pytest.mark.tensorflow,
    # Generators whose later passes are empty are meant here.
    pytest.mark.filterwarnings("ignore:.*gives no elements in this pass:headrace.PipelineWarning"),
]

X, Y = np.array([1, 2, 3], np.int32), np.array([4.0, 5.0, 6.0])


def sometimes(D, *lengths):
    """Another number of elements in each pass."""
    passes = iter(lengths)

    def numbers():
        yield from range(next(passes, 0))

    return D.from_generator(numbers, output_signature=D.TensorSpec((), np.int32))


@cases(
    {
        "arithmetic": lambda D: D.range(5).map(lambda x: x * 2 + 1),
        "a tuple arrives as arguments": lambda D: tuples(D).map(lambda x, y: (y, x)),
        "fewer components": lambda D: tuples(D).map(lambda x, y: y * 2),
        "a tuple of one arrives as one argument": lambda D: D.from_tensor_slices((X,)).map(lambda x: x),
        "inner tuples arrive whole": lambda D: D.zip((tuples(D), D.range(3))).map(lambda pair, i: (pair[0], i)),
        "a dict arrives whole": lambda D: dicts(D).map(lambda d: {"z": d["x"], "w": d["y"]}),
        "from dict to tuple": lambda D: dicts(D).map(lambda d: (d["x"], d["y"])),
        "a namedtuple arrives whole": lambda D: D.from_tensor_slices(Point(X, X)).map(lambda p: p.a + p.b),
        "a dataclass arrives whole": lambda D: D.from_tensor_slices(Pair(X, Y)).map(lambda p: (p.b, p.a)),
        "a namedtuple comes back": lambda D: D.range(3).map(lambda x: Point(x, x + 1)),
        "a dataclass comes back": lambda D: D.range(3).map(lambda x: Pair(x, x + 1)),
        "a list that comes back is a tuple": lambda D: D.range(3).map(lambda x: [x, x * 2]),
        "None among components": lambda D: D.range(2).map(lambda x: (x, None)),
        "a constant": lambda D: D.range(2).map(lambda x: np.float32(3)),
        "text": lambda D: D.range(2).map(lambda x: "a"),
        "on threads": lambda D: D.range(40).map(lambda x: x * x, num_parallel_calls=3),
        "AUTOTUNE": lambda D: D.range(40).map(lambda x: x * x, num_parallel_calls=-1),
        "after map": lambda D: D.range(5).map(lambda x: (x, x)).map(lambda x, y: x + y),
        "then batched": lambda D: D.range(5).map(lambda x: (x, x * 2)).batch(2, drop_remainder=True),
    }
)
def test_map(pipeline):
    assert_same(pipeline)


@cases(
    {
        "vectors": lambda D: D.from_tensor_slices(np.ones((2, 3), np.float32)).map(lambda v: v * 2),
        "an inner list is a tensor": lambda D: D.range(3).map(lambda x: (x, [x, x * 2])),
        "a list in a dict is a tensor": lambda D: D.range(3).map(lambda x: {"a": [x, x * 2]}),
    }
)
def test_map_makes_tensors_whose_size_may_be_open(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def test_map_without_order_gives_the_same_elements(library):
    ds = build(lambda D: D.range(40).map(lambda x: x * 3, num_parallel_calls=3, deterministic=False), library)
    assert sorted(numbers(ds)) == [x * 3 for x in range(40)]


def test_a_lambda_in_a_loop_sees_its_own_turn(library):
    made = [build(lambda D: D.range(2).map(lambda x: x + turn), library) for turn in range(3)]  # noqa: B023
    assert [numbers(ds) for ds in made] == [[0, 1], [1, 2], [2, 3]]


@cases(
    {
        "some": lambda D: D.range(10).filter(lambda x: x % 3 == 1),
        "none": lambda D: D.range(5).filter(lambda x: x > 100),
        "all": lambda D: D.range(3).filter(lambda x: True),
        "tuples": lambda D: tuples(D).filter(lambda x, y: y > 4.5),
        "dicts": lambda D: dicts(D).filter(lambda d: d["x"] > 1),
        "of infinitely many": lambda D: endless(D).filter(lambda x: x >= 1),
        "then taken": lambda D: endless(D).filter(lambda x: x >= 1).take(5),
    }
)
def test_filter(pipeline):
    assert_same(pipeline)


@cases(
    {
        "with a short one at the end": lambda D: D.range(7).batch(3),
        "without the short one": lambda D: D.range(7).batch(3, drop_remainder=True),
        "that divide evenly": lambda D: D.range(6).batch(3),
        "larger than the data": lambda D: D.range(3).batch(10),
        "far larger than the data": lambda D: D.range(3).batch(2**40),
        "larger than the data, whole ones only": lambda D: D.range(3).batch(10, drop_remainder=True),
        "of a NumPy size": lambda D: D.range(3).batch(np.int64(2)),
        "of nothing": lambda D: D.range(0).batch(2),
        "of dicts": lambda D: dicts(D).batch(2),
        "of dataclasses": lambda D: D.from_tensor_slices(Pair(X, Y)).batch(2),
        "of text": lambda D: D.from_tensor_slices(["a", "bc", "d"]).batch(2),
        "of None": lambda D: D.from_tensors((np.int32(1), None)).repeat(3).batch(2),
        "of an unknown rank": lambda D: D.from_generator(lambda: iter([1, 2]), np.int32).batch(2),
        "of batches": lambda D: D.range(12).batch(3).batch(2),
        "of whole batches": lambda D: D.range(10).batch(3, drop_remainder=True).batch(2, drop_remainder=True),
        "made on threads": lambda D: D.range(10).batch(3, num_parallel_calls=2),
        "of infinitely many": lambda D: endless(D).batch(2),
        "of who knows how many": lambda D: evens(D).batch(2),
        "of who knows how many, whole ones only": lambda D: evens(D).batch(2, drop_remainder=True),
    }
)
def test_batches(pipeline):
    assert_same(pipeline)


@cases(
    {
        "repeat twice": lambda D: D.range(3).repeat(2),
        "repeat once": lambda D: D.range(3).repeat(1),
        "repeat never": lambda D: D.range(3).repeat(0),
        "repeat for ever": lambda D: D.range(3).repeat(),
        "repeat None": lambda D: D.range(3).repeat(None),
        "repeat a negative number": lambda D: D.range(3).repeat(-5),
        "repeat nothing for ever": lambda D: D.range(0).repeat(),
        "repeat nothing": lambda D: D.range(0).repeat(3),
        "repeat what has no end": lambda D: endless(D).repeat(2),
        "repeat what has no end never": lambda D: endless(D).repeat(0),
        "repeat the filtered": lambda D: evens(D).repeat(2),
        "repeat what is empty at first": lambda D: sometimes(D, 0, 2, 0, 1).repeat(4),
        "repeat what is empty at last": lambda D: sometimes(D, 2, 0, 0).repeat(3),
        "take some": lambda D: D.range(10).take(3),
        "take none": lambda D: D.range(10).take(0),
        "take -1 is everything": lambda D: D.range(10).take(-1),
        "take more than there are": lambda D: D.range(3).take(10),
        "take of infinitely many": lambda D: endless(D).take(5),
        "take -1 of infinitely many": lambda D: endless(D).take(-1),
        "take of the filtered": lambda D: evens(D).take(3),
        "skip some": lambda D: D.range(10).skip(3),
        "skip none": lambda D: D.range(10).skip(0),
        "skip -1 leaves nothing": lambda D: D.range(10).skip(-1),
        "skip more than there are": lambda D: D.range(3).skip(10),
        "skip of infinitely many": lambda D: endless(D).skip(5),
        "skip of the filtered": lambda D: evens(D).skip(3),
        "shard": lambda D: D.range(10).shard(3, 1),
        "shard of one": lambda D: D.range(10).shard(1, 0),
        "more shards than elements": lambda D: D.range(2).shard(5, 3),
        "shard of infinitely many": lambda D: endless(D).shard(3, 1),
        "shard of the filtered": lambda D: evens(D).shard(3, 1),
        "skip then take": lambda D: D.range(10).skip(2).take(3),
        "shard then skip": lambda D: D.range(10).shard(2, 1).skip(1),
    }
)
def test_choosing_elements(pipeline):
    assert_same(pipeline)


@cases(
    {
        "enumerate": lambda D: D.range(5, 8).enumerate(),
        "enumerate from a start": lambda D: D.range(5, 8).enumerate(start=10),
        "enumerate from below zero": lambda D: D.range(5, 8).enumerate(start=-1),
        "enumerate tuples": lambda D: tuples(D).enumerate(),
        "enumerate dicts": lambda D: dicts(D).enumerate(),
        "enumerate without end": lambda D: endless(D).enumerate(),
        "enumerate nothing": lambda D: D.range(0).enumerate(),
        "prefetch": lambda D: D.range(5).prefetch(2),
        "prefetch nothing ahead": lambda D: D.range(5).prefetch(0),
        "prefetch AUTOTUNE": lambda D: D.range(5).prefetch(-1),
        "prefetch without end": lambda D: endless(D).prefetch(2),
        "cache": lambda D: D.range(5).cache(),
        "cache and repeat": lambda D: tuples(D).cache().repeat(2),
        "cache a part": lambda D: endless(D).cache().take(5),
        "shuffle of one": lambda D: D.range(5).shuffle(1),
        "shuffle of one without end": lambda D: endless(D).shuffle(1),
    }
)
def test_elements_stay_in_order(pipeline):
    assert_same(pipeline)


def test_prefetch_none_is_autotune():
    assert_same(lambda D: D.range(5).prefetch(None))


def test_cache_with_an_empty_filename_is_in_memory():
    assert_same(lambda D: D.range(5).cache(""))


@cases(
    {
        "at first": lambda D: sometimes(D, 0, 2).repeat(),
        "in the middle": lambda D: sometimes(D, 2, 3, 0, 2).repeat(),
    }
)
def test_an_epoch_without_elements_ends_what_would_go_on_for_ever(pipeline):
    assert see(pipeline, headrace()).elements == see(pipeline, tf_data()).elements
