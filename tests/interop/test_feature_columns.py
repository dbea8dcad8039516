"""Random columns over random rows give TensorFlow's ids to the bit, and its floats within the rounding of one sum."""

from __future__ import annotations

import os
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytestmark = pytest.mark.tensorflow

WORDS = [b"", b"a", b"b", b"hello", "Zürich".encode(), "東京".encode(), b"\x00", b"a\x00b", b"\xff\xfe", b"-1", b"17"]
TEXT = st.one_of(st.sampled_from(WORDS), st.binary(max_size=140), st.text(max_size=12).map(str.encode))
INTEGERS = st.one_of(
    st.sampled_from([-1, 0, 1, 2, 17, 2**63 - 1, -(2**63), 10**12, -10]), st.integers(-(2**63), 2**63 - 1)
)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 2.5, float("nan"), float("inf"), -float("inf"), 1e-30]),
    st.floats(-100, 100, width=32),
)
VOCABULARY = ["a", "hello", "Zürich", "東京", "-1"]
NUMBERS = [0, 17, -10, 2**63 - 1, 3]


@cache
def tensorflow() -> SimpleNamespace:
    """TensorFlow's columns, and how to run them without a model."""
    import tensorflow as tf
    from tensorflow.python.feature_column import feature_column_v2 as v2

    tf.get_logger().setLevel("ERROR")

    class Tables(v2.StateManager):
        def __init__(self, arrays: Any) -> None:
            self._arrays, self._resources = arrays, {}

        def create_variable(self, feature_column: Any, **_: Any) -> Any:
            self._variable = tf.Variable(self._arrays[feature_column.name])
            return self._variable

        def get_variable(self, feature_column: Any, name: str) -> Any:
            return tf.Variable(self._arrays[feature_column.name])

        def add_resource(self, column: Any, name: str, resource: Any) -> None:
            self._resources[column, name] = resource

        def has_resource(self, column: Any, name: str) -> bool:
            return (column, name) in self._resources

        def get_resource(self, column: Any, name: str) -> Any:
            return self._resources[column, name]

    def tensor(value: Any) -> Any:
        if not isinstance(value, hr.Ragged):
            return tf.constant(value.tolist() if value.dtype == object else value)
        values = tf.constant(value.values.tolist(), tf.string) if value.dtype == object else tf.constant(value.values)
        return tf.RaggedTensor.from_row_splits(values, value.offsets).to_sparse()

    def ids(column: Any, features: Any) -> list[list[int]]:
        found = column.get_sparse_tensors(_cache(features), _state(column, {})).id_tensor
        rows: list[list[int]] = [[] for _ in range(found.dense_shape[0])]
        for (row, *_), value in zip(found.indices.numpy().tolist(), found.values.numpy().tolist(), strict=True):
            rows[row].append(value)
        return rows

    def dense(column: Any, features: Any, tables: Any) -> Any:
        made = column.get_dense_tensor(_cache(features), _state(column, tables)).numpy()
        return made.reshape(len(made), -1)

    def _cache(features: Any) -> Any:
        return v2.FeatureTransformationCache({key: tensor(value) for key, value in features.items()})

    def _state(column: Any, tables: Any) -> Any:
        state = Tables(tables)
        if not isinstance(column, v2.NumericColumn | v2.BucketizedColumn):
            column.create_state(state)
        return state

    return SimpleNamespace(fc=tf.feature_column, ids=ids, dense=dense)


def objects(rows: list[Any]) -> Any:
    made = np.empty(len(rows), object)
    made[:] = rows
    return made


@st.composite
def rows(draw: Any) -> dict[str, Any]:
    """Some rows: dense and ragged text and integers, floats, and weights of the ragged text."""
    n = draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    other = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    many, others = sum(lengths), sum(other)

    def drawn(of: Any, count: int) -> list[Any]:
        return draw(st.lists(of, min_size=count, max_size=count))

    return {
        "t": objects(drawn(TEXT, n)),
        "ts": hr.Ragged(objects(drawn(TEXT, many)), np.cumsum([0, *lengths])),
        "w": hr.Ragged(np.array(drawn(st.floats(-2, 4, width=32), many), np.float32), np.cumsum([0, *lengths])),
        "i": np.array(drawn(INTEGERS, n), np.int64),
        "is": hr.Ragged(np.array(drawn(INTEGERS, others), np.int64), np.cumsum([0, *other])),
        "x": np.array(drawn(FLOATS, n), np.float32),
        "x2": np.array(drawn(FLOATS, 2 * n), np.float32).reshape(n, 2),
    }


BUCKETS = st.sampled_from([1, 2, 10, 1000, 10**5, 2**31 + 11, 2**63 - 1])
SMALL_SIZES = st.sampled_from([1, 2, 7, 40])


@st.composite
def keyed(draw: Any, buckets: Any = BUCKETS, hashed: bool = True) -> Any:
    """A column of one feature: a function of either library's names."""
    kind = draw(st.sampled_from(["hash"] * hashed + ["text", "integers", "identity", "bucketized"]))
    size, oov = draw(buckets), draw(st.sampled_from([0, 0, 1, 5]))
    default = -1 if oov else draw(st.sampled_from([-1, 0, 3]))
    if kind == "hash":
        key = draw(st.sampled_from(["t", "ts", "i", "is"]))
        dtype = str if key[0] == "t" else np.int64
        return lambda F: F.categorical_column_with_hash_bucket(key, size, F.dtype(dtype))
    if kind in ("text", "integers"):
        key = draw(st.sampled_from(["t", "ts"] if kind == "text" else ["i", "is"]))
        entries = VOCABULARY if kind == "text" else NUMBERS
        return lambda F: F.categorical_column_with_vocabulary_list(
            key, entries, default_value=default, num_oov_buckets=oov
        )
    if kind == "identity":
        key, limit = draw(st.sampled_from(["i", "is"])), min(size, 1000)
        return lambda F: F.categorical_column_with_identity(key, limit, default_value=0)
    shape = draw(st.sampled_from([1, 2]))
    bounds = draw(st.lists(st.floats(-50, 50, width=16), min_size=1, max_size=40, unique=True).map(sorted))
    return lambda F: F.bucketized_column(F.numeric_column("x" if shape == 1 else "x2", (shape,)), bounds)


@st.composite
def categorical(draw: Any, buckets: Any = BUCKETS) -> Any:
    """A column that makes ids; crosses may hold others, and crosses."""
    if draw(st.booleans()):
        return draw(keyed(buckets))
    part = st.one_of(
        st.sampled_from(["t", "ts", "i", "is"]).map(lambda key: lambda _: key), keyed(SMALL_SIZES, hashed=False)
    )
    parts = draw(st.lists(part, min_size=2, max_size=3))
    size, key = draw(buckets), draw(st.sampled_from([None, 1, 0xDEAD, 2**62]))
    nested = draw(st.booleans()) and len(parts) > 2

    def made(F: Any) -> Any:
        columns = [part(F) for part in parts]
        if nested:
            columns = [F.crossed_column(columns[:2], 10), *columns[2:]]
        return F.crossed_column(columns, size, key)

    return made


def both(column: Any) -> tuple[Any, Any]:
    """The column in headrace and in TensorFlow."""
    import tensorflow as tf

    ours = SimpleNamespace(**{name: getattr(hr.feature_column, name) for name in hr.feature_column.__all__})
    ours.dtype = lambda dtype: dtype
    theirs = SimpleNamespace(**{name: getattr(tf.feature_column, name) for name in dir(tf.feature_column)})
    theirs.dtype = lambda dtype: tf.string if dtype is str else tf.int64
    return column(ours), column(theirs)


def known(rows: Any) -> list[list[int]]:
    """The ids of each row that name something."""
    return [[int(i) for i in np.atleast_1d(row) if i >= 0] for row in rows]


DEEP = settings(
    max_examples=int(os.environ.get("FEATURE_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@DEEP
@given(categorical(), rows())
def test_ids_are_those_of_tensorflow(column: Any, features: dict[str, Any]) -> None:
    ours, theirs = both(column)
    assert (ours.name, ours.num_buckets) == (theirs.name, theirs.num_buckets)
    layer = hr.feature_column.DenseFeatures(hr.feature_column.embedding_column(ours, 1))
    got = layer.ids(features)[ours.name]
    expected = tensorflow().ids(theirs, features)
    assert known(got) == [[i for i in row if i >= 0] for row in expected]


@DEEP
@given(
    categorical(SMALL_SIZES),
    rows(),
    st.booleans(),
    st.sampled_from(["sum", "mean", "sqrtn"]),
    st.sampled_from([None, 0.5]),
)
def test_floats_are_those_of_tensorflow(column: Any, features: Any, weighted: bool, combiner: Any, norm: Any) -> None:
    ours, theirs = both(column)
    if weighted and ours.keys == ("ts",):
        ours, theirs = both(lambda F: F.weighted_categorical_column(column(F), "w"))
    fc, F = hr.feature_column, tensorflow().fc
    table = np.random.default_rng(0).standard_normal((ours.num_buckets, 3)).astype(np.float32)
    embedding = fc.embedding_column(ours, 3, combiner, max_norm=norm)
    layer = fc.DenseFeatures([fc.indicator_column(ours), embedding]).load_tables({embedding.table: table})
    got = layer(features)
    expected = np.hstack(
        [
            tensorflow().dense(
                F.embedding_column(theirs, 3, combiner, max_norm=norm), features, {embedding.name: table}
            ),
            tensorflow().dense(F.indicator_column(theirs), features, {}),
        ]
    )
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


@DEEP
@given(rows())
def test_numbers_and_their_buckets_are_those_of_tensorflow(features: dict[str, Any]) -> None:
    ours, theirs = zip(
        both(lambda F: F.numeric_column("x2", (2,), normalizer_fn=lambda x: x * 2 + 1)),
        both(lambda F: F.bucketized_column(F.numeric_column("x2", (2,)), [0.0, 0.1, 2.5])),
        strict=True,
    )
    got = hr.feature_column.DenseFeatures(ours)(features)
    expected = np.hstack([tensorflow().dense(column, features, {}) for column in theirs])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("content", [b"a\nhello\r\n\xff \n17\n", b"17\na"], ids=["text", "no newline at the end"])
@pytest.mark.parametrize("size", [None, 2])
def test_a_vocabulary_file_is_read_as_by_tensorflow(content: bytes, size: Any, tmp_path: Any) -> None:
    path = tmp_path / "words"
    path.write_bytes(content)
    ours, theirs = both(lambda F: F.categorical_column_with_vocabulary_file("t", str(path), size, num_oov_buckets=3))
    features = {"t": objects([b"a", b"hello", b"\xff ", b"\xff", b"17", b""])}
    layer = hr.feature_column.DenseFeatures(hr.feature_column.indicator_column(ours))
    assert known(layer.ids(features)["t"]) == tensorflow().ids(theirs, features)


def test_examples_are_parsed_as_tensorflow_says() -> None:
    def columns(F: Any) -> list[Any]:
        x = F.numeric_column("x", (2,), default_value=1.0)
        words = F.categorical_column_with_vocabulary_list("w", ["a"])
        crossed = F.crossed_column(["a", F.bucketized_column(F.numeric_column("y"), [1])], 9)
        weighted = F.weighted_categorical_column(F.categorical_column_with_hash_bucket("h", 3, F.dtype(np.int64)), "g")
        return [x, *map(F.indicator_column, (words, crossed, weighted))]

    ours, theirs = both(columns)
    got = hr.feature_column.make_parse_example_spec(ours)
    expected = tensorflow().fc.make_parse_example_spec(theirs)
    assert got.keys() == expected.keys()
    for key, feature in expected.items():
        assert type(got[key]).__name__ == type(feature).__name__
        assert np.dtype(got[key].dtype).kind == np.dtype(feature.dtype.as_numpy_dtype).kind.replace("O", "S")
        assert getattr(got[key], "default_value", None) == getattr(feature, "default_value", None)
        assert getattr(got[key], "shape", None) == getattr(feature, "shape", None)
