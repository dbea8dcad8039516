"""Cardinality and element_spec, against tf.data."""

import numpy as np
import pytest

import headrace as hr

from . import dicts, endless, evens, tuples
from .conftest import assert_same, cases, differs, headrace, see, tf_data

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def nothing(D):
    return D.range(0)


def twice(D):
    return lambda x: D.from_tensors(x).repeat(2)


@cases(
    {
        "batches": lambda D: tuples(D).batch(2),
        "whole batches": lambda D: dicts(D).batch(2, drop_remainder=True),
        "batches of batches": lambda D: D.range(9).batch(3, drop_remainder=True).batch(2),
        "through everything that keeps it": lambda D: (
            tuples(D).take(2).skip(1).repeat(2).shard(2, 0).shuffle(1).cache().prefetch(1)
        ),
        "a map that gives scalars": lambda D: tuples(D).map(lambda x, y: {"sum": y + 1, "x": x}),
        "a map over nothing": lambda D: nothing(D).map(lambda x: (x, x * 2)),
        "a map that gives vectors": lambda D: D.range(4).batch(2, drop_remainder=True).map(lambda x: x + 1),
        "a filter": lambda D: tuples(D).filter(lambda x, y: x > 1),
        "an unknown rank": lambda D: D.from_generator(lambda: iter([1]), np.int32).enumerate(),
    }
)
def test_the_spec_is_the_same(pipeline):
    assert_same(pipeline)


@cases(
    {
        "flat_map": lambda D: D.range(4).flat_map(lambda n: D.from_tensors((n, np.float32(3)))),
        "interleave": lambda D: D.range(4).interleave(twice(D), cycle_length=2),
        "a batch after flat_map": lambda D: D.range(4).flat_map(lambda n: D.range(n)).batch(2),
        "windows in batches": lambda D: D.range(9).window(4).flat_map(lambda w: w.batch(3)),
        "windows in whole batches": lambda D: D.range(9).window(4).flat_map(lambda w: w.batch(3, drop_remainder=True)),
        "windows in batches that take turns": lambda D: D.range(9).window(4).interleave(lambda w: w.batch(3, True), 2),
        "windows of nothing": lambda D: D.range(0).window(4).flat_map(lambda w: w.batch(3, True)),
    }
)
def test_the_spec_of_nested_datasets_is_the_same(pipeline):
    assert_same(pipeline)


@cases(
    {
        "to a size that divides": lambda D: D.range(8).batch(4, drop_remainder=True).rebatch(2),
        "to a size that does not divide": lambda D: D.range(8).batch(4, drop_remainder=True).rebatch(3),
        "of any size": lambda D: D.range(8).batch(4).rebatch(2),
        "whole ones only": lambda D: D.range(8).batch(4).rebatch(2, drop_remainder=True),
        "of tuples": lambda D: D.from_tensor_slices((np.zeros((6, 4, 3)), np.zeros((6, 4)))).rebatch(2),
        "to sizes that are one": lambda D: D.range(8).batch(4, drop_remainder=True).rebatch([2, 2]),
        "to sizes that are one, whole ones only": lambda D: D.range(9).batch(4).rebatch([2, 2], drop_remainder=True),
        "to sizes that differ": lambda D: D.range(8).batch(4, drop_remainder=True).rebatch([3, 1]),
        "to empty ones too": lambda D: D.range(8).batch(4, drop_remainder=True).rebatch([2, 0]),
    }
)
def test_the_spec_of_batches_put_together_anew_is_the_same(pipeline):
    expected, got = see(pipeline, tf_data()), see(pipeline, headrace())
    assert (got.elements, got.spec) == (expected.elements, expected.spec)


@cases(
    {
        "a map whose first element is an error": lambda D: D.range(2).map(D.failing(lambda x: x == 0)),
    }
)
def test_the_spec_of_a_function_s_results_is_the_same(pipeline):
    assert_same(pipeline)


@cases(
    {
        "filter": lambda D: nothing(D).filter(lambda x: x > 1),
        "flat_map": lambda D: nothing(D).flat_map(lambda n: D.range(n)),
    }
)
def test_what_a_function_leaves_of_nothing_is_not_known(pipeline):
    assert see(pipeline, headrace()).cardinality == see(pipeline, tf_data()).cardinality


@differs("headrace says 0, tf.data UNKNOWN or INFINITE")
@cases(
    {
        "zip": lambda D: D.zip(evens(D), nothing(D)),
        "take none of who knows how many": lambda D: evens(D).take(0),
        "skip all of who knows how many": lambda D: evens(D).skip(-1),
        "skip all of infinitely many": lambda D: endless(D).skip(-1),
    }
)
def test_the_cardinality_of_nothing_is_the_same(pipeline):
    assert see(pipeline, headrace()).cardinality == see(pipeline, tf_data()).cardinality


@differs("UNKNOWN, and INFINITE in tf.data")
def test_what_is_repeated_for_ever_counts_as_infinite():
    assert_same(lambda D: evens(D).repeat())


def test_interleave_of_infinitely_many_is_infinite():
    def interleave(D, **how):
        return endless(D).interleave(twice(D), cycle_length=2, **how)

    assert see(interleave, headrace()).cardinality == hr.INFINITE_CARDINALITY
    assert see(interleave, tf_data()).cardinality == tf.data.UNKNOWN_CARDINALITY
    assert see(lambda D: interleave(D, num_parallel_calls=2), tf_data()).cardinality == tf.data.INFINITE_CARDINALITY


def test_the_constants_are_the_same():
    assert hr.INFINITE_CARDINALITY == tf.data.INFINITE_CARDINALITY
    assert hr.UNKNOWN_CARDINALITY == tf.data.UNKNOWN_CARDINALITY
    assert hr.AUTOTUNE == tf.data.AUTOTUNE
