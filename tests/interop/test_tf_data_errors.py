"""What is refused when a pipeline is built, and what happens to an element that cannot be made."""

import numpy as np
import pytest

from . import Point, i32, tuples
from .conftest import ERROR, assert_same, build, but, cases, differs, headrace, numbers, tf_data

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def each(D, count=3):
    return lambda x: D.from_tensors(x).repeat(count)


def assert_both_refuse(pipeline):
    with pytest.raises((TypeError, ValueError, AttributeError, tf.errors.InvalidArgumentError)):
        build(pipeline, tf_data())
    with pytest.raises((TypeError, ValueError)):
        build(pipeline, headrace())


@cases(
    {
        "range of a zero step": lambda D: D.range(1, 10, 0),
        "range without arguments": lambda D: D.range(),
        "range of four arguments": lambda D: D.range(1, 2, 3, 4),
        "range of a float": lambda D: D.range(2.5),
        "slices of a scalar": lambda D: D.from_tensor_slices(np.int32(3)),
        "slices of a scalar beside a vector": lambda D: D.from_tensor_slices({"a": i32(1, 2), "b": np.int32(1)}),
        "slices of unequal number": lambda D: D.from_tensor_slices((i32(1, 2), i32(1))),
        "slices of a ragged list": lambda D: D.from_tensor_slices([[1.0], [2.0, 3.0]]),
        "slices of None": lambda D: D.from_tensor_slices(None),
        "slices of an empty tuple": lambda D: D.from_tensor_slices(()),
        "a ragged tensor": lambda D: D.from_tensors([[1.0], [2.0, 3.0]]),
        "a generator of no type": lambda D: D.from_generator(lambda: iter([1])),
        "a generator of a shape and no type": lambda D: D.from_generator(lambda: iter([1]), output_shapes=()),
        "a generator of two types": lambda D: D.from_generator(
            lambda: iter([1]), np.int32, output_signature=D.TensorSpec((), np.int32)
        ),
        "a generator whose signature is none": lambda D: D.from_generator(lambda: iter([1]), output_signature=np.int32),
        "a generator that cannot be called": lambda D: D.from_generator([1, 2], np.int32),
        "map of too few arguments": lambda D: tuples(D).map(lambda x: x),
        "map of too many arguments": lambda D: D.range(3).map(lambda x, y: x),
        "map over a namedtuple's parts": lambda D: D.from_tensor_slices(Point(i32(1), i32(2))).map(lambda a, b: a),
        "map of no function": lambda D: D.range(3).map(3),
        "map on no thread": lambda D: D.range(3).map(lambda x: x, num_parallel_calls=0),
        "map on less than no thread": lambda D: D.range(3).map(lambda x: x, num_parallel_calls=-2),
        "filter of too few arguments": lambda D: tuples(D).filter(lambda x: x > 1),
        "flat_map of too few arguments": lambda D: tuples(D).flat_map(lambda x: D.from_tensors(x)),
        "batches of none": lambda D: D.range(3).batch(0),
        "batches of less than none": lambda D: D.range(3).batch(-1),
        "batches of a float": lambda D: D.range(3).batch(2.0),
        "repeat a float": lambda D: D.range(3).repeat(1.5),
        "no shards": lambda D: D.range(10).shard(0, 0),
        "less than no shards": lambda D: D.range(10).shard(-2, 0),
        "a shard beyond the last": lambda D: D.range(10).shard(3, 3),
        "a negative shard": lambda D: D.range(10).shard(3, -1),
        "prefetch a negative number": lambda D: D.range(5).prefetch(-2),
        "shuffle in no buffer": lambda D: D.range(3).shuffle(0),
        "shuffle in a negative buffer": lambda D: D.range(3).shuffle(-3),
        "zip of nothing": lambda D: D.zip(),
        "zip of an empty tuple": lambda D: D.zip(()),
        "zip of a list": lambda D: D.zip([D.range(3), D.range(3)]),
        "zip with a number": lambda D: D.zip((D.range(3), 3)),
        "zip in both ways": lambda D: D.zip(D.range(3), datasets=(D.range(3),)),
        "concatenate a number": lambda D: D.range(3).concatenate(3),
        "concatenate another dtype": lambda D: D.range(3).concatenate(D.range(3, output_type=np.int32)),
        "concatenate another structure": lambda D: D.range(3).concatenate(D.zip((D.range(3),))),
        "concatenate other keys": lambda D: D.from_tensors({"a": i32(1)}).concatenate(D.from_tensors({"b": i32(1)})),
        "concatenate a namedtuple": lambda D: D.from_tensors((i32(1), i32(2))).concatenate(
            D.from_tensors(Point(i32(1), i32(2)))
        ),
        "concatenate what a map made": lambda D: D.range(3).map(lambda x: (x, x)).concatenate(D.range(3)),
        "interleave in no slots": lambda D: D.range(3).interleave(each(D), cycle_length=0),
        "interleave in less than no slots": lambda D: D.range(3).interleave(each(D), cycle_length=-2),
        "interleave in empty blocks": lambda D: D.range(3).interleave(each(D), cycle_length=2, block_length=0),
        "interleave on no thread": lambda D: D.range(3).interleave(each(D), cycle_length=2, num_parallel_calls=0),
    }
)
def test_both_refuse_to_build(pipeline):
    assert_both_refuse(pipeline)


@differs("found when the function first runs, not when the pipeline is built", raises=pytest.fail.Exception)
@cases(
    {
        "a predicate of integers": lambda D: D.range(3).filter(lambda x: x),
        "a predicate of vectors": lambda D: D.from_tensors(i32(1, 2)).filter(lambda x: x > 1),
        "a predicate of tuples": lambda D: D.range(3).filter(lambda x: (x > 1,)),
        "flat_map to a number": lambda D: D.range(4).flat_map(lambda x: x),
        "interleave of numbers": lambda D: D.range(4).interleave(lambda x: x, cycle_length=2),
        "map to None": lambda D: D.range(2).map(lambda x: None),
    }
)
def test_both_refuse_a_function_that_returns_the_wrong_thing(pipeline):
    assert_both_refuse(pipeline)


@differs("headrace has a meaning for it", raises=pytest.fail.Exception)
@cases(
    {
        "an element of nothing": lambda D: D.from_tensors(()),
        "None as an element": lambda D: D.from_tensors(None),
        "zip with None": lambda D: D.zip((D.range(3), None)),
        "more threads than slots": lambda D: D.range(3).interleave(each(D), cycle_length=2, num_parallel_calls=5),
    }
)
def test_both_refuse_what_only_tf_data_has_no_use_for(pipeline):
    assert_both_refuse(pipeline)


def test_element_spec_of_datasets_that_do_not_fit_together_can_be_asked_for():
    spec = headrace().range(3).map(lambda x: (x, x), mode="eager").concatenate(headrace().range(3)).element_spec
    assert (spec.shape, spec.dtype) == (None, None)


class Stumbling:
    """An iterator that raises for None values, and continues."""

    def __init__(self, values):
        self._values = iter(values)

    def __iter__(self):
        return self

    def __next__(self):
        value = next(self._values)
        if value is None:
            raise ValueError("no value")
        return value


def stumbling(D, *values):
    return D.from_generator(lambda: Stumbling(values), output_signature=D.TensorSpec((), np.int64))


def breaking_off(D):
    def generator():
        yield 1
        raise ValueError("no more")

    return D.from_generator(generator, output_signature=D.TensorSpec((), np.int64))


def unequal(D, *sizes):
    rows = [list(range(n)) for n in sizes]
    return D.from_generator(lambda: iter(rows), output_signature=D.TensorSpec((None,), np.int64))


def broken(D):
    """0, 1, 2, an error, 4, 5, 6, an error."""
    return D.range(8).map(D.failing(lambda x: x % 4 == 3))


def children(D):
    """Of each parent's three rows the second is an error."""
    return lambda x: D.range(x * 10, x * 10 + 3).map(D.failing(lambda y: y % 10 == 1))


@cases(
    {
        "map": broken,
        "the first": lambda D: D.range(3).map(D.failing(lambda x: x == 0)),
        "the last": lambda D: D.range(3).map(D.failing(lambda x: x == 2)),
        "all": lambda D: D.range(3).map(D.failing(lambda x: x >= 0)),
        "parallel map": lambda D: D.range(8).map(D.failing(lambda x: x % 4 == 3), num_parallel_calls=3),
        "a map after it": lambda D: broken(D).map(lambda x: x + 1),
        "prefetch": lambda D: broken(D).prefetch(2),
        "a generator": lambda D: stumbling(D, 1, None, 2, None, None, 3),
        "a generator that breaks off": breaking_off,
        "a predicate": lambda D: D.range(8).filter(lambda x: D.failing(lambda y: y % 4 == 3)(x) % 2 == 0),
        "filter": lambda D: broken(D).filter(lambda x: x % 2 == 0),
        "enumerate counts it": lambda D: broken(D).enumerate(),
        "a batch that holds it is one error": lambda D: broken(D).batch(2),
        "shapes that do not stack": lambda D: unequal(D, 1, 2, 1, 1, 2, 2).batch(2),
        "a pair that holds it": lambda D: D.zip(broken(D), D.range(8)),
        "a pair that ends with it": lambda D: D.zip(D.range(8), broken(D)),
        "concatenate": lambda D: broken(D).concatenate(broken(D)),
        "repeat": lambda D: broken(D).repeat(2),
        "repeat nothing but errors": lambda D: D.range(1).map(D.failing(lambda x: x >= 0)).repeat(3),
        "cache": lambda D: broken(D).cache(),
        "shuffle": lambda D: broken(D).shuffle(1),
        "skip before it": lambda D: broken(D).skip(1),
        "a parent of flat_map": lambda D: broken(D).flat_map(lambda x: D.range(x)),
        "flat_map's function": lambda D: D.range(6).flat_map(lambda x: D.range(D.failing(lambda y: y == 3)(x))),
        "a child of flat_map": lambda D: D.range(3).flat_map(children(D)),
        "a parent of parallel interleave": lambda D: broken(D).interleave(each(D, 2), 2, num_parallel_calls=2),
        "a child of parallel interleave": lambda D: D.range(3).interleave(children(D), 2, num_parallel_calls=2),
    }
)
def test_an_error_belongs_to_one_element_and_the_next_one_follows(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def last(D, n=7):
    """0, 1, … and an error in place of the last, so that it is in the remainder of groups of two or four."""
    return D.range(n).map(D.failing(lambda x: x == n - 1))


@cases(
    {
        "batch": lambda D: last(D).batch(4, drop_remainder=True),
        "nothing but a remainder": lambda D: last(D, 1).batch(4, drop_remainder=True),
        "padded_batch": lambda D: last(D).padded_batch(2, padded_shapes=[], drop_remainder=True),
        "window": but(
            "tf.data loses it",
            lambda D: last(D).window(2, drop_remainder=True).flat_map(lambda w: w.batch(2)),
        ),
        "a map after it": lambda D: last(D).batch(2, drop_remainder=True).map(lambda x: x + 1),
        "prefetch": lambda D: last(D).batch(2, drop_remainder=True).prefetch(2),
        "take of all": lambda D: last(D).batch(2, drop_remainder=True).take(-1),
        "take before it": lambda D: last(D).batch(2, drop_remainder=True).take(3),
        "repeat": lambda D: last(D).batch(2, drop_remainder=True).repeat(2),
        "concatenate": lambda D: last(D).batch(2, drop_remainder=True).concatenate(D.range(4).batch(2, True)),
        "a child of flat_map": lambda D: D.range(2).flat_map(lambda x: last(D).batch(2, drop_remainder=True)),
        "ignore_errors": lambda D: last(D).batch(2, drop_remainder=True).ignore_errors(),
    }
)
def test_an_error_in_a_remainder_that_is_dropped_is_raised(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def test_stop_iteration_in_a_function_is_an_error_and_not_the_end():
    def stops(x):
        if x == 1:
            raise StopIteration
        return x

    assert numbers(build(lambda D: D.range(3).map(stops), headrace())) == [0, ERROR, 2]
    in_python = lambda x: tf.py_function(stops, [x], tf.int64)  # noqa: E731
    assert numbers(build(lambda D: D.range(3).map(in_python), tf_data())) == [0, ERROR, 2]


@pytest.mark.parametrize(
    ("pipeline", "in_tf_data", "in_headrace"),
    [
        pytest.param(lambda D: broken(D).take(5), [0, 1, 2, ERROR, 4, 5], [0, 1, 2, ERROR, 4], id="take"),
        pytest.param(lambda D: broken(D).skip(5), [ERROR, ERROR], [5, 6, ERROR], id="skip"),
        pytest.param(
            lambda D: broken(D).batch(3),
            [[0, 1, 2], ERROR, [4, 5, 6], ERROR],
            [[0, 1, 2], ERROR, ERROR],
            id="batch",
        ),
        pytest.param(lambda D: broken(D).shard(2, 0), [0, 2, ERROR, 5, ERROR], [0, 2, 4, 6], id="shard"),
        pytest.param(
            lambda D: D.range(2).interleave(children(D), cycle_length=2),
            [0, 10, ERROR, 2, ERROR, 12],
            [0, 10, ERROR, ERROR, 2, 12],
            id="interleave",
        ),
    ],
)
def test_an_error_occupies_its_place_in_headrace_alone(pipeline, in_tf_data, in_headrace):
    assert numbers(build(pipeline, tf_data())) == in_tf_data
    assert numbers(build(pipeline, headrace())) == in_headrace
