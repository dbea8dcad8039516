"""Elements folded, cut short, told apart, chosen and drawn, and what ends a pipeline."""

from collections import Counter

import numpy as np
import pytest

import headrace as hr

from . import Point, dicts, endless, evens, i32, tuples
from .conftest import ERROR, assert_same, build, cases, elements, headrace, numbers, plain, tf_data
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


@cases(
    {
        "sums": lambda D: D.range(5).scan(ZERO, lambda total, x: (total + x, total + x)),
        "the state is not the output": lambda D: D.range(3).scan(ZERO, lambda n, x: (n + 1, (n, x * 2))),
        "a state of two": lambda D: D.range(6).scan((ZERO, ZERO + 1), lambda s, x: ((s[1], s[0] + s[1]), s[0])),
        "a state in a dict": lambda D: D.range(3).scan({"n": ZERO}, lambda s, x: ({"n": s["n"] + x}, s["n"])),
        "a state that is a row": lambda D: D.range(3).scan(np.zeros(2, np.int64), lambda s, x: (s + x, s[0])),
        "tuples arrive whole": lambda D: tuples(D).scan(np.int32(0), lambda n, pair: (n + pair[0], pair[1])),
        "a dict arrives whole": lambda D: dicts(D).scan(np.int32(0), lambda n, d: (n + d["x"], d["y"])),
        "a dict comes out": lambda D: D.range(3).scan(ZERO, lambda n, x: (n + x, {"sum": n})),
        "infinitely many": lambda D: endless(D).scan(ZERO, lambda n, x: (n + 1, n)),
        "who knows how many": lambda D: evens(D).scan(ZERO, lambda n, x: (n + x, n)),
        "repeated from the start": lambda D: D.range(3).scan(ZERO, lambda n, x: (n + x, n)).repeat(2),
        "an error among the elements": lambda D: broken(D).scan(ZERO, lambda n, x: (n + x, n)),
        "an error in the function": lambda D: D.range(6).scan(
            ZERO, lambda n, x: (n + D.failing(lambda y: y == 2)(x), n)
        ),
        "nothing": lambda D: D.range(0).scan(ZERO, lambda n, x: (n + x, n)),
    }
)
def test_scan(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "another dtype": lambda D: D.range(3).scan(ZERO, lambda n, x: (np.float32(1), x)),
        "another structure": lambda D: D.range(3).scan(ZERO, lambda n, x: ((n, n), x)),
        "other keys": lambda D: D.range(3).scan({"a": ZERO}, lambda s, x: ({"b": x}, x)),
        "another rank": lambda D: D.range(3).scan(ZERO, lambda n, x: ([n, n], x)),
        "no output": lambda D: D.range(3).scan(ZERO, lambda n, x: n),
    }
)
def test_a_scan_whose_state_changes_its_kind_is_refused(pipeline):
    assert_both_refuse(pipeline)


@cases(
    {
        "sum": lambda D: D.range(5).reduce(ZERO, lambda total, x: total + x),
        "of nothing": lambda D: D.range(0).reduce(np.int64(7), lambda total, x: total + x),
        "count of tuples": lambda D: tuples(D).reduce(ZERO, lambda n, _: n + 1),
        "tuples arrive whole": lambda D: tuples(D).reduce(np.int32(0), lambda n, pair: n + pair[0]),
        "a state of two": lambda D: D.range(4).reduce((ZERO, ZERO), lambda s, x: (s[0] + 1, s[1] + x)),
        "a state in a dict": lambda D: D.range(4).reduce({"n": ZERO}, lambda s, x: {"n": s["n"] + x}),
        "a row": lambda D: D.range(4).reduce(np.zeros(2, np.int64), lambda s, x: s + x),
        "another dtype": lambda D: D.range(3).reduce(ZERO, lambda n, x: np.float32(1)),
        "another structure": lambda D: D.range(3).reduce(ZERO, lambda n, x: (n, x)),
        "another rank": lambda D: D.range(3).reduce(ZERO, lambda n, x: [n, x]),
        "a state that grows": lambda D: D.range(3).batch(1).reduce(np.zeros(1, np.int64), lambda s, x: join(s, x)),
        "over an error": lambda D: broken(D).reduce(ZERO, lambda n, x: n + x),
        "a Python number": lambda D: D.range(5).reduce(0, lambda n, x: n + 1),
    }
)
def test_reduce(pipeline):
    assert outcome(pipeline, headrace()) == outcome(pipeline, tf_data())


def join(a, b):
    return tf.concat([a, b], 0) if tf.is_tensor(a) else np.concatenate([a, b])


@cases(
    {
        "some": lambda D: D.range(10).take_while(lambda x: x < 3),
        "once false, for ever": lambda D: D.range(10).take_while(lambda x: x % 4 < 2),
        "none": lambda D: D.range(10).take_while(lambda x: x < 0),
        "all": lambda D: D.range(3).take_while(lambda x: x < 10),
        "tuples": lambda D: tuples(D).take_while(lambda x, y: y < 6),
        "dicts": lambda D: dicts(D).take_while(lambda d: d["x"] < 2),
        "infinitely many": lambda D: D.range(9).repeat().take_while(lambda x: x < 5),
        "infinitely many for ever": lambda D: endless(D).take_while(lambda x: x < 5),
        "again on repeat": lambda D: D.range(10).take_while(lambda x: x < 2).repeat(2),
        "errors": lambda D: broken(D).take_while(lambda x: x < 6),
        "an error in the predicate": lambda D: D.range(6).take_while(lambda x: D.failing(lambda y: y == 2)(x) < 4),
        "nothing": lambda D: D.range(0).take_while(lambda x: x < 5),
    }
)
def test_take_while(pipeline):
    assert_same(pipeline)


@cases(
    {
        "numbers": lambda D: D.from_tensor_slices(i32(1, 37, 2, 37, 2, 1)).unique(),
        "text": lambda D: D.from_tensor_slices(["a", "b", "a", ""]).unique(),
        "infinitely many": lambda D: endless(D).take(9).unique(),
        "again on repeat": lambda D: D.from_tensor_slices(i32(1, 1, 2)).unique().repeat(2),
        "nothing": lambda D: D.range(0).unique(),
        "errors": lambda D: broken(D).map(lambda x: x % 4).unique(),
        "zeros of either sign": lambda D: D.from_tensor_slices(np.array([0.0, -0.0, 1.0])).unique(),
        "NaN": lambda D: D.from_tensor_slices(np.array([np.nan, np.nan, 1.0])).unique(),
        "rows": lambda D: D.from_tensor_slices(np.array([[1, 2], [1, 2], [2, 1]])).unique(),
        "rows of all lengths": lambda D: unequal(D, 1, 2, 1, 0, 0).unique(),
        "tuples": lambda D: tuples(D).repeat(2).unique(),
    }
)
def test_unique(pipeline):
    assert_same(pipeline)


def tens(D, *counts):
    """0, 1, …; 10, 11, …; 20, 21, …: one dataset for each count."""
    return [D.range(10 * i, 10 * i + n) for i, n in enumerate(counts)]


def choose(D, datasets, *choices, **how):
    return D.choose_from_datasets(datasets, D.from_tensor_slices(np.array(choices, np.int64)), **how)


@cases(
    {
        "in turn": lambda D: choose(D, tens(D, 3, 3), 0, 1, 0, 1, 0, 1),
        "as asked": lambda D: choose(D, tens(D, 3, 3, 3), 2, 2, 0, 1),
        "one dataset": lambda D: choose(D, tens(D, 3), 0, 0),
        "stops at the empty": lambda D: choose(D, tens(D, 1, 3), 0, 1, 0, 1, 1),
        "goes on": lambda D: choose(D, tens(D, 1, 3), 0, 1, 0, 1, 1, stop_on_empty_dataset=False),
        "goes on until all are empty": lambda D: choose(D, tens(D, 1, 1), 0, 0, 1, 1, 0, stop_on_empty_dataset=False),
        "an empty one first": lambda D: choose(D, tens(D, 0, 3), 1, 0, 1),
        "out of range": lambda D: choose(D, tens(D, 3, 3), 0, 2, 1),
        "out of range, goes on": lambda D: choose(D, tens(D, 3, 3), 0, 2, 1, stop_on_empty_dataset=False),
        "a negative choice": lambda D: choose(D, tens(D, 3, 3), 0, -1, 1),
        "infinite datasets": lambda D: choose(D, [endless(D), endless(D)], 0, 1, 1),
        "infinite choices": lambda D: D.choose_from_datasets(tens(D, 3, 3), D.range(2).repeat()),
        "all infinite": lambda D: D.choose_from_datasets([endless(D), endless(D)], D.range(2).repeat()),
        "who knows how many": lambda D: choose(D, [evens(D), D.range(9)], 0, 1, 1),
        "tuples": lambda D: choose(D, [tuples(D), tuples(D)], 0, 1, 1),
        "errors": lambda D: choose(D, [broken(D), D.range(9)], 0, 0, 0, 0, 1, 0),
        "errors among choices": lambda D: D.choose_from_datasets(
            tens(D, 3), D.range(3).map(D.failing(lambda x: x == 1)).map(lambda x: x * 0)
        ),
        "sizes that differ": lambda D: choose(D, [D.from_tensors(i32(1, 2)), D.from_tensors(i32(1))], 0, 1),
    }
)
def test_choose(pipeline):
    assert_same(pipeline)


@cases(
    {
        "one has all the weight": lambda D: D.sample_from_datasets(tens(D, 2, 5), weights=[0.0, 1.0]),
        "one has all the weight, stops": lambda D: D.sample_from_datasets(
            tens(D, 2, 5), [0.0, 1.0], stop_on_empty_dataset=True
        ),
        "weights of infinitely many": lambda D: D.sample_from_datasets([endless(D), D.range(5)], [1.0, 0.0]),
        "weights that do not sum to 1": lambda D: D.sample_from_datasets(tens(D, 2, 5), [0.0, 7.0]),
        "weights as integers": lambda D: D.sample_from_datasets(tens(D, 2, 5), [0, 1]),
        "weights as an array": lambda D: D.sample_from_datasets(tens(D, 2, 5), np.array([0.0, 1.0])),
        "weights in turn": lambda D: D.sample_from_datasets(
            tens(D, 5, 5), D.from_tensor_slices([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        ),
        "weights in turn, one empty": lambda D: D.sample_from_datasets(
            tens(D, 1, 5),
            D.from_tensor_slices([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
            stop_on_empty_dataset=True,
        ),
        "one dataset": lambda D: D.sample_from_datasets(tens(D, 3)),
        "empty datasets": lambda D: D.sample_from_datasets(tens(D, 0, 0)),
    }
)
def test_sampling_that_leaves_no_choice(pipeline):
    assert_same(pipeline)


@cases(
    {
        "choose from nothing": lambda D: choose(D, [], 0),
        "choices of floats": lambda D: D.choose_from_datasets(tens(D, 3), D.from_tensor_slices([0.5])),
        "choices of tuples": lambda D: D.choose_from_datasets(tens(D, 3), tuples(D)),
        "choices of rows": lambda D: D.choose_from_datasets(tens(D, 3), D.range(3).batch(2)),
        "choose from other dtypes": lambda D: choose(D, [D.range(3), D.from_tensor_slices([0.5])], 0),
        "choose from other structures": lambda D: choose(D, [D.range(3), D.zip((D.range(3),))], 0),
        "sample from nothing": lambda D: D.sample_from_datasets([]),
        "too few weights": lambda D: D.sample_from_datasets(tens(D, 3, 3), [1.0]),
        "weights all 0": lambda D: D.sample_from_datasets(tens(D, 3, 3), [0.0, 0.0]),
        "a negative weight": lambda D: D.sample_from_datasets(tens(D, 3, 3), [-1.0, 2.0]),
        "sample from other dtypes": lambda D: D.sample_from_datasets([D.range(3), D.from_tensor_slices([0.5])]),
        "apply to no dataset": lambda D: D.range(3).apply(lambda ds: 3),
        "take_while of integers": lambda D: D.range(3).take_while(lambda x: x),
        "take_while of too few arguments": lambda D: tuples(D).take_while(lambda x: x > 1),
        "options of another kind": lambda D: D.range(3).with_options(3),
    }
)
def test_both_refuse_to_build(pipeline):
    assert_both_refuse(pipeline)


@cases(
    {
        "map": lambda D: broken(D).ignore_errors(),
        "nothing but errors": lambda D: D.range(3).map(D.failing(lambda x: x >= 0)).ignore_errors(),
        "none": lambda D: D.range(3).ignore_errors(),
        "infinitely many": lambda D: endless(D).map(D.failing(lambda x: x == 1)).ignore_errors(),
        "before a batch": lambda D: broken(D).ignore_errors().batch(2),
        "after a batch": lambda D: broken(D).batch(2).ignore_errors(),
        "on threads": lambda D: D.range(8).map(D.failing(lambda x: x % 4 == 3), 2).ignore_errors(),
        "below only": lambda D: broken(D).ignore_errors().map(D.failing(lambda x: x == 1)),
        "with a warning": lambda D: broken(D).ignore_errors(log_warning=True),
    }
)
def test_ignore_errors(pipeline):
    assert_same(pipeline, sizes_may_be_open=True)


@cases(
    {
        "counter": lambda D: D.counter(),
        "counter from a start": lambda D: D.counter(start=5, step=3),
        "counter downwards": lambda D: D.counter(2, -1),
        "counter of another dtype": lambda D: D.counter(dtype=np.int32).take(3),
        "apply": lambda D: D.range(5).apply(lambda ds: ds.skip(1).batch(2)),
    }
)
def test_counter_and_apply(pipeline):
    assert_same(pipeline)


@cases(
    {
        "one": lambda D: D.range(3).batch(3).get_single_element(),
        "a tuple": lambda D: tuples(D).take(1).get_single_element(),
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
    assert build(lambda D: D.random(), library).cardinality() == hr.INFINITE_CARDINALITY


def test_random_draws_integers_of_32_bits(library):
    drawn = build(lambda D: D.random(seed=3).take(100), library)
    assert {(got.dtype, got.shape) for got in elements(drawn)} == {("int64", ())}
    assert all(0 <= n < 2**32 for n in numbers(drawn))


def test_random_repeats_itself(library):
    drawn = numbers(build(lambda D: D.random(seed=3).take(5).repeat(2), library))
    assert drawn[:5] == drawn[5:]


def test_sampling_keeps_each_dataset_in_order_and_is_the_same_each_epoch(library):
    ds = build(lambda D: D.sample_from_datasets(tens(D, 6, 4, 8), [0.3, 0.3, 0.4], seed=5), library)
    drawn = numbers(ds)
    assert Counter(drawn) == Counter([*range(6), *range(10, 14), *range(20, 28)])
    assert all([n for n in drawn if n // 10 == i] == sorted(n for n in drawn if n // 10 == i) for i in range(3))
    assert numbers(ds) == drawn


def test_sampling_again_differs_if_asked(library):
    ds = build(lambda D: D.sample_from_datasets(tens(D, 9, 9), seed=5, rerandomize_each_iteration=True), library)
    assert len({tuple(numbers(ds)) for _ in range(5)}) > 1


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
    assert (np.diff(rows) >= 0).all()
