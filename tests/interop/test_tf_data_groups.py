"""Elements put together and taken apart: padded and ragged batches, windows, groups, buckets, unbatch, rebatch."""

import numpy as np
import pytest

from . import Pair, dicts, endless, evens, i32, tuples
from .conftest import assert_same, build, cases, headrace, see, sort, tf_data
from .test_tf_data_errors import assert_both_refuse, broken, unequal

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def pairs(D, *sizes):
    """A row of int64 and its half in float32."""
    rows = [(np.arange(1, n + 1), np.arange(1, n + 1, dtype=np.float32) / 2) for n in sizes]
    signature = (D.TensorSpec((None,), np.int64), D.TensorSpec((None,), np.float32))
    return D.from_generator(lambda: iter(rows), output_signature=signature)


def named(D, *sizes):
    return pairs(D, *sizes).map(lambda a, b: {"a": a, "b": b})


def words(D, *rows):
    return D.from_generator(lambda: iter(rows), output_signature=D.TensorSpec((None,), np.dtype("O")))


def matrices(D, *shapes):
    made = [np.ones(shape, np.int32) for shape in shapes]
    return D.from_generator(lambda: iter(made), output_signature=D.TensorSpec((None, None), np.int32))


def of_any_rank(D, *shapes):
    return D.from_generator(lambda: (np.ones(shape, np.int32) for shape in shapes), np.int32)


@cases(
    {
        "to the longest": lambda D: unequal(D, 1, 3, 2, 5).padded_batch(2),
        "with a short one at the end": lambda D: unequal(D, 1, 3, 2).padded_batch(2),
        "whole ones only": lambda D: unequal(D, 1, 3, 2).padded_batch(2, drop_remainder=True),
        "larger than the data": lambda D: unequal(D, 1, 3).padded_batch(10),
        "of nothing": lambda D: D.range(0).padded_batch(2),
        "of empty rows": lambda D: unequal(D, 0, 0).padded_batch(2),
        "of scalars": lambda D: D.range(5).padded_batch(2),
        "of rows of one size": lambda D: D.range(6).batch(2, True).padded_batch(2),
        "of infinitely many": lambda D: endless(D).padded_batch(2),
        "of who knows how many": lambda D: evens(D).padded_batch(2),
        "counted": lambda D: D.range(7).padded_batch(3, drop_remainder=True),
        "to a size": lambda D: unequal(D, 1, 3, 2).padded_batch(2, [4]),
        "to a size in a tuple": lambda D: unequal(D, 1, 3, 2).padded_batch(2, (4,)),
        "to None": lambda D: unequal(D, 1, 3, 2).padded_batch(2, [None]),
        "to -1": lambda D: unequal(D, 1, 3, 2).padded_batch(2, [-1]),
        "a scalar to no shape": lambda D: D.range(3).padded_batch(2, []),
        "larger than a static shape": lambda D: D.range(6).batch(2, True).padded_batch(2, [4]),
        "matrices to the longest": lambda D: matrices(D, (1, 3), (2, 2)).padded_batch(2),
        "matrices to a size on one axis": lambda D: matrices(D, (1, 3), (2, 2)).padded_batch(2, [None, 5]),
        "pairs": lambda D: pairs(D, 1, 3).padded_batch(2),
        "pairs to sizes of their own": lambda D: pairs(D, 1, 3).padded_batch(2, ([4], [None])),
        "dicts": lambda D: named(D, 1, 3).padded_batch(2, {"a": [None], "b": [4]}),
        "with a value": lambda D: unequal(D, 1, 3).padded_batch(2, padding_values=np.int64(-1)),
        "with a value and a size": lambda D: unequal(D, 1, 3).padded_batch(2, [4], np.int64(-1)),
        "with a value each": lambda D: pairs(D, 1, 3).padded_batch(2, padding_values=(np.int64(-1), np.float32(0.5))),
        "with None as one value": lambda D: pairs(D, 1, 3).padded_batch(2, padding_values=(None, np.float32(0.5))),
        "with None as every value": lambda D: pairs(D, 1, 3).padded_batch(2, padding_values=(None, None)),
        "with a value in a dict": lambda D: named(D, 1, 3).padded_batch(
            2, padding_values={"a": np.int64(7), "b": None}
        ),
        "with a value, to whole numbers": lambda D: unequal(D, 1, 3).padded_batch(2, padding_values=-1),
        "text": lambda D: words(D, ["a"], ["b", "c"]).padded_batch(2),
        "text with a value": lambda D: words(D, ["a"], ["b", "c"]).padded_batch(2, padding_values="?"),
    }
)
def test_padded_batches(pipeline):
    assert_same(pipeline)


@cases(
    {
        "the second batch": lambda D: unequal(D, 1, 2, 4, 1, 3).padded_batch(2, [3]),
        "the only batch": lambda D: unequal(D, 4).padded_batch(2, [3]),
        "one axis": lambda D: matrices(D, (1, 3), (2, 2), (5, 1)).padded_batch(1, [2, None]),
        "one component": lambda D: pairs(D, 1, 3, 2).padded_batch(1, ([None], [2])),
        "ranks that differ": lambda D: of_any_rank(D, (1,), (1, 1), (2,), (3,)).padded_batch(2),
        "an error inside": lambda D: broken(D).padded_batch(4),
    }
)
def test_a_padded_batch_that_cannot_be_made_is_one_error(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "a shape below a static one": lambda D: D.range(6).batch(3, True).padded_batch(2, [2]),
        "a shape of another rank": lambda D: unequal(D, 1, 2).padded_batch(2, [None, None]),
        "a shape for a scalar": lambda D: D.range(3).padded_batch(2, [4]),
        "shapes of another structure": lambda D: pairs(D, 1).padded_batch(2, [None]),
        "too few shapes": lambda D: pairs(D, 1).padded_batch(2, ([None],)),
        "values of another structure": lambda D: unequal(D, 1).padded_batch(2, padding_values=(1, 2)),
        "too few values": lambda D: pairs(D, 1).padded_batch(2, padding_values=(np.int64(1),)),
        "a value of another kind": lambda D: unequal(D, 1).padded_batch(2, padding_values=0.5),
        "text for a number": lambda D: unequal(D, 1).padded_batch(2, padding_values="a"),
        "a value that is no scalar": lambda D: unequal(D, 1).padded_batch(2, padding_values=[1, 2]),
        "padded batches of none": lambda D: unequal(D, 1).padded_batch(0),
        "an unknown rank": lambda D: of_any_rank(D, (1,)).padded_batch(2),
        "ragged batches of none": lambda D: unequal(D, 1).ragged_batch(0),
        "windows of none": lambda D: D.range(3).window(0),
        "windows of a negative shift": lambda D: D.range(3).window(2, shift=-1),
        "windows of no shift": lambda D: D.range(3).window(2, shift=0),
        "windows of no stride": lambda D: D.range(3).window(2, stride=0),
        "groups of two sizes": lambda D: grouped(D.range(3), 2, size=2, window_size_func=lambda key: 2),
        "groups of no size": lambda D: grouped(D.range(3), 2, size=None),
        "groups by a float": lambda D: D.range(3).group_by_window(lambda x: 0.5, lambda key, w: w, 2),
        "groups that give a number": lambda D: D.range(3).group_by_window(lambda x: x, lambda key, w: key, 2),
        "unbatch of scalars": lambda D: D.range(3).unbatch(),
        "unbatch of a scalar beside a row": lambda D: D.from_tensors((i32(1, 2), 1)).unbatch(),
        "unbatch of static sizes that differ": lambda D: D.from_tensors((i32(1, 2), i32(1))).unbatch(),
        "rebatch of scalars": lambda D: D.range(3).rebatch(2),
        "rebatch to none": lambda D: D.range(3).batch(2).rebatch(0),
        "rebatch to less than none": lambda D: D.range(3).batch(2).rebatch(-1),
        "rebatch to a negative size in turn": lambda D: D.range(3).batch(2).rebatch([1, -1]),
        "rebatch to no sizes": lambda D: D.range(3).batch(2).rebatch([]),
        "rebatch to nothing but zeros": lambda D: D.range(3).batch(2).rebatch([0, 0]),
        "too few bucket sizes": lambda D: bucketed(D, unequal(D, 1), sizes=[2, 2]),
        "too many bucket sizes": lambda D: bucketed(D, unequal(D, 1), sizes=[2, 2, 2, 2]),
        "bucket boundaries that fall": lambda D: bucketed(D, unequal(D, 1), boundaries=[5, 3]),
        "no bucket boundaries": lambda D: bucketed(D, unequal(D, 1), boundaries=[], sizes=[2]),
    }
)
def test_both_refuse_to_build(pipeline):
    assert_both_refuse(pipeline)


@cases(
    {
        "rows": lambda D: unequal(D, 1, 3, 2).ragged_batch(2),
        "whole ones only": lambda D: unequal(D, 1, 3, 2).ragged_batch(2, drop_remainder=True),
        "empty rows": lambda D: unequal(D, 0, 2, 0).ragged_batch(2),
        "pairs": lambda D: pairs(D, 1, 3, 2).ragged_batch(2),
        "scalars stay dense": lambda D: D.range(5).ragged_batch(2),
        "rows of one size stay dense": lambda D: D.range(6).batch(2, True).ragged_batch(2),
        "text": lambda D: words(D, ["a"], ["b", "c"]).ragged_batch(2),
        "nothing": lambda D: D.range(0).ragged_batch(2),
    }
)
def test_ragged_batches(pipeline):
    assert_same(pipeline)


@cases(
    {
        "of three": lambda D: D.range(7).window(3),
        "whole ones only": lambda D: D.range(7).window(3, drop_remainder=True),
        "that overlap": lambda D: D.range(7).window(3, shift=1),
        "that overlap, whole ones only": lambda D: D.range(7).window(3, shift=1, drop_remainder=True),
        "with gaps": lambda D: D.range(10).window(2, shift=4),
        "with gaps, whole ones only": lambda D: D.range(10).window(2, shift=4, drop_remainder=True),
        "with a gap beyond the end": lambda D: D.range(4).window(2, shift=10),
        "of every second": lambda D: D.range(7).window(3, stride=2),
        "of every second, overlapping": lambda D: D.range(9).window(3, shift=1, stride=2),
        "of every second, whole ones only": lambda D: D.range(9).window(3, 1, 2, True),
        "of every third, shifted by two": lambda D: D.range(12).window(2, shift=2, stride=3),
        "larger than the data": lambda D: D.range(3).window(5),
        "larger than the data, whole ones only": lambda D: D.range(3).window(5, drop_remainder=True),
        "of nothing": lambda D: D.range(0).window(2),
        "of infinitely many": lambda D: endless(D).window(2),
        "of who knows how many": lambda D: evens(D).window(2),
        "of tuples": lambda D: tuples(D).window(2),
        "of dicts": lambda D: dicts(D).window(2),
        "of dataclasses": lambda D: D.from_tensor_slices(Pair(i32(1, 2, 3), i32(4, 5, 6))).window(2),
        "of batches": lambda D: D.range(5).batch(2).window(2),
        "of windows": lambda D: D.range(8).window(2).window(2),
        "an error inside": lambda D: broken(D).window(2),
        "errors the stride skips": lambda D: broken(D).window(2, shift=4, stride=2),
    }
)
def test_windows_are_datasets(pipeline):
    expected, got = see(pipeline, tf_data()), see(pipeline, headrace())
    assert got.elements == expected.elements
    assert (got.cardinality, got.length) == (expected.cardinality, expected.length)


@cases(
    {
        "made into batches": lambda D: D.range(7).window(3, shift=1).flat_map(lambda w: w.batch(3)),
        "made into whole batches": lambda D: D.range(7).window(3, 2).flat_map(lambda w: w.batch(3, True)),
        "of tuples, zipped again": lambda D: tuples(D).window(2).flat_map(lambda a, b: D.zip(a, b)),
        "of dicts, zipped again": lambda D: dicts(D).window(2).flat_map(lambda d: D.zip(d["y"], d["x"])),
        "iterated twice": lambda D: D.range(4).window(2).flat_map(lambda w: w.concatenate(w).repeat(2)),
        "of rows, padded": lambda D: unequal(D, 1, 2, 3).window(2).flat_map(lambda w: w.padded_batch(2)),
    }
)
def test_windows_can_be_flattened(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def test_the_spec_of_a_window_says_what_it_holds():
    assert sort(headrace().range(3).window(2).element_spec) == sort(tf_data().range(3).window(2).element_spec)


def grouped(ds, keys, size=2, **how):
    return ds.group_by_window(lambda x: x % keys, lambda key, window: window.batch(10), size, **how)


@cases(
    {
        "by remainder": lambda D: grouped(D.range(12), 3),
        "leftovers by first key": lambda D: grouped(D.range(11, 0, -1), 4, 3),
        "leftovers of a key met again": lambda D: grouped(D.from_tensor_slices(np.array([7, 4, 7, 1, 2, 8])), 9, 2),
        "negative keys": lambda D: D.range(5).group_by_window(lambda x: 2 - x, lambda key, window: window.batch(2), 2),
        "size of one": lambda D: grouped(D.range(4), 2, 1),
        "all in one": lambda D: grouped(D.range(5), 1, 100),
        "sizes by key": lambda D: grouped(D.range(12), 3, None, window_size_func=lambda key: key + 1),
        "one size by function": lambda D: grouped(D.range(5), 2, None, window_size_func=lambda key: np.int64(2)),
        "key and rows": lambda D: D.range(6).group_by_window(
            lambda x: x % 2, lambda key, window: window.map(lambda x: x * 10 + key), 2
        ),
        "several from each": lambda D: D.range(6).group_by_window(
            lambda x: x % 2, lambda key, window: window.batch(2).repeat(2), 3
        ),
        "none from each": lambda D: D.range(6).group_by_window(lambda x: x % 2, lambda key, window: window.take(0), 2),
        "tuples": lambda D: tuples(D).group_by_window(
            lambda x, y: tf_int64(x % 2), lambda key, window: window.batch(2), 2
        ),
        "infinitely many": lambda D: grouped(endless(D), 2),
        "nothing": lambda D: grouped(D.range(0), 2),
        "who knows how many": lambda D: grouped(evens(D), 3),
    }
)
def test_groups(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def tf_int64(x):
    return tf.cast(x, tf.int64) if tf.is_tensor(x) else np.int64(x)


@cases(
    {
        "an error among the elements": lambda D: grouped(broken(D), 2),
        "an error in the key": lambda D: D.range(6).group_by_window(
            lambda x: D.failing(lambda y: y == 2)(x) % 2, lambda key, window: window.batch(2), 2
        ),
        "no window size for one key": lambda D: grouped(D.range(6), 2, None, window_size_func=lambda key: key * 2),
        "a window size of 0": lambda D: grouped(D.range(4), 2, 0),
        "a negative window size": lambda D: grouped(D.range(4), 2, -1),
    }
)
def test_errors_among_groups(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "batches": lambda D: D.range(7).batch(3).unbatch(),
        "whole batches": lambda D: D.range(7).batch(3, drop_remainder=True).unbatch(),
        "matrices": lambda D: D.from_tensors(np.ones((2, 3))).unbatch(),
        "tuples": lambda D: tuples(D).batch(2).unbatch(),
        "dicts": lambda D: dicts(D).batch(2).unbatch(),
        "rows": lambda D: unequal(D, 2, 0, 3).unbatch(),
        "padded rows": lambda D: unequal(D, 2, 3).padded_batch(2).unbatch(),
        "an unknown rank": lambda D: of_any_rank(D, (2,), (2, 2)).unbatch(),
        "text": lambda D: D.from_tensor_slices(["a", "b", "c"]).batch(2).unbatch(),
        "nothing": lambda D: D.range(0).batch(2).unbatch(),
        "infinitely many": lambda D: endless(D).batch(2).unbatch(),
        "infinitely many of no rows": lambda D: D.from_tensors(i32()).repeat(3).unbatch(),
        "who knows how many": lambda D: evens(D).batch(2, drop_remainder=True).unbatch(),
        "errors": lambda D: broken(D).batch(2).unbatch(),
        "components of unequal length": lambda D: pairs(D, 2, 3, 1).map(lambda a, b: (a[:2], b)).unbatch(),
    }
)
def test_unbatch(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "smaller": lambda D: D.range(8).batch(4).rebatch(3),
        "larger": lambda D: D.range(8).batch(2).rebatch(3),
        "whole ones only": lambda D: D.range(8).batch(4).rebatch(3, drop_remainder=True),
        "the same": lambda D: D.range(8).batch(4, drop_remainder=True).rebatch(4),
        "in turn": lambda D: D.range(8).batch(4).rebatch([2, 1]),
        "in turn, whole ones only": lambda D: D.range(10).batch(4).rebatch([2, 1], drop_remainder=True),
        "in turn, the last one short": lambda D: D.range(8).batch(4).rebatch([3, 2]),
        "a list of one": lambda D: D.range(8).batch(4).rebatch([3]),
        "a list of one, whole ones only": lambda D: D.range(8).batch(4).rebatch([3], drop_remainder=True),
        "the same size in turn, whole ones only": lambda D: D.range(8).batch(4).rebatch([2, 2], drop_remainder=True),
        "zero last": lambda D: D.range(5).batch(5).rebatch([2, 0]),
        "zero first": lambda D: D.range(5).batch(5).rebatch([0, 2]),
        "zeros, whole ones only": lambda D: D.range(5).batch(5).rebatch([0, 2, 0], drop_remainder=True),
        "zeros that divide evenly": lambda D: D.range(4).batch(4).rebatch([2, 0]),
        "zeros of nothing": lambda D: D.range(0).batch(4).rebatch([0, 2]),
        "tuples": lambda D: tuples(D).batch(3).rebatch([1, 2]),
        "dicts": lambda D: dicts(D).batch(3).rebatch(2),
        "nothing": lambda D: D.range(0).batch(2).rebatch(3),
        "infinitely many": lambda D: endless(D).batch(2).rebatch(3),
        "infinitely many in turn": lambda D: endless(D).batch(2).rebatch([3, 1]),
        "who knows how many": lambda D: evens(D).batch(2).rebatch([3, 1]),
        "from rows of all sizes": lambda D: unequal(D, 2, 0, 3).rebatch(2),
        "errors": lambda D: broken(D).batch(2).rebatch(1),
    }
)
def test_rebatch(pipeline):
    assert_same(pipeline)


def bucketed(D, ds, boundaries=(3, 5), sizes=(2, 2, 2), **how):
    return ds.bucket_by_sequence_length(lambda *x: D.size(x[0]), list(boundaries), list(sizes), **how)


def of_lengths(D):
    return unequal(D, 1, 4, 2, 7, 3, 0, 5, 2, 1)


@cases(
    {
        "each to its longest": lambda D: bucketed(D, of_lengths(D)),
        "of sizes of their own": lambda D: bucketed(D, of_lengths(D), sizes=(3, 1, 2)),
        "whole ones only": lambda D: bucketed(D, of_lengths(D), drop_remainder=True),
        "to the boundary": lambda D: bucketed(D, unequal(D, 1, 4, 2, 3), pad_to_bucket_boundary=True),
        "to the boundary, and longer ones": lambda D: bucketed(
            D, unequal(D, 1, 5, 2, 4, 7, 3), pad_to_bucket_boundary=True
        ),
        "to the boundary, whole ones only": lambda D: bucketed(
            D, unequal(D, 1, 4, 2), pad_to_bucket_boundary=True, drop_remainder=True
        ),
        "unpadded": lambda D: bucketed(D, unequal(D, 2, 4, 2, 4, 2), no_padding=True),
        "unpadded of two lengths": lambda D: bucketed(D, unequal(D, 1, 4, 2, 4), no_padding=True),
        "with a value": lambda D: bucketed(D, of_lengths(D), padding_values=np.int64(-1)),
        "to a shape": lambda D: bucketed(D, of_lengths(D), padded_shapes=[8]),
        "to a shape that is too small": lambda D: bucketed(D, of_lengths(D), padded_shapes=[4]),
        "to a shape of None": lambda D: bucketed(D, of_lengths(D), padded_shapes=[None]),
        "pairs": lambda D: bucketed(D, pairs(D, 1, 4, 2, 7)),
        "pairs to the boundary": lambda D: bucketed(D, pairs(D, 1, 4, 2), pad_to_bucket_boundary=True),
        "one boundary": lambda D: bucketed(D, of_lengths(D), boundaries=(3,), sizes=(2, 2)),
        "nothing": lambda D: bucketed(D, of_lengths(D).take(0)),
        "infinitely many": lambda D: bucketed(D, of_lengths(D).take(4).repeat()),
        "scalars by value": lambda D: D.range(6).bucket_by_sequence_length(lambda x: i32_of(x), [3], [2, 2]),
        "an error inside": lambda D: bucketed(D, of_lengths(D).map(D.failing(lambda x: D.size(x) == 7))),
    }
)
def test_buckets(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def i32_of(x):
    return tf.cast(x, tf.int32) if tf.is_tensor(x) else np.int32(x)


def test_a_bucket_at_the_last_boundary_cannot_be_padded_to_it(library):
    build(lambda D: bucketed(D, unequal(D, 5), pad_to_bucket_boundary=True), library)
