"""Operations on several datasets: zip, concatenate, flat_map, interleave."""

import numpy as np
import pytest

from . import Point, dicts, endless, evens, i32, tuples
from .conftest import assert_same, build, cases, numbers

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def repeated(D, count):
    return lambda x: D.from_tensors(x).repeat(count)


def itself_times(D):
    return lambda x: D.from_tensors(x).repeat(x)


@cases(
    {
        "two": lambda D: D.zip(D.range(3), D.range(5, 10)),
        "three": lambda D: D.zip(D.range(3), D.range(4), D.range(2)),
        "one": lambda D: D.zip(D.range(3)),
        "a tuple": lambda D: D.zip((D.range(3), D.range(5, 10))),
        "a tuple of one": lambda D: D.zip((D.range(3),)),
        "by keyword": lambda D: D.zip(datasets=(D.range(3), D.range(5, 10))),
        "a dict": lambda D: D.zip({"b": D.range(3), "a": tuples(D)}),
        "a namedtuple": lambda D: D.zip(Point(D.range(3), D.range(3))),
        "nested tuples": lambda D: D.zip((D.range(3), (D.range(3), D.range(3)))),
        "structured elements": lambda D: D.zip(tuples(D), dicts(D)),
        "finite with infinite": lambda D: D.zip(endless(D), D.range(3)),
        "infinite with infinite": lambda D: D.zip(endless(D), endless(D)),
        "unknown with finite": lambda D: D.zip(evens(D), D.range(3)),
        "unknown with longer finite": lambda D: D.zip(evens(D), D.range(30)),
        "unknown with infinite": lambda D: D.zip(evens(D), endless(D)),
        "empty with infinite": lambda D: D.zip(D.range(0), endless(D)),
    }
)
def test_zip(pipeline):
    assert_same(pipeline)


@cases(
    {
        "ranges": lambda D: D.range(3).concatenate(D.range(5, 7)),
        "tuples": lambda D: tuples(D).concatenate(tuples(D)),
        "an empty one first": lambda D: D.range(0).concatenate(D.range(3)),
        "sizes that differ": lambda D: D.from_tensors(i32(1, 2)).concatenate(D.from_tensors(i32(1, 2, 3))),
        "ranks that differ": lambda D: D.from_tensors(i32(1, 2)).concatenate(D.from_tensors(np.int32(1))),
        "batches of two sizes": lambda D: D.range(6).batch(3, True).concatenate(D.range(4).batch(2, True)),
        "keys in another order": lambda D: D.from_tensors({"a": i32(1), "b": i32(2)}).concatenate(
            D.from_tensors({"b": i32(4), "a": i32(3)})
        ),
        "a map first": lambda D: D.range(3).map(lambda x: x).concatenate(D.range(3)),
        "an infinite one last": lambda D: D.range(3).concatenate(endless(D)),
        "an infinite one first": lambda D: endless(D).concatenate(D.range(3)),
        "infinite and unknown": lambda D: endless(D).concatenate(evens(D)),
        "unknown and infinite": lambda D: evens(D).concatenate(endless(D)),
        "finite and unknown": lambda D: D.range(3).concatenate(evens(D)),
    }
)
def test_concatenate(pipeline):
    assert_same(pipeline)


@cases(
    {
        "ranges": lambda D: D.range(4).flat_map(lambda n: D.range(n)),
        "the rows of batches": lambda D: D.range(10).batch(3).flat_map(D.from_tensor_slices),
        "tuples": lambda D: tuples(D).flat_map(lambda x, y: D.from_tensors((x, y)).repeat(2)),
        "of infinitely many": lambda D: endless(D).flat_map(lambda n: D.range(n)),
        "infinite children": lambda D: D.range(2).flat_map(lambda n: D.range(5).repeat()),
        "children with a map that sees the parent": lambda D: D.range(4).flat_map(
            lambda n: D.range(3).map(lambda x: x * 10 + n)
        ),
        "nested": lambda D: D.range(4).flat_map(lambda n: D.range(n).flat_map(lambda m: D.range(m + 1))),
        "batches": lambda D: D.range(4).flat_map(lambda n: D.range(n).batch(2)),
        "then batched": lambda D: D.range(4).flat_map(lambda n: D.range(n)).batch(2),
    }
)
def test_flat_map(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "blocks of four from two": lambda D: D.range(1, 6).interleave(repeated(D, 6), cycle_length=2, block_length=4),
        "blocks of one by default": lambda D: D.range(1, 6).interleave(repeated(D, 3), cycle_length=3),
        "children of all lengths": lambda D: D.range(6).interleave(itself_times(D), cycle_length=3, block_length=2),
        "shorter and shorter": lambda D: D.range(6, 0, -1).interleave(itself_times(D), cycle_length=3, block_length=2),
        "one at a time": lambda D: D.range(3).interleave(repeated(D, 3), cycle_length=1, block_length=2),
        "more slots than children": lambda D: D.range(3).interleave(repeated(D, 3), cycle_length=10, block_length=2),
        "empty children": lambda D: D.range(4).interleave(lambda n: D.range(0), cycle_length=2),
        "infinite children": lambda D: D.range(4).interleave(lambda n: D.from_tensors(n).repeat(), cycle_length=2),
        "of the filtered": lambda D: evens(D).interleave(repeated(D, 3), cycle_length=2),
        "on threads": lambda D: D.range(6).interleave(itself_times(D), 3, 2, num_parallel_calls=3),
        "with fewer threads than slots": lambda D: D.range(6).interleave(itself_times(D), 3, 2, num_parallel_calls=2),
        "AUTOTUNE": lambda D: D.range(6).interleave(itself_times(D), 3, num_parallel_calls=-1),
        "on threads, of infinitely many": lambda D: endless(D).interleave(repeated(D, 3), 2, num_parallel_calls=2),
    }
)
def test_interleave(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def test_interleave_without_order_gives_the_same_elements(library):
    ds = build(
        lambda D: D.range(6).interleave(itself_times(D), cycle_length=3, num_parallel_calls=3, deterministic=False),
        library,
    )
    assert sorted(numbers(ds)) == [n for n in range(6) for _ in range(n)]
