"""One layer on rows, on batches, in pipelines and alone: the same numbers everywhere."""

import pickle
import warnings

import numpy as np
import pytest

import headrace as hr
from headrace.columns.block import Block
from headrace.plan.spec import Spec
from headrace.plan.structure import flatten
from headrace.trace.function import Function

fc = hr.feature_column
N = 50


def objects(rows):
    made = np.empty(len(rows), object)
    made[:] = rows
    return made


@pytest.fixture
def features():
    draw = np.random.default_rng(3)
    lengths = draw.integers(0, 4, N)
    words = [b"", b"a", b"bb", "日本".encode(), b"x" * 70]
    return {
        "age": draw.uniform(0, 90, N).astype(np.float32),
        "place": draw.normal(size=(N, 2)).astype(np.float32),
        "city": objects([words[i] for i in draw.integers(0, 5, N)]),
        "code": draw.integers(-1, 30, N),
        "tags": hr.Ragged(objects([words[i] for i in draw.integers(0, 5, lengths.sum())]), np.cumsum([0, *lengths])),
        "share": hr.Ragged(draw.uniform(-1, 2, lengths.sum()).astype(np.float32), np.cumsum([0, *lengths])),
        "label": np.arange(N),
    }


@pytest.fixture
def layer():
    age = fc.bucketized_column(fc.numeric_column("age"), [18, 30, 65])
    city = fc.categorical_column_with_vocabulary_list("city", ["a", "bb"], num_oov_buckets=2)
    tags = fc.weighted_categorical_column(fc.categorical_column_with_hash_bucket("tags", 20), "share")
    crossed = fc.crossed_column([age, "city", "tags"], 30)
    pair = fc.crossed_column(["city", fc.categorical_column_with_identity("code", 30)], 40)
    made = fc.DenseFeatures([
        age,
        fc.numeric_column("place", (2,)),
        fc.indicator_column(city),
        fc.indicator_column(fc.categorical_column_with_identity("code", 25, default_value=0)),
        fc.embedding_column(tags, 3, "sqrtn"),
        fc.embedding_column(crossed, 2),
        *fc.shared_embeddings([pair, fc.categorical_column_with_hash_bucket("code", 40, np.int64)], 4),
    ])  # fmt: skip
    return made.load_tables({column.table: column.initial_table(1) for column in made.embeddings})


def rows_of(features):
    return [{key: column[i] for key, column in features.items()} for i in range(N)]


def dataset(features):
    return hr.Dataset.from_generator(lambda: iter(rows_of(features)), output_signature=signature(features))


def signature(features):
    shapes = {"place": (2,), "tags": (None,), "share": (None,)}
    kinds = {"city": bytes, "tags": bytes, "code": np.int64, "label": np.int64}
    return {key: hr.TensorSpec(shapes.get(key, ()), kinds.get(key, np.float32)) for key in features}


def equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            equal(a[key], b[key])
    elif isinstance(a, hr.Ragged):
        assert a == b
    else:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("what", ["matrix", "ids", "inputs"])
def test_rows_batches_and_pipelines_give_what_all_rows_at_once_give(features, layer, what):
    function = layer if what == "matrix" else getattr(layer, what)
    whole = function(features)
    ds = dataset(features)
    rows = list(ds.map(function))
    batches = list(ds.ragged_batch(7).map(function))

    def compare(whole, rows, batches):
        if isinstance(whole, dict):
            for key in whole:
                compare(whole[key], [row[key] for row in rows], [batch[key] for batch in batches])
            return
        for i, row in enumerate(rows):
            equal(np.asarray(row), np.asarray(whole[i]))
        start = 0
        for batch in batches:
            equal(batch, whole[start : start + len(batch)])
            start += len(batch)
        assert start == len(rows) == N

    compare(whole, rows, batches)


def test_the_layer_runs_on_blocks_and_says_so(features, layer):
    plain = {key: features[key] for key in ("age", "place", "city", "code")}
    columns = [c for c in layer.columns if set(c.keys) <= set(plain)]
    small = fc.DenseFeatures(columns).load_tables(
        {c.table: layer.tables[c.table] for c in columns if hasattr(c, "table")}
    )
    ds = hr.Dataset.from_tensor_slices(plain)
    for pipeline in (ds.map(small), ds.map(lambda row: (small(row), row["age"])), ds.batch(8).map(small)):
        seen = pipeline.map(lambda *x: x[0])
        assert np.vstack(list(seen)).shape == (N, small.width) or len(list(seen)) == N
        assert "vectorised: 1 operation" in str(pipeline.explain()), pipeline.explain()
    assert ds.map(small).element_spec == hr.TensorSpec((small.width,), np.float32)
    assert ds.batch(5, drop_remainder=True).map(small).element_spec == hr.TensorSpec((5, small.width), np.float32)
    np.testing.assert_array_equal(np.stack(list(ds.map(small))), small(plain))
    np.testing.assert_array_equal(np.concatenate(list(ds.batch(8).map(small))), small(plain))
    assert ds.map(small.ids).element_spec["city"] == hr.TensorSpec((), np.int64)


def test_training_and_serving_see_the_same_numbers(features, layer):
    """Records are parsed and trained on; to be served the same rows come as lists, as a data frame, or one by one."""
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    records = [hr.io.encode_example(row) for row in rows_of(features)]
    spec = {
        **fc.make_parse_example_spec(layer.columns),
        "city": hr.io.FixedLenFeature([], bytes),
        "code": hr.io.FixedLenFeature([], np.int64),
    }
    trained = np.concatenate([
        layer(hr.io.parse_example(records[i : i + 8], spec)) for i in range(0, N, 8)
    ])  # fmt: skip
    ds = hr.Dataset.from_tensor_slices(objects(records)).map(lambda r: hr.io.parse_single_example(r, spec))
    np.testing.assert_array_equal(np.stack(list(ds.map(layer))), trained)
    np.testing.assert_array_equal(layer(features), trained)
    lists = {key: column.to_list() if isinstance(column, hr.Ragged) else column.tolist()
             for key, column in features.items()}  # fmt: skip
    np.testing.assert_array_equal(layer(lists), trained)
    np.testing.assert_array_equal(layer(pl.DataFrame(lists)), trained)
    np.testing.assert_array_equal(np.stack([layer(row) for row in rows_of(features)]), trained)
    np.testing.assert_array_equal(layer(pd.DataFrame(lists)), trained)
    flat = [c for c in layer.columns if not {"tags", "place"} & set(c.keys)]
    small = fc.DenseFeatures(flat).load_tables({c.table: layer.tables[c.table] for c in flat if hasattr(c, "table")})
    frame = pd.DataFrame({key: lists[key] for key in ("age", "code", "label")})
    frame["city"] = [None if not word else word.decode() for word in lists["city"]]
    np.testing.assert_array_equal(small(frame), small(features))


def test_text_is_text_however_it_comes():
    layer = fc.DenseFeatures(fc.indicator_column(fc.categorical_column_with_hash_bucket("t", 50)))
    words = ["a", "日本", "", "x" * 40]
    expected = layer({"t": words})
    pa = pytest.importorskip("pyarrow")
    for column in (
        np.array(words), objects(words), objects([w.encode() for w in words]), pa.array(words),
        pa.array(words).dictionary_encode(), pa.chunked_array([words[:1], words[1:]]),
        pa.array([w or None for w in words], pa.large_string()), [w or None for w in words],
        pa.array([w.encode() for w in words], pa.binary()), pa.array(["", *words])[1:],
    ):  # fmt: skip
        np.testing.assert_array_equal(layer({"t": column}), expected)
    nested = pa.array([[w] for w in words])
    np.testing.assert_array_equal(layer({"t": nested})[[0, 1, 3]], expected[[0, 1, 3]])


def test_integers_of_any_width_are_the_same_ids():
    layer = fc.DenseFeatures(fc.embedding_column(fc.categorical_column_with_hash_bucket("i", 1000, np.int32), 1))
    expected = layer.ids({"i": [5, 7]})["i"]
    for dtype in (np.int8, np.uint8, np.int32, np.uint64, ">i4"):
        np.testing.assert_array_equal(layer.ids({"i": np.array([5, 7], dtype)})["i"], expected)
    with pytest.raises(ValueError, match="beyond int64"):
        layer.ids({"i": np.array([2**64 - 1], np.uint64)})


def test_lists_of_one_row_are_told_from_many_rows_by_batched():
    tags = fc.indicator_column(fc.categorical_column_with_vocabulary_list("tags", ["a", "b"]))
    assert fc.DenseFeatures(tags)({"tags": ["a", "b"]}).shape == (2, 2)
    np.testing.assert_array_equal(fc.DenseFeatures(tags, batched=False)({"tags": ["a", "b"]}), [1, 1])


def test_a_layer_resumes_and_travels_to_other_processes(features, layer):
    plain = {key: features[key] for key in ("age", "place", "city", "code")}
    columns = [c for c in layer.columns if set(c.keys) <= set(plain)]
    small = fc.DenseFeatures(columns).load_tables(
        {c.table: layer.tables[c.table] for c in columns if hasattr(c, "table")}
    )
    expected = small(plain)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(small))(plain), expected)
    ds = hr.Dataset.from_tensor_slices(plain).shuffle(20, seed=1).map(small).batch(4)
    it = ds.iterator()
    for _ in range(5):
        next(it)
    state = it.state()
    rest = list(it)
    again = hr.Dataset.from_tensor_slices(plain).shuffle(20, seed=1).map(small).batch(4)
    for a, b in zip(rest, again.iterator(state=state), strict=True):
        np.testing.assert_array_equal(a, b)
    workers = hr.Dataset.from_tensor_slices(plain).map(small, num_parallel_calls=1, mode="process").batch(N)
    np.testing.assert_array_equal(workers.get_single_element(), expected)


def test_json_says_all_there_is(features, layer):
    text = layer.to_json()
    again = fc.DenseFeatures.from_json(text)
    assert again.columns == layer.columns
    equal(again.load_tables(layer.tables)(features), layer(features))
    strange = fc.categorical_column_with_vocabulary_list("t", [b"\xff", b"a"])
    kept = fc.DenseFeatures.from_json(fc.DenseFeatures(fc.indicator_column(strange)).to_json())
    np.testing.assert_array_equal(kept({"t": [b"\xff", b"a"]}), np.eye(2, dtype=np.float32))
    with pytest.raises(ValueError, match="no JSON of feature columns"):
        fc.DenseFeatures.from_json("{}")
    with pytest.raises(ValueError, match="column 'x': normalizer_fn is a function"):
        fc.DenseFeatures(fc.numeric_column("x", normalizer_fn=abs)).to_json()


def test_the_row_that_fails_is_the_only_one_that_does():
    column = fc.indicator_column(fc.categorical_column_with_identity("i", 3))
    ds = hr.Dataset.from_tensor_slices({"i": [0, 1, 7, 2, 1, 0]}).map(fc.DenseFeatures(column)).ignore_errors()
    assert np.stack(list(ds)).argmax(1).tolist() == [0, 1, 2, 1, 0]


def test_one_row_at_a_time_still_runs_as_a_block():
    """Else the calls, dear as they are, would have only one or two rows come at a time for ever."""
    layer = fc.DenseFeatures(fc.numeric_column("x"))
    structure, _ = flatten({"x": 0})
    function = Function(layer)
    block = Block(structure, [np.array([2.5], np.float32)], 1)
    called = lambda rows: [(True, layer({"x": row["x"]})) for row in rows.elements()]  # noqa: E731
    assert function.columns(block, called) is None, "not traced yet: a row is not worth it"
    function.graph(Spec(structure, (hr.TensorSpec((), np.float32),)))
    made = function.columns(block, called)
    assert made is not None
    assert made[1][0].tolist() == [[2.5]]


def test_a_state_knows_whether_the_columns_are_the_same():
    def batches(buckets, words):
        town = fc.indicator_column(fc.categorical_column_with_hash_bucket("t", buckets))
        word = fc.indicator_column(fc.categorical_column_with_vocabulary_list("w", words))
        rows = {"t": ["a", "b", "c"] * 4, "w": ["a", "b", "c"] * 4}
        return hr.Dataset.from_tensor_slices(rows).map(fc.DenseFeatures([town, word])).batch(2)

    it = batches(5, ["a", "b"]).iterator()
    next(it)
    state = it.state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(next(batches(5, ["a", "b"]).iterator(state=state)), next(it))
    for other in (batches(6, ["a", "b"]), batches(5, ["a", "c"])):
        with pytest.warns(hr.ChangeWarning, match="another DenseFeatures"):
            next(other.iterator(state=state))
