"""What is wrong is said with the column and what to do."""

import numpy as np
import pytest

import headrace as hr

fc = hr.feature_column
X = fc.numeric_column("x")
T = fc.categorical_column_with_hash_bucket("t", 10)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: fc.numeric_column(""), ValueError, "key must be the name of a feature"),
        (lambda: fc.numeric_column("x", (0,)), ValueError, "column 'x': shape must have positive sizes"),
        (lambda: fc.numeric_column("x", dtype=str), ValueError, "column 'x': dtype must be of numbers"),
        (lambda: fc.numeric_column("x", (2,), [1.0]), ValueError, "column 'x': default_value must be a number or of"),
        (lambda: fc.bucketized_column(X, [3, 1]), ValueError, "column 'x_bucketized': boundaries must rise"),
        (lambda: fc.bucketized_column(X, [1, 1]), ValueError, "sort them, each once"),
        (lambda: fc.bucketized_column(X, []), ValueError, "at least one number"),
        (lambda: fc.bucketized_column(X, [float("nan")]), ValueError, "NaN is no boundary"),
        (lambda: fc.bucketized_column(T, [1]), ValueError, "must be a numeric_column"),
        (lambda: fc.categorical_column_with_hash_bucket("t", 0), ValueError, "'t': hash_bucket_size must be at"),
        (lambda: fc.categorical_column_with_hash_bucket("t", 2.5), TypeError, "hash_bucket_size must be an integer"),
        (lambda: fc.categorical_column_with_hash_bucket("t", 5, np.float32), ValueError, "of text or of integers"),
        (lambda: fc.categorical_column_with_identity("i", 3, 3), ValueError, "default_value must be less than num_buc"),
        (lambda: fc.categorical_column_with_vocabulary_list("v", []), ValueError, "'v': the vocabulary is empty"),
        (lambda: fc.categorical_column_with_vocabulary_list("v", ["a", "b", "a"]), ValueError,
         "column 'v': b'a' is in the vocabulary twice, as entry 0 and 2: keep one"),
        (lambda: fc.categorical_column_with_vocabulary_list("v", ["a", 1]), ValueError, "mixes text and numbers"),
        (lambda: fc.categorical_column_with_vocabulary_list("v", ["a"], default_value=0, num_oov_buckets=1), ValueError,
         "default_value or num_oov_buckets, not both"),
        (lambda: fc.crossed_column(["a"], 10), ValueError, "at least two keys"),
        (lambda: fc.crossed_column("ab", 10), ValueError, "at least two keys"),
        (lambda: fc.crossed_column(["a", "b"], 0), ValueError, "column 'a_X_b': hash_bucket_size must be at least 1"),
        (lambda: fc.crossed_column(["a", T], 10), ValueError, "say 't' instead of the hashed column"),
        (lambda: fc.embedding_column(T, 0), ValueError, "column 't_embedding': dimension must be at least 1"),
        (lambda: fc.embedding_column(T, 50**0.25), TypeError, "dimension must be an integer, not 2.65.* round"),
        (lambda: fc.embedding_column(T, 2, "max"), ValueError, "combiner must be 'mean', 'sqrtn' or 'sum'"),
        (lambda: fc.embedding_column(X, 2), ValueError, "takes a categorical column"),
        (lambda: fc.embedding_column(T, 2, ckpt_to_load_from="x"), ValueError, "layer.load_tables"),
        (lambda: fc.shared_embeddings([T, fc.categorical_column_with_hash_bucket("u", 9)], 2), ValueError,
         "equally many ids, not {'t': 10, 'u': 9}"),
        (lambda: fc.DenseFeatures([]), ValueError, "at least one column"),
        (lambda: fc.DenseFeatures([T]), ValueError, "'t' makes ids: wrap it in an indicator_column or emb"),
        (lambda: fc.DenseFeatures([X, X]), ValueError, "two columns have the name 'x'"),
        (lambda: fc.make_parse_example_spec([fc.indicator_column(T), fc.numeric_column("t")]), ValueError,
         "feature 't' is needed in two ways"),
        (lambda: fc.DenseFeatures(fc.embedding_column(T, 2)).load_tables({"u": [[1]]}), KeyError, "'t_embedding'"),
        (lambda: fc.DenseFeatures(fc.embedding_column(T, 2)).load_tables({"t_embedding": [[1]]}), ValueError,
         r"has the shape \(10, 2\), not \(1, 1\)"),
    ],
)  # fmt: skip
def test_a_column_that_cannot_be(make, error, said):
    with pytest.raises(error, match=said):
        make()


@pytest.mark.parametrize(
    ("columns", "features", "error", "said"),
    [
        ([X], {"y": [1.0]}, KeyError, "column 'x' needs the feature 'x': there are 'y'"),
        ([X], {"x": ["a"]}, TypeError, "column 'x' is of numbers, its feature 'x' is text"),
        ([X], {"x": [[1.0, 2.0]]}, ValueError, r"rows of shape \(1,\) are asked"),
        ([X], [1.0], TypeError, "a dict or a data frame, not list"),
        ([fc.indicator_column(T)], {"t": [1, 2]}, TypeError, "'t' has dtype string, its feature 't' is of integ"),
        ([fc.indicator_column(T)], {"t": [1.5]}, TypeError, "convert it in a map before, or use a numeric_column"),
        ([fc.indicator_column(T)], {"t": ["a", 1j]}, TypeError, "feature 't' of column 't'"),
        ([X, fc.indicator_column(T)], {"x": [1.0, 2.0], "t": ["a"]}, ValueError, "'x' has 2 rows, but others"),
        ([fc.indicator_column(fc.categorical_column_with_identity("i", 3))], {"i": [3]}, ValueError,
         "column 'i' has 3 buckets, and its feature holds 3: default_value="),
        ([fc.indicator_column(fc.crossed_column(["a", "x"], 10))], {"a": ["a"], "x": [0.5]}, TypeError,
         "its feature 'x' is of float64: cross a bucketized_column"),
        ([fc.indicator_column(fc.weighted_categorical_column(T, "w"))], {"t": [["a"], ["b", "c"]], "w": [[1.0], [2.0]]},
         ValueError, "row 1 has 2 ids and 1 weights"),
        ([fc.embedding_column(T, 2)], {"t": ["a"]}, ValueError, "column 't_embedding' has no table: layer.load_tables"),
    ],
)  # fmt: skip
def test_features_that_do_not_fit(columns, features, error, said):
    with pytest.raises(error, match=said):
        fc.DenseFeatures(columns)(features)


def test_a_vocabulary_file_with_an_empty_line_or_too_few(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"a\n\nb\n")
    with pytest.raises(ValueError, match=r"column 'v': line 2 of .*words.txt is empty: take it out"):
        fc.categorical_column_with_vocabulary_file("v", path)
    path.write_bytes(b"a\nb\na\n")
    with pytest.raises(ValueError, match="twice, as entry 0 and 2"):
        fc.categorical_column_with_vocabulary_file("v", path)
    with pytest.raises(ValueError, match="3 lines, but 5 are required"):
        fc.categorical_column_with_vocabulary_file("v", path, 5)
    with pytest.raises(ValueError, match="not all of integers"):
        fc.categorical_column_with_vocabulary_file("v", path, dtype=np.int64)


def test_in_a_pipeline_the_error_names_the_element():
    ds = hr.Dataset.from_tensor_slices({"y": [1.0, 2.0]}).map(fc.DenseFeatures(X))
    with pytest.raises(hr.ElementError, match="column 'x' needs the feature 'x'"):
        next(iter(ds))
