"""Elements put together and taken apart: padded and ragged batches, windows, groups, buckets, unbatch, rebatch."""

import numpy as np
import pytest

from . import dicts, endless, i32, tuples
from .conftest import assert_same, but, cases, differs, headrace, see, sort, tf_data
from .test_tf_data_errors import assert_both_refuse, broken, unequal

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def pairs(D, *sizes):
    """A row of int64 and its half in float32."""
    rows = [(np.arange(1, n + 1), np.arange(1, n + 1, dtype=np.float32) / 2) for n in sizes]
    signature = (D.TensorSpec((None,), np.int64), D.TensorSpec((None,), np.float32))
    return D.from_generator(lambda: iter(rows), output_signature=signature)


def words(D, *rows):
    return D.from_generator(lambda: iter(rows), output_signature=D.TensorSpec((None,), np.str_))


def matrices(D, *shapes):
    made = [np.ones(shape, np.int32) for shape in shapes]
    return D.from_generator(lambda: iter(made), output_signature=D.TensorSpec((None, None), np.int32))


@cases(
    {
        "to the longest": lambda D: unequal(D, 1, 3, 2, 5).padded_batch(2),
        "of scalars": lambda D: D.range(5).padded_batch(2),
        "to a size": lambda D: unequal(D, 1, 3, 2).padded_batch(2, [4]),
        "to None and -1": lambda D: pairs(D, 1, 3).padded_batch(2, ([None], [-1])),
        "whole ones only": lambda D: unequal(D, 1, 3, 2).padded_batch(2, drop_remainder=True),
        "larger than a static shape": lambda D: D.range(6).batch(2, True).padded_batch(2, [4]),
        "matrices to a size on one axis": lambda D: matrices(D, (1, 3), (2, 2)).padded_batch(2, [None, 5]),
        "pairs to sizes of their own": lambda D: pairs(D, 1, 3).padded_batch(2, ([4], [None])),
        "with a value": lambda D: unequal(D, 1, 3).padded_batch(2, padding_values=np.int64(-1)),
        "with a value each": lambda D: pairs(D, 1, 3).padded_batch(2, padding_values=(np.int64(-1), np.float32(0.5))),
        "with None as one value": lambda D: pairs(D, 1, 3).padded_batch(2, padding_values=(None, np.float32(0.5))),
        "with a Python number": but(
            "a Python number fits any integer dtype",
            lambda D: unequal(D, 1, 3).padded_batch(2, padding_values=-1),
            raises=TypeError,
        ),
        "text with a value": lambda D: words(D, ["a"], ["b", "c"]).padded_batch(2, padding_values="?"),
    }
)
def test_padded_batches(pipeline):
    assert_same(pipeline)


@cases(
    {
        "the second batch": lambda D: unequal(D, 1, 2, 4, 1, 3).padded_batch(2, [3]),
        "one component": lambda D: pairs(D, 1, 3, 2).padded_batch(1, ([None], [2])),
        "an error inside": lambda D: broken(D).padded_batch(4),
    }
)
def test_a_padded_batch_that_cannot_be_made_is_one_error(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "a shape below a static one": lambda D: D.range(6).batch(3, True).padded_batch(2, [2]),
        "a shape of another rank": lambda D: unequal(D, 1, 2).padded_batch(2, [None, None]),
        "values of another structure": lambda D: unequal(D, 1).padded_batch(2, padding_values=(1, 2)),
        "a value of another kind": lambda D: unequal(D, 1).padded_batch(2, padding_values=0.5),
        "text for a number": lambda D: unequal(D, 1).padded_batch(2, padding_values="a"),
        "a value that is no scalar": lambda D: unequal(D, 1).padded_batch(2, padding_values=[1, 2]),
        "windows of none": lambda D: D.range(3).window(0),
        "groups of two sizes": lambda D: grouped(D.range(3), 2, size=2, window_size_func=lambda key: 2),
        "unbatch of scalars": lambda D: D.range(3).unbatch(),
        "unbatch of static sizes that differ": lambda D: D.from_tensors((i32(1, 2), i32(1))).unbatch(),
        "too few bucket sizes": lambda D: bucketed(D, unequal(D, 1), sizes=[2, 2]),
    }
)
def test_both_refuse_to_build(pipeline):
    assert_both_refuse(pipeline)


@differs("only one of them does", raises=pytest.fail.Exception)
@cases(
    {
        "groups by a float": lambda D: D.range(3).group_by_window(lambda x: 0.5, lambda key, w: w, 2),
        "groups that give a number": lambda D: D.range(3).group_by_window(lambda x: x, lambda key, w: key, 2),
        "rebatch to none": lambda D: D.range(3).batch(2).rebatch(0),
        "rebatch to nothing but zeros": lambda D: D.range(3).batch(2).rebatch([0, 0]),
        "bucket boundaries that fall": lambda D: bucketed(D, unequal(D, 1), boundaries=[5, 3]),
    }
)
def test_both_refuse_at_once(pipeline):
    assert_both_refuse(pipeline)


@cases(
    {
        "rows": lambda D: unequal(D, 1, 3, 2).ragged_batch(2),
        "whole ones only": lambda D: unequal(D, 1, 3, 2).ragged_batch(2, drop_remainder=True),
        "rows of one size stay dense": lambda D: D.range(6).batch(2, True).ragged_batch(2),
    }
)
def test_ragged_batches(pipeline):
    assert_same(pipeline)


@cases(
    {
        "of three": lambda D: D.range(7).window(3),
        "whole ones only": lambda D: D.range(7).window(3, drop_remainder=True),
        "that overlap": lambda D: D.range(7).window(3, shift=1),
        "with gaps": lambda D: D.range(10).window(2, shift=4),
        "of every second": lambda D: D.range(7).window(3, stride=2),
        "of nothing": lambda D: D.range(0).window(2),
        "of infinitely many": lambda D: endless(D).window(2),
        "of tuples": lambda D: tuples(D).window(2),
        "of dicts": lambda D: dicts(D).window(2),
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
        "of tuples, zipped again": lambda D: tuples(D).window(2).flat_map(lambda a, b: D.zip(a, b)),
        "iterated twice": lambda D: D.range(4).window(2).flat_map(lambda w: w.concatenate(w).repeat(2)),
    }
)
def test_windows_can_be_flattened(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "numbers": lambda D: D.range(3).window(2),
        "tuples": lambda D: tuples(D).window(2),
        "dicts": lambda D: dicts(D).window(2, shift=1),
        "batches": lambda D: D.range(6).batch(2, drop_remainder=True).window(2),
        "windows": lambda D: D.range(6).window(2).window(2),
        "shuffled": lambda D: D.range(6).window(2).shuffle(2),
        "enumerated": lambda D: D.range(6).window(2).enumerate(),
        "batched": lambda D: D.range(6).window(2).batch(2, drop_remainder=True),
        "a dataset as an element": lambda D: D.from_tensors(D.range(3)),
    }
)
def test_the_spec_of_a_window_says_what_it_holds(pipeline):
    assert sort(pipeline(headrace()).element_spec) == sort(pipeline(tf_data()).element_spec)


@cases(
    {
        "numbers": lambda D: next(iter(D.range(5).window(2))),
        "dicts": lambda D: next(iter(dicts(D).window(2)))["y"],
        "results": lambda D: next(iter(D.range(5).map(abs).window(2))),
    }
)
def test_a_window_knows_its_own_spec(pipeline):
    assert sort(pipeline(headrace()).element_spec) == sort(pipeline(tf_data()).element_spec)


@cases(
    {
        "padded": lambda D: D.range(3).window(2).padded_batch(2),
        "taken apart": lambda D: D.range(3).window(2).unbatch(),
        "once each": lambda D: D.range(3).window(2).unique(),
        "as arrays": lambda D: D.range(3).window(2).as_numpy_iterator(),
        "followed by numbers": lambda D: D.range(3).window(2).concatenate(D.range(3)),
        "followed by windows of another dtype": lambda D: (
            D.range(3).window(2).concatenate(D.range(3, output_type=np.int32).window(2))
        ),
    }
)
def test_what_cannot_be_done_with_windows(pipeline):
    assert_both_refuse(pipeline)


def grouped(ds, keys, size=2, **how):
    return ds.group_by_window(lambda x: x % keys, lambda key, window: window.batch(10), size, **how)


@cases(
    {
        "by remainder": lambda D: grouped(D.range(12), 3),
        "leftovers": lambda D: grouped(D.from_tensor_slices(np.array([7, 4, 7, 1, 2, 8, 0])), 9, 2),
        "sizes by key": lambda D: grouped(D.range(12), 3, None, window_size_func=lambda key: key + 1),
        "key and rows": lambda D: D.range(6).group_by_window(
            lambda x: x % 2, lambda key, window: window.map(lambda x: x * 10 + key), 2
        ),
        "infinitely many": lambda D: grouped(endless(D), 2),
        "nothing": lambda D: grouped(D.range(0), 2),
    }
)
def test_groups(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "an error among the elements": lambda D: grouped(broken(D), 2),
        "no window size for one key": lambda D: grouped(D.range(6), 2, None, window_size_func=lambda key: key * 2),
        "a window size of 0": but("refused when it is built", lambda D: grouped(D.range(4), 2, 0), raises=ValueError),
    }
)
def test_errors_among_groups(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "whole batches": lambda D: D.range(7).batch(3, drop_remainder=True).unbatch(),
        "tuples": lambda D: tuples(D).batch(2).unbatch(),
        "dicts": lambda D: dicts(D).batch(2).unbatch(),
        "rows": lambda D: unequal(D, 2, 0, 3).unbatch(),
        "nothing": lambda D: D.range(0).batch(2).unbatch(),
        "infinitely many": lambda D: endless(D).batch(2).unbatch(),
        "errors": lambda D: broken(D).batch(2).unbatch(),
        "components of unequal length": lambda D: pairs(D, 2, 3, 1).map(lambda a, b: (a[:2], b)).unbatch(),
    }
)
def test_unbatch(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "larger": lambda D: D.range(8).batch(2).rebatch(3),
        "whole ones only": lambda D: D.range(8).batch(4).rebatch(3, drop_remainder=True),
        "the same": but(
            "counted, and UNKNOWN in tf.data",
            lambda D: D.range(8).batch(4, drop_remainder=True).rebatch(4),
        ),
        "in turn": lambda D: D.range(8).batch(4).rebatch([2, 1]),
        "in turn, whole ones only": lambda D: D.range(10).batch(4).rebatch([2, 1], drop_remainder=True),
        "in turn, the last one short": lambda D: D.range(8).batch(4).rebatch([3, 2]),
        "zero last": lambda D: D.range(5).batch(5).rebatch([2, 0]),
        "zero first": lambda D: D.range(5).batch(5).rebatch([0, 2]),
        "zeros that divide evenly": lambda D: D.range(4).batch(4).rebatch([2, 0]),
        "zeros after a short one": lambda D: D.range(5).batch(4).rebatch([2, 0, 0]),
        "zeros after whole ones only": lambda D: D.range(5).batch(4).rebatch([2, 0, 0], drop_remainder=True),
        "zeros of nothing": lambda D: D.range(0).batch(4).rebatch([0, 2]),
        "zeros that nothing reaches": lambda D: D.range(0).batch(4).rebatch([2, 0]),
        "zeros among rows": lambda D: matrices(D, (1, 2), (1, 3)).rebatch([0, 1]),
        "zeros among tuples": lambda D: tuples(D).batch(3).rebatch([1, 0]),
        "zeros among words": lambda D: words(D, ["a", "b"], ["c"]).rebatch([0, 2]),
        "tuples": lambda D: tuples(D).batch(3).rebatch([1, 2]),
        "dicts": lambda D: dicts(D).batch(3).rebatch(2),
        "nothing": lambda D: D.range(0).batch(2).rebatch(3),
        "infinitely many": but("INFINITE, and UNKNOWN in tf.data", lambda D: endless(D).batch(2).rebatch(3)),
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
        "whole ones only": lambda D: bucketed(D, of_lengths(D), drop_remainder=True),
        "to the boundary": lambda D: bucketed(D, unequal(D, 1, 4, 2, 3), pad_to_bucket_boundary=True),
        "to the boundary, and longer ones": but(
            "the error comes with its element, and once",
            lambda D: bucketed(D, unequal(D, 1, 5, 2, 4, 7, 3), pad_to_bucket_boundary=True),
        ),
        "to the boundary, whole ones only": lambda D: bucketed(
            D, unequal(D, 1, 4, 2), pad_to_bucket_boundary=True, drop_remainder=True
        ),
        "unpadded": lambda D: bucketed(D, unequal(D, 2, 4, 2, 4, 2), no_padding=True),
        "with a value": lambda D: bucketed(D, of_lengths(D), padding_values=np.int64(-1)),
        "to a shape that is too small": lambda D: bucketed(D, of_lengths(D), padded_shapes=[4]),
        "pairs": lambda D: bucketed(D, pairs(D, 1, 4, 2, 7)),
        "nothing": lambda D: bucketed(D, D.range(0).batch(2)),
        "infinitely many": lambda D: bucketed(D, endless(D).batch(2, drop_remainder=True)),
        "an error inside": lambda D: bucketed(D, of_lengths(D).map(D.failing(lambda x: D.size(x) == 7))),
    }
)
def test_buckets(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)
