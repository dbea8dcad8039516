"""Keras's preprocessing layers, and ours: the same numbers for any values."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "torch")

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
    layer = ours.Normalization().adapt(hr.Dataset.from_tensor_slices(data).batch(7), axis=-1)
    np.testing.assert_allclose(layer(data), keras.ops.convert_to_numpy(other(data)), rtol=2e-5, atol=2e-6)
    given = layers.Normalization(axis=None, mean=1.5, variance=4.0, invert=True)
    np.testing.assert_allclose(
        ours.Normalization(1.5, 4.0, invert=True)(data), keras.ops.convert_to_numpy(given(data)), rtol=1e-6
    )
