"""hr.text's vocabulary and vectorization against tf.lookup and Keras."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
pytestmark = pytest.mark.tensorflow


def lines(count=400):
    chance = random.Random(3)
    words = ["The", "mill", "stands", "where", "the", "stream's", "swift", "Ärger", "wheel,", "(stone)", "!", "über"]
    return [" ".join(chance.choices(words, k=chance.randint(0, 9))) for _ in range(count)]


LINES = lines()


def test_ids_are_those_of_a_static_vocabulary_table():
    tokens = ["the", "mill", "wheel"]
    for buckets in (1, 5):
        values = tf.range(len(tokens), dtype=tf.int64)
        table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(tokens, values), buckets)
        expected = table.lookup(tf.strings.split(tf.strings.lower(LINES)).flat_values).numpy()
        words = hr.text.Vocabulary(tokens, num_oov_buckets=buckets)
        found = words(hr.text.split(hr.text.lower(np.array(LINES, object))))
        assert found.values.tolist() == expected.tolist()
        assert len(words) == table.size().numpy()


def as_numpy(value):
    if hasattr(value, "to_list"):
        return value.to_list()
    return np.asarray(value).tolist()


OPTIONS = [
    {},
    {"max_tokens": 7},
    {"standardize": None},
    {"standardize": "lower"},
    {"standardize": "strip_punctuation", "output_sequence_length": 4},
    {"split": "character"},
    {"ngrams": 2},
    {"ngrams": (2, 3), "max_tokens": 30},
    {"output_mode": "multi_hot"},
    {"output_mode": "multi_hot", "max_tokens": 40, "pad_to_max_tokens": True},
    {"output_mode": "count", "ngrams": 2, "max_tokens": 20},
    {"output_mode": "tf_idf"},
    {"output_mode": "tf_idf", "max_tokens": 6},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_layer_learns_and_gives_what_that_of_keras_does(options):
    theirs = keras.layers.TextVectorization(**options)
    theirs.adapt(tf.data.Dataset.from_tensor_slices(LINES).batch(32))
    ours = hr.text.TextVectorization(**options).adapt(hr.Dataset.from_tensor_slices(LINES), progress=False)
    assert ours.get_vocabulary() == theirs.get_vocabulary()
    assert ours.vocabulary_size() == theirs.vocabulary_size()
    some = [*LINES[:60], "", "new words the mill"]
    expected = as_numpy(theirs(tf.constant(some)))
    found = ours(np.array(some, object))
    if options.get("output_mode") == "tf_idf":
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        assert as_numpy(found) == expected
    in_map = next(iter(hr.Dataset.from_tensor_slices(some).batch(len(some)).map(ours)))
    assert as_numpy(in_map) == as_numpy(found)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=12)), min_size=1, max_size=6),
    st.lists(st.text(max_size=12), min_size=1, max_size=6),
    st.sampled_from(OPTIONS),
)
def test_any_text_gives_what_keras_gives(learned, others, options):
    learned = [*learned, "mill"]  # of no words at all ours refuses to learn
    theirs = keras.layers.TextVectorization(**options)
    theirs.adapt(tf.constant(learned))
    ours = hr.text.TextVectorization(**options).adapt(hr.Dataset.from_tensor_slices(learned), progress=False)
    assert ours.get_vocabulary() == theirs.get_vocabulary()
    some = learned + others
    expected, found = as_numpy(theirs(tf.constant(some))), ours(np.array(some, object))
    if options.get("output_mode") == "tf_idf":
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        assert as_numpy(found) == expected


def test_a_vocabulary_can_be_given_with_its_weights():
    options = {"output_mode": "tf_idf", "vocabulary": ["mill", "the"], "idf_weights": [0.5, 0.25]}
    theirs = keras.layers.TextVectorization(**options)
    ours = hr.text.TextVectorization(**options)
    np.testing.assert_allclose(ours(np.array(LINES[:20], object)), theirs(tf.constant(LINES[:20])), rtol=1e-6)
