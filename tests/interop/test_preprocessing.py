"""Keras's preprocessing layers, and ours: the same numbers for any values."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "torch")

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr

pytestmark = pytest.mark.tensorflow
keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")
layers = keras.layers
ours = hr.preprocessing

WORDS = ["", "a", "b", "hello", "Zürich", "東京", "[UNK]", "x" * 70]
TEXT = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), min_size=1, max_size=8)
INTEGERS = st.lists(
    st.one_of(st.sampled_from([-1, 0, 5, 7, 2**62, -(2**62)]), st.integers(-50, 50)), min_size=1, max_size=8
)
DEEP = settings(max_examples=40, deadline=None)


def theirs(layer, values):
    given = tf.constant(values) if isinstance(values, list) else values
    return np.asarray(keras.ops.convert_to_numpy(layer(given)))


def same(layer, other, values):
    got = layer(
        values if not isinstance(values, list) else np.array(values, None if isinstance(values[0], int) else object)
    )
    expected = theirs(other, values)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


@DEEP
@given(
    st.one_of(TEXT, INTEGERS), st.sampled_from([1, 2, 3, 1000]), st.sampled_from([None, 133, (1, 2**60)]), st.booleans()
)
def test_hashing(values, bins, salt, masked):
    mask = None if not masked else "a" if isinstance(values[0], str) else 5
    how = {"num_bins": bins, "mask_value": mask, "salt": list(salt) if isinstance(salt, tuple) else salt}
    same(ours.Hashing(**how), layers.Hashing(**how), values)


@DEEP
@given(TEXT, INTEGERS, st.sampled_from([1, 5, 10**6]))
def test_hashed_crossing(text, numbers, bins):
    n = min(len(text), len(numbers))
    expected = layers.HashedCrossing(bins)((tf.constant(text[:n]), tf.constant(numbers[:n], tf.int64)))
    got = ours.HashedCrossing(bins)((text[:n], np.array(numbers[:n], np.int64)))
    np.testing.assert_array_equal(got, keras.ops.convert_to_numpy(expected))


@DEEP
@given(
    TEXT,
    st.sampled_from([1, 2, 4]),
    st.sampled_from([None, ""]),
    st.sampled_from(["int", "one_hot", "multi_hot", "count"]),
)
def test_string_lookup(values, oov, mask, mode):
    how = {"vocabulary": ["a", "hello", "東京"], "num_oov_indices": oov, "mask_token": mask, "output_mode": mode}
    same(ours.StringLookup(**how), layers.StringLookup(**how), values)


@DEEP
@given(INTEGERS, st.sampled_from([1, 2, 4]), st.sampled_from([None, 0]))
def test_integer_lookup(values, oov, mask):
    how = {"vocabulary": [5, 7, -30], "num_oov_indices": oov, "mask_token": mask}
    same(ours.IntegerLookup(**how), layers.IntegerLookup(**how), np.array(values, np.int64))


@DEEP
@given(st.lists(st.sampled_from(["a", "b", "c", "d", "é", "zz"]), min_size=1, max_size=30), st.sampled_from([None, 4]))
def test_a_vocabulary_that_is_taken_from_data(values, most):
    other = layers.StringLookup(max_tokens=most)
    other.adapt(np.array(values))
    assert ours.StringLookup(max_tokens=most).adapt(values).get_vocabulary() == list(other.get_vocabulary())
    numbers = [len(v) * 7 + ord(v[0]) for v in values]
    other = layers.IntegerLookup(max_tokens=most)
    other.adapt(np.array(numbers))
    got = ours.IntegerLookup(max_tokens=most).adapt(hr.Dataset.from_tensor_slices(numbers).batch(3))
    assert got.get_vocabulary() == [int(v) for v in other.get_vocabulary()]


@DEEP
@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=9), st.sampled_from(["int", "one_hot", "count"]))
def test_discretization(values, mode):
    bounds = [-1.0, 0.0, 0.5, 3.0]
    given = np.array(values, np.float32)
    same(ours.Discretization(bounds, output_mode=mode), layers.Discretization(bounds, output_mode=mode), given)


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
@pytest.mark.parametrize("shape", [(4,), (3, 2), (3, 1)])
def test_category_encoding(mode, shape):
    values = np.random.default_rng(1).integers(0, 6, shape)
    same(ours.CategoryEncoding(6, mode), layers.CategoryEncoding(6, mode), values)


def test_normalization():
    data = np.random.default_rng(0).normal(3, 2, (50, 3)).astype(np.float32)
    other = layers.Normalization(axis=-1)
    other.adapt(data)
    layer = ours.Normalization().adapt(hr.Dataset.from_tensor_slices(data).batch(7))
    np.testing.assert_allclose(layer(data), keras.ops.convert_to_numpy(other(data)), rtol=2e-5, atol=2e-6)
    given = layers.Normalization(axis=None, mean=1.5, variance=4.0, invert=True)
    np.testing.assert_allclose(
        ours.Normalization(None, 1.5, 4.0, invert=True)(data), keras.ops.convert_to_numpy(given(data)), rtol=1e-6
    )


FINITE = st.floats(-1e6, 1e6, width=32)


@DEEP
@given(st.integers(1, 5).flatmap(lambda width: st.lists(st.lists(FINITE, min_size=width, max_size=width), min_size=2)))
def test_normalization_of_any_numbers(rows):
    data = np.array(rows, np.float32)
    mean, variance = data.astype(np.float64).mean(0), data.astype(np.float64).var(0)
    layer = ours.Normalization().adapt(hr.Dataset.from_tensor_slices(data).batch(3))
    np.testing.assert_allclose(layer.mean, mean, rtol=1e-5, atol=1e-5 * np.abs(data).max(initial=1))
    np.testing.assert_allclose(layer.variance, variance, rtol=1e-4, atol=1e-4 * np.square(data).max(initial=1))
    other = layers.Normalization(mean=layer.mean, variance=layer.variance)
    np.testing.assert_allclose(layer(data), theirs(other, data), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", hr.preprocessing.__all__)
def test_every_parameter_of_keras_is_known(name):
    for method in ("__init__", "call", "adapt"):
        theirs = getattr(getattr(layers, name), method, None)
        if theirs is None:
            continue
        own = getattr(getattr(ours, name), {"call": "__call__"}.get(method, method))
        asked = {p for p in inspect.signature(theirs).parameters if p not in ("self", "kwargs", "inputs")}
        assert asked <= set(inspect.signature(own).parameters), method


@DEEP
@given(TEXT, st.sampled_from([2, 5]), st.sampled_from([None, 7, (3, 2**40)]))
def test_string_lookup_with_a_salt(values, oov, salt):
    how = {
        "vocabulary": ["a", "hello"],
        "num_oov_indices": oov,
        "salt": list(salt) if isinstance(salt, tuple) else salt,
    }
    same(ours.StringLookup(**how), layers.StringLookup(**how), values)


@pytest.mark.parametrize("vocabulary", [["a", "[UNK]"], ["[UNK]", "a", "b"], ["[UNK]", "a", "[UNK]"]])
def test_the_token_of_what_is_unknown_may_be_in_the_vocabulary(vocabulary):
    same(ours.StringLookup(vocabulary=vocabulary), layers.StringLookup(vocabulary=vocabulary), ["a", "[UNK]", "b", "c"])


@DEEP
@given(INTEGERS, st.sampled_from([2, 5]), st.sampled_from([None, 7]), st.sampled_from([None, 5]))
def test_integer_lookup_by_hash(values, oov, salt, mask):
    how = {"vocabulary": [7, -30], "num_oov_indices": oov, "salt": salt, "oov_method": "farmhash", "mask_token": mask}
    same(ours.IntegerLookup(**how), layers.IntegerLookup(**how), np.array(values, np.int64))


@pytest.mark.parametrize("mask", [None, ""])
@pytest.mark.parametrize("oov", [1, 3])
def test_ids_back_to_tokens(mask, oov):
    ids = np.array([[0, 1, 2, 3], [4, 5, 60, 1]])
    how = {"vocabulary": ["a", "Zürich"], "mask_token": mask, "num_oov_indices": oov, "invert": True}
    expected = layers.StringLookup(**how)(tf.constant(ids, tf.int64))
    expected = [[each.decode() for each in row] for row in np.asarray(expected).tolist()]
    layer = ours.StringLookup(**how)
    assert layer(ids).tolist() == expected
    assert [row.tolist() for row in hr.Dataset.from_tensor_slices(ids).map(layer)] == expected
    assert [str(token) for token in hr.Dataset.from_tensor_slices(ids[0]).map(layer)] == expected[0]
    assert layer(1) == expected[0][1]
    how = {"vocabulary": [12, 36], "mask_token": None if mask is None else 0, "num_oov_indices": oov, "invert": True}
    np.testing.assert_array_equal(
        ours.IntegerLookup(**how)(ids), np.asarray(layers.IntegerLookup(**how)(tf.constant(ids, tf.int64)))
    )


@DEEP
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", "é"]), min_size=3, max_size=3), min_size=1, max_size=8),
    st.sampled_from([None, 3, 9]),
    st.booleans(),
)
def test_tf_idf(rows, most, pad):
    how = {"output_mode": "tf_idf", "max_tokens": most, "pad_to_max_tokens": pad and most is not None}
    other = layers.StringLookup(**how)
    other.adapt(np.array(rows))
    data = np.array(rows, object)
    for layer in (
        ours.StringLookup(**how).adapt(data),
        ours.StringLookup(**how).adapt(hr.Dataset.from_tensor_slices(data)),
        ours.StringLookup(**how).adapt(hr.Dataset.from_tensor_slices(data).batch(3)),
        ours.StringLookup(**how).adapt(hr.Dataset.from_tensor_slices(data).ragged_batch(3)),
    ):
        assert layer.get_vocabulary() == list(other.get_vocabulary())
        given = [["a", "zz", "a", "é"]]
        np.testing.assert_allclose(layer(np.array(given, object)), theirs(other, given), rtol=1e-6)
    how = {"output_mode": "tf_idf", "vocabulary": ["a", "b"], "idf_weights": [0.5, 2.0], "num_oov_indices": 2}
    given = [["a", "zz", "a", "b"]]
    np.testing.assert_allclose(
        ours.StringLookup(**how)(np.array(given, object)), theirs(layers.StringLookup(**how), given), rtol=1e-6
    )


def test_category_encoding_with_weights():
    values, weights = np.array([[0, 1, 1], [3, 3, 5]]), np.array([[0.5, 2, 3], [4, 5, 6]], np.float32)
    layer = ours.CategoryEncoding(6, "count")
    expected = layers.CategoryEncoding(6, "count")(values, count_weights=weights)
    np.testing.assert_array_equal(layer(values, count_weights=weights), keras.ops.convert_to_numpy(expected))
    ds = hr.Dataset.from_tensor_slices((values, weights)).map(lambda x, w: layer(x, count_weights=w))
    np.testing.assert_array_equal(np.stack(list(ds)), keras.ops.convert_to_numpy(expected))


@pytest.mark.parametrize("axis", [None, -1, 1, 2, (1, 2), (-1, -2)])
def test_normalization_of_any_axis(axis):
    data = np.random.default_rng(0).normal(3, 2, (20, 3, 4)).astype(np.float32)
    other = layers.Normalization(axis=axis)
    other.adapt(data)
    expected = keras.ops.convert_to_numpy(other(data))
    for source in (data, hr.Dataset.from_tensor_slices(data).batch(7)):
        layer = ours.Normalization(axis=axis).adapt(source)
        np.testing.assert_allclose(layer(data), expected, rtol=2e-5, atol=2e-6)
        rows = np.stack(list(hr.Dataset.from_tensor_slices(data).map(layer)))
        np.testing.assert_array_equal(rows, layer(data))


def test_normalization_of_numbers_and_rows():
    data = np.random.default_rng(0).normal(3, 2, 50).astype(np.float32)
    ds = hr.Dataset.from_tensor_slices(data)
    expected = ours.Normalization(None).adapt(data)
    for source in (data, ds, ds.batch(7)):
        layer = ours.Normalization().adapt(source)
        assert (layer.mean, layer.variance) == (expected.mean, expected.variance)
        np.testing.assert_allclose(np.stack(list(ds.map(layer))), layer(data))
    rows = hr.Dataset.from_tensor_slices(data.reshape(10, 5))
    assert ours.Normalization().adapt(rows).mean.shape == (5,)


def test_what_is_given_as_another_dtype():
    for layer in (ours.Hashing(5, dtype="int32"), ours.HashedCrossing(5, dtype="int32")):
        inputs = (["a"], [1]) if layer.inputs == 2 else ["a"]
        assert layer(inputs).dtype == np.int32
    ds = hr.Dataset.from_tensor_slices([1.0]).map(ours.Discretization([0.0], dtype="int32"))
    assert ds.element_spec.dtype == next(iter(ds)).dtype == np.int32
    assert ours.Normalization(mean=0, variance=1, dtype="float16")([1.0]).dtype == np.float16


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ours.Hashing(5, sparse=True), "Hashing: sparse=True .* leave it out"),
        (lambda: ours.HashedCrossing(5, sparse=True), "HashedCrossing: sparse=True"),
        (lambda: ours.StringLookup(sparse=True, output_mode="count"), "StringLookup: sparse=True"),
        (lambda: ours.Discretization([1.0], sparse=True), "Discretization: sparse=True"),
        (lambda: ours.CategoryEncoding(5, sparse=True), "CategoryEncoding: sparse=True"),
        (lambda: ours.Hashing(5, dtype="float32"), "Hashing: dtype must be of integers"),
        (lambda: ours.Hashing(5, salt=(1, 2, 3)), "Hashing: salt must be an integer or two"),
        (lambda: ours.Hashing(5, output_mode="tf_idf"), "Hashing: output_mode must be one of"),
        (lambda: ours.IntegerLookup(vocabulary_dtype="int32"), "vocabulary_dtype must be 'int64'"),
        (lambda: ours.IntegerLookup(oov_method="md5"), "oov_method must be"),
        (lambda: ours.IntegerLookup(salt=1), "salt needs oov_method='farmhash'"),
        (lambda: ours.StringLookup(invert=True, output_mode="count"), "invert gives tokens"),
        (lambda: ours.StringLookup(idf_weights=[1.0]), "idf_weights needs output_mode='tf_idf'"),
        (lambda: ours.StringLookup(vocabulary=["a"], output_mode="tf_idf"), "needs idf_weights, or adapt"),
        (lambda: ours.StringLookup(vocabulary=["a"], idf_weights=[1, 2], output_mode="tf_idf"), "one for each of 1"),
        (lambda: ours.StringLookup(vocabulary=["[UNK]", "b", "[UNK]"], invert=True), "take it out"),
        (lambda: ours.StringLookup(pad_to_max_tokens=True), "pad_to_max_tokens needs max_tokens"),
        (lambda: ours.StringLookup(vocabulary=[]), "the vocabulary is empty"),
        (lambda: ours.StringLookup().adapt(["a"], steps=2), "steps counts the elements of a dataset"),
        (lambda: ours.StringLookup().adapt([""] * 0), "no value in the data"),
        (lambda: ours.Discretization(num_bins=1), "num_bins must be at least 2"),
        (lambda: ours.CategoryEncoding(5)([1], count_weights=[2.0]), "count_weights needs output_mode='count'"),
        (lambda: ours.Normalization(mean=[1.0, 2.0], variance=[1.0]), "variance"),
        (lambda: ours.Normalization(None, [1.0, 2.0], [1.0, 1.0]), "say which they are"),
        (lambda: ours.Normalization(5).adapt(np.ones((2, 2))), "axis 5 is none of the 2"),
        (lambda: ours.Normalization(mean=[1.0, 2.0], variance=[1.0, 1.0])([1.0, 2.0, 3.0]), "2 entries along an axis"),
    ],
)
def test_a_layer_that_cannot_be(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_an_adapt_that_breaks_off_goes_on(tmp_path):
    broken = [True]

    def look(word):
        if word == "w900" and broken:
            broken.clear()
            raise KeyboardInterrupt
        return word

    words = [f"w{i * i % 1000}" for i in range(2_000)]
    words[1_500] = "w900"
    ds = hr.Dataset.from_tensor_slices(words).map(look, mode="eager")
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        ours.StringLookup().adapt(ds, state=path)
    assert path.exists()
    assert ours.StringLookup().adapt(ds, state=path) == ours.StringLookup().adapt(words)
    assert not path.exists()
    assert ours.StringLookup().adapt(ds, steps=3).get_vocabulary() == ["[UNK]", "w4", "w1", "w0"]
    with pytest.raises(TypeError, match="lambda x, label: x"):
        ours.StringLookup().adapt(hr.Dataset.zip((ds, ds)))
