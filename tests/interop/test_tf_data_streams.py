"""Elements folded, truncated, distinguished, chosen and drawn, and what ends a pipeline."""

from collections import Counter

import numpy as np
import pytest

import headrace as hr

from . import Point, dicts, endless, i32, tuples
from .conftest import ERROR, assert_same, build, but, cases, differs, headrace, numbers, plain, see, tf_data
from .test_tf_data_errors import assert_both_refuse, broken, unequal

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

ZERO = np.int64(0)


def outcome(fold, library):
    """What a fold returns, or that it cannot be made."""
    try:
        return plain(tf.autograph.experimental.do_not_convert(fold)(library))
    except (TypeError, ValueError, hr.ElementError, tf.errors.OpError):
        return ERROR


def join(a, b):
    return tf.concat([a, b], 0) if tf.is_tensor(a) else np.concatenate([a, b])


def stacked(*values):
    return tf.stack(values) if tf.is_tensor(values[0]) else np.stack(values)


@cases(
    {
        "sums": lambda D: D.range(5).scan(ZERO, lambda total, x: (total + x, total + x)),
        "a state of two": lambda D: D.range(6).scan((ZERO, ZERO + 1), lambda s, x: ((s[1], s[0] + s[1]), s[0])),
        "an error among the elements": lambda D: broken(D).scan(ZERO, lambda n, x: (n + x, n)),
        "nothing": lambda D: D.range(0).scan(ZERO, lambda n, x: (n + x, n)),
        "a state of another structure": lambda D: D.range(3).scan(ZERO, lambda n, x: ((n, n), x)),
        "a state of other keys": but(
            "an error, and not noticed in tf.data", lambda D: D.range(3).scan({"a": ZERO}, lambda s, x: ({"b": x}, x))
        ),
        "a state of another rank": lambda D: D.range(3).scan(ZERO, lambda n, x: (stacked(x, x), x)),
        "a state that grows": lambda D: D.range(3).scan(
            np.zeros(0, np.int64), lambda s, x: (join(s, stacked(x)), join(s, stacked(x)))
        ),
        "a state of another size": lambda D: D.range(3).scan(
            np.zeros((2, 3), np.int64), lambda s, x: (np.zeros((4, 1), np.int64), s)
        ),
    }
)
def test_scan(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "sum": lambda D: D.range(5).reduce(ZERO, lambda total, x: total + x),
        "a state of two": lambda D: D.range(4).reduce((ZERO, ZERO), lambda s, x: (s[0] + 1, s[1] + x)),
        "another dtype": lambda D: D.range(3).reduce(ZERO, lambda n, x: np.float32(1)),
        "another structure": lambda D: D.range(3).reduce(ZERO, lambda n, x: (n, x)),
        "a state that grows": lambda D: D.range(3).batch(1).reduce(np.zeros(1, np.int64), lambda s, x: join(s, x)),
        "a state of another rank": lambda D: D.range(3).reduce(ZERO, lambda n, x: stacked(x, x)),
        "a state that is a number again": lambda D: D.range(3).reduce(np.zeros(2, np.int64), lambda n, x: x),
        "a state of two, one of which grows": lambda D: (
            D.range(3)
            .batch(1)
            .reduce({"n": ZERO, "all": np.zeros(0, np.int64)}, lambda s, x: {"n": s["n"], "all": join(s["all"], x)})
        ),
        "over an error": lambda D: broken(D).reduce(ZERO, lambda n, x: n + x),
        "a Python number": but("int64, and int32 in tf.data", lambda D: D.range(5).reduce(0, lambda n, x: n + 1)),
    }
)
def test_reduce(pipeline):
    assert outcome(pipeline, headrace()) == outcome(pipeline, tf_data())


@cases(
    {
        "take_while: some": lambda D: D.range(10).take_while(lambda x: x < 3),
        "take_while: once false, for ever": lambda D: D.range(10).take_while(lambda x: x % 4 < 2),
        "take_while: errors": lambda D: broken(D).take_while(lambda x: x < 6),
        "take_while: an error in the predicate": lambda D: D.range(6).take_while(
            lambda x: D.failing(lambda y: y == 2)(x) < 4
        ),
        "take_while: nothing": lambda D: D.range(0).take_while(lambda x: x < 5),
        "unique: numbers": lambda D: D.from_tensor_slices(i32(1, 37, 2, 37, 2, 1)).unique(),
        "unique: again and again": lambda D: endless(D).take(9).unique(),
        "unique: nothing": lambda D: D.range(0).unique(),
        "unique: errors": lambda D: broken(D).map(lambda x: x % 4).unique(),
        "unique: rows of all lengths": lambda D: unequal(D, 1, 2, 1, 0, 0).unique(),
        "unique: tuples": but("tf.data compares no floats", lambda D: tuples(D).repeat(2).unique(), raises=TypeError),
        "ignore_errors: map": lambda D: broken(D).ignore_errors(),
        "ignore_errors: nothing but errors": lambda D: D.range(3).map(D.failing(lambda x: x >= 0)).ignore_errors(),
        "ignore_errors: none": lambda D: D.range(3).ignore_errors(),
        "ignore_errors: infinitely many": lambda D: endless(D).ignore_errors(),
        "ignore_errors: before a batch": lambda D: broken(D).ignore_errors().batch(2),
        "counter": lambda D: D.counter(),
        "counter from a start": lambda D: D.counter(start=5, step=3),
        "apply": lambda D: D.range(5).apply(lambda ds: ds.skip(1).batch(2)),
    }
)
def test_what_is_left(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


def tens(D, *counts):
    """0, 1, …; 10, 11, …; 20, 21, …: one dataset for each count."""
    return [D.range(10 * i, 10 * i + n) for i, n in enumerate(counts)]


def choose(D, datasets, *choices, **how):
    return D.choose_from_datasets(datasets, D.from_tensor_slices(np.array(choices, np.int64)), **how)


@cases(
    {
        "in turn": lambda D: choose(D, tens(D, 3, 3), 0, 1, 0, 1, 0, 1),
        "as asked": lambda D: choose(D, tens(D, 3, 3, 3), 2, 2, 0, 1),
        "stops at the empty": lambda D: choose(D, tens(D, 1, 3), 0, 1, 0, 1, 1),
        "goes on": lambda D: choose(D, tens(D, 1, 3), 0, 1, 0, 1, 1, stop_on_empty_dataset=False),
        "out of range": lambda D: choose(D, tens(D, 3, 3), 0, 2, 1),
        "out of range, goes on": lambda D: choose(D, tens(D, 3, 3), 0, 2, 1, stop_on_empty_dataset=False),
        "a negative choice": lambda D: choose(D, tens(D, 3, 3), 0, -1, 1),
        "infinite datasets": but(
            "UNKNOWN, and INFINITE in tf.data", lambda D: choose(D, [endless(D), endless(D)], 0, 1, 1)
        ),
        "tuples": lambda D: choose(D, [tuples(D), tuples(D)], 0, 1, 1),
        "errors": lambda D: choose(D, [broken(D), D.range(9)], 0, 0, 0, 0, 1, 0),
    }
)
def test_choose(pipeline):
    assert_same(pipeline)


@cases(
    {
        "one has all the weight": lambda D: D.sample_from_datasets(tens(D, 2, 5), weights=[0.0, 1.0]),
        "weights of infinitely many": lambda D: D.sample_from_datasets([endless(D), D.range(5)], [1.0, 0.0]),
        "weights as integers": but(
            "taken, and refused in tf.data", lambda D: D.sample_from_datasets(tens(D, 2, 5), [0, 1]), raises=TypeError
        ),
        "none has any weight": lambda D: D.sample_from_datasets(tens(D, 2, 5), weights=[0.0, 0.0]),
        "the only one has no weight": lambda D: D.sample_from_datasets(tens(D, 5), weights=[0.0]),
        "weights in turn": lambda D: D.sample_from_datasets(
            tens(D, 5, 5), D.from_tensor_slices([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        ),
    }
)
def test_sampling_that_leaves_no_choice(pipeline):
    assert_same(pipeline)


@cases(
    {
        "choose from nothing": lambda D: choose(D, [], 0),
        "choices of floats": lambda D: D.choose_from_datasets(tens(D, 3), D.from_tensor_slices([0.5])),
        "choices of rows": lambda D: D.choose_from_datasets(tens(D, 3), D.range(3).batch(2)),
        "too few weights": lambda D: D.sample_from_datasets(tens(D, 3, 3), [1.0]),
        "apply to no dataset": lambda D: D.range(3).apply(lambda ds: 3),
        "take_while of too few arguments": lambda D: tuples(D).take_while(lambda x: x > 1),
    }
)
def test_both_refuse_to_build(pipeline):
    assert_both_refuse(pipeline)


@differs("only one of them does", raises=pytest.fail.Exception)
@cases(
    {
        "another dtype": lambda D: D.range(3).scan(ZERO, lambda n, x: (np.float32(1), x)),
        "no output": lambda D: D.range(3).scan(ZERO, lambda n, x: n),
        "take_while of integers": lambda D: D.range(3).take_while(lambda x: x),
        "a negative weight": lambda D: D.sample_from_datasets(tens(D, 3, 3), [-1.0, 2.0]),
    }
)
def test_both_refuse_at_once(pipeline):
    assert_both_refuse(pipeline)


@cases(
    {
        "one": lambda D: D.range(3).batch(3).get_single_element(),
        "none": lambda D: D.range(0).get_single_element(),
        "two": lambda D: D.range(2).get_single_element(),
        "an error": lambda D: D.range(1).map(D.failing(lambda x: x == 0)).get_single_element(),
    }
)
def test_get_single_element(pipeline):
    assert outcome(pipeline, headrace()) == outcome(pipeline, tf_data())


def test_as_numpy_iterator_gives_arrays_that_cannot_be_written(library):
    it = build(lambda D: dicts(D).map(lambda d: Point(d["x"], d["y"])).batch(2), library).as_numpy_iterator()
    first = next(it)
    assert isinstance(first, Point)
    assert type(first.a) is np.ndarray
    assert not first.a.flags.writeable
    assert [len(point.b) for point in it] == [1]


def test_options_merge_and_cannot_be_changed(library):
    def options(deterministic):
        if library is headrace():
            return hr.Options(deterministic=deterministic)
        made = tf.data.Options()
        made.deterministic = deterministic
        return made

    ds = library.range(3).with_options(options(False))
    assert ds.batch(2).options().deterministic is False
    assert ds.with_options(options(True)).options().deterministic is True
    assert library.zip(library.range(3), ds).options().deterministic is False
    with pytest.raises((AttributeError, ValueError)):
        ds.options().deterministic = True


def test_random_is_the_same_each_epoch_unless_asked(library):
    same = build(lambda D: D.random(seed=3).take(5), library)
    other = build(lambda D: D.random(seed=3, rerandomize_each_iteration=True).take(5), library)
    assert numbers(same) == numbers(same)
    assert numbers(other) != numbers(other)
    assert all(0 <= n < 2**32 for n in numbers(same))
    assert build(lambda D: D.random(), library).cardinality() == hr.INFINITE_CARDINALITY


def test_sampling_keeps_each_dataset_in_order_and_is_the_same_each_epoch(library):
    ds = build(lambda D: D.sample_from_datasets(tens(D, 6, 4, 8), [0.3, 0.3, 0.4], seed=5), library)
    drawn = numbers(ds)
    assert Counter(drawn) == Counter([*range(6), *range(10, 14), *range(20, 28)])
    assert all([n for n in drawn if n // 10 == i] == sorted(n for n in drawn if n // 10 == i) for i in range(3))
    assert numbers(ds) == drawn


def test_sampling_stops_at_the_first_empty_dataset_if_asked(library):
    ds = build(lambda D: D.sample_from_datasets([D.range(3), endless(D)], seed=5, stop_on_empty_dataset=True), library)
    assert len(numbers(ds)) < 100


def test_sampling_follows_the_weights(library):
    def pipeline(D):
        both = [D.from_tensors(ZERO).repeat(), D.from_tensors(ZERO + 1).repeat()]
        return D.sample_from_datasets(both, [0.25, 0.75], seed=5).take(2000).batch(2000)

    assert 0.7 < np.mean(numbers(build(pipeline, library))[0]) < 0.8


def test_resampling_reaches_the_target(library):
    def pipeline(D):
        cast = (lambda x: tf.cast(x, tf.int32)) if D is tf_data() else np.int32
        return D.range(3000).rejection_resample(lambda x: cast(x % 10 == 0), [0.5, 0.5], [0.9, 0.1], seed=5).batch(3000)

    classes, rows = next(build(pipeline, library).as_numpy_iterator())
    assert 0.4 < np.mean(classes) < 0.6
    assert (classes == (rows % 10 == 0)).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_classes_of_rejection_resample_keep_their_dtype(dtype):
    def resampled(D):
        classes = D.from_tensor_slices(np.arange(20, dtype=dtype) % 2)
        return classes.rejection_resample(lambda x: x, [0.5, 0.5], [0.5, 0.5])

    expected, got = see(resampled, tf_data()), see(resampled, headrace())
    assert (got.elements, got.spec) == (expected.elements, expected.spec)
