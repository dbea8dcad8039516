"""Layers on single values, arrays, ragged rows and in pipelines, and what they refuse."""

import numpy as np
import pytest

import headrace as hr

P = hr.preprocessing
WORDS = ["a", "b", "x", "", "東京"] * 10


@pytest.mark.parametrize(
    "layer",
    [
        P.Hashing(7),
        P.Hashing(7, mask_value="a", output_mode="one_hot"),
        P.StringLookup(vocabulary=["a", "b"], num_oov_indices=2, mask_token=""),
        P.StringLookup(vocabulary=["a", "b"], output_mode="multi_hot"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_text_before_and_after_batch(layer):
    ds = hr.Dataset.from_tensor_slices({"word": WORDS})
    one_by_one = [layer(word) for word in WORDS]
    mapped = ds.map(lambda row: layer(row["word"]))
    for a, b in zip(one_by_one, mapped, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    assert "vectorised" in str(mapped.explain())
    assert mapped.element_spec.shape == np.shape(one_by_one[0])
    if layer.output_mode != "multi_hot":  # which takes the rows of a batch for the values of one
        batches = ds.batch(8).map(lambda rows: layer(rows["word"]))
        np.testing.assert_array_equal(np.concatenate(list(batches)), np.stack(one_by_one))


@pytest.mark.parametrize(
    "layer",
    [
        P.Discretization([0.0, 1.0]),
        P.Normalization(mean=1.0, variance=4.0),
        P.Discretization([0.5], output_mode="one_hot"),
    ],
    ids=["buckets", "normal", "one hot"],
)
def test_numbers_before_and_after_batch(layer):
    values = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    ds = hr.Dataset.from_tensor_slices(values)
    expected = layer(values)
    np.testing.assert_array_equal(np.stack(list(ds.map(layer))), expected)
    np.testing.assert_array_equal(np.concatenate(list(ds.batch(7).map(layer))), expected)


def test_ragged_rows_stay_ragged_or_become_counts():
    rows = [["a", "b"], [], ["x"]]
    assert P.StringLookup(vocabulary=["a", "b"])(rows) == hr.Ragged([1, 2, 0], [0, 2, 2, 3])
    counted = P.StringLookup(vocabulary=["a", "b"], output_mode="count")(rows)
    np.testing.assert_array_equal(counted, [[0, 1, 1], [0, 0, 0], [1, 0, 0]])


def test_crossing_takes_a_tuple_or_the_components_of_an_element():
    cross = P.HashedCrossing(100)
    ds = hr.Dataset.from_tensor_slices((WORDS, np.arange(50)))
    expected = cross((WORDS, np.arange(50)))
    np.testing.assert_array_equal(np.stack(list(ds.map(cross))), expected)
    np.testing.assert_array_equal(np.concatenate(list(ds.batch(8).map(cross))), expected)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: P.Hashing(0), "num_bins must be at least 1"),
        (lambda: P.Hashing(3, output_mode="hot"), "output_mode must be one of"),
        (lambda: P.Hashing(3, salt=[1, 2, 3]), "an integer or two"),
        (lambda: P.HashedCrossing(3)("a"), "a tuple of at least two inputs, not 1"),
        (lambda: P.HashedCrossing(3)((["a"], ["b", "c"])), "inputs of one shape"),
        (lambda: P.StringLookup(vocabulary=["a", "a"]), "twice: keep one"),
        (lambda: P.StringLookup(vocabulary=["a", ""], mask_token=""), "take it out"),
        (lambda: P.StringLookup(vocabulary=["a", "[UNK]"], invert=True), "take it out"),
        (lambda: P.StringLookup()("a"), "no vocabulary: give one, or take one from data"),
        (lambda: P.StringLookup(vocabulary=["a"], num_oov_indices=0)("b"), "num_oov_indices=1 gives it an id"),
        (lambda: P.StringLookup(vocabulary=["a", "b"], max_tokens=2), "more than max_tokens"),
        (lambda: P.Discretization(), "bin_boundaries, or num_bins"),
        (lambda: P.Discretization([2, 1]), "must rise"),
        (lambda: P.CategoryEncoding(3)([1, 3]), "3 is not in 0 … 2"),
        (lambda: P.CategoryEncoding(0), "num_tokens must be at least 1"),
        (lambda: P.Normalization(1.0, 4.0), "axis must be an integer"),
        (lambda: P.Normalization(mean=1), "both mean and variance"),
        (lambda: P.Normalization()([1.0]), "no mean"),
    ],
)
def test_what_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_values_of_the_wrong_kind_are_refused():
    for call in (lambda: P.StringLookup(vocabulary=["a"])([1]), lambda: P.Discretization([1.0])(["a"]),
                 lambda: P.IntegerLookup(vocabulary=["a"]), lambda: P.HashedCrossing(3)(([0.5], ["a"]))):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_buckets_that_are_taken_from_data_hold_equally_many():
    values = np.random.default_rng(0).normal(size=1000)
    layer = P.Discretization(num_bins=4).adapt(hr.Dataset.from_tensor_slices(values).batch(100))
    assert np.bincount(layer(values)).tolist() == [250, 250, 250, 250]
