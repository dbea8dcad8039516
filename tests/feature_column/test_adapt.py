"""What columns leave to data, found in one pass: the same numbers however the pass is cut, broken off and resumed."""

import multiprocessing
import os
import pty
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.feature_column import gather, learners

fc = hr.feature_column
ROWS = 20_000


def objects(rows):
    made = np.empty(len(rows), object)
    made[:] = rows
    return made


@pytest.fixture(scope="module")
def features():
    draw = np.random.default_rng(5)
    age = draw.gamma(3, 12, ROWS).astype(np.float32)
    age[::97] = np.nan
    return {
        "age": age,
        "place": draw.normal([3, -100], [2, 50], (ROWS, 2)).astype(np.float32),
        "city": objects([b"c%d" % n for n in draw.zipf(1.5, ROWS).clip(0, 300)]),
        "code": draw.integers(-1, 40, ROWS),
        "other": np.arange(ROWS),
    }


def columns():
    age = fc.numeric_column("age")
    city = fc.categorical_column_with_vocabulary_list("city", hr.most_frequent(50, min_count=3), num_oov_buckets=2)
    code = fc.categorical_column_with_vocabulary_list("code", hr.most_frequent(), dtype=np.int64)
    buckets = fc.bucketized_column(age, hr.quantiles(10))
    return [
        fc.numeric_column("place", (2,), normalizer="adapt"),
        buckets,
        fc.indicator_column(city),
        fc.embedding_column(fc.crossed_column([buckets, city], 1000), 4),
        *fc.shared_embeddings([code, fc.weighted_categorical_column(code, "age")], 2),
    ]


def test_one_pass_completes_all_columns(features):
    read = []
    ds = hr.Dataset.from_tensor_slices(features).map(lambda row: read.append(1) or row, mode="eager")
    layer = fc.DenseFeatures(columns()).adapt(ds)
    assert len(read) == ROWS
    by = {column.name: column for column in layer.columns}
    known = features["age"][~np.isnan(features["age"])]
    expected = np.quantile(known.astype(np.float64), np.arange(1, 10) / 10).astype(np.float32)
    assert by["age_bucketized"].boundaries == tuple(expected.tolist())
    made = by["place"].normalizer(features["place"])
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(made.std(axis=0), 1, rtol=1e-5)
    values, counts = np.unique(features["city"], return_counts=True)
    ranked = sorted(((n, v) for v, n in zip(values, counts, strict=True) if n >= 3), reverse=True)
    city = by["city_indicator"].categorical_column
    assert city.vocabulary == tuple(v for _, v in ranked[:50])
    assert by["age_bucketized_X_city_embedding"].categorical_column.crossed == (by["age_bucketized"], city)
    assert -1 not in by["code_shared_embedding"].categorical_column.vocabulary  # it stands for nothing
    again = fc.DenseFeatures.from_json(layer.to_json())
    assert again.columns == layer.columns
    tables = {column.table: column.initial_table(1) for column in layer.embeddings}
    np.testing.assert_array_equal(
        layer.load_tables(tables)({**features, "age": np.nan_to_num(features["age"])}),
        again.load_tables(tables)({**features, "age": np.nan_to_num(features["age"])}),
    )


def some_columns():
    age = fc.numeric_column("age", normalizer="adapt")
    city = fc.categorical_column_with_vocabulary_list("city", hr.most_frequent())
    return fc.DenseFeatures([age, fc.bucketized_column(age, hr.quantiles(4)), fc.indicator_column(city)])


@pytest.mark.parametrize("size", [None, 1, 7, 1024])
def test_rows_batches_and_arrays_give_the_same(features, size):
    expected = some_columns().adapt(features)
    ds = hr.Dataset.from_tensor_slices(features).take(ROWS)
    assert some_columns().adapt(ds if size is None else ds.batch(size)).columns == expected.columns


def test_ragged_rows(features):
    tags = hr.Ragged(objects([b"a", b"", b"b", b"b"]), [0, 2, 2, 4])
    tag = fc.categorical_column_with_vocabulary_list("tags", hr.most_frequent())
    layer = fc.DenseFeatures(fc.indicator_column(tag))
    (column,) = layer.adapt({"tags": tags}).columns
    assert column.categorical_column.vocabulary == (b"b", b"a", b"")
    rows = hr.Dataset.from_generator(lambda: ({"tags": row} for row in tags), output_signature={
        "tags": hr.TensorSpec((None,), bytes)})  # fmt: skip
    assert fc.DenseFeatures(layer.columns, batched=False).adapt(rows).columns == (column,)


def delivered(path):
    """How many rows a state says were seen."""
    with np.load(path) as kept:
        return int(gather.json.loads(kept["header"].tobytes())["place"]["delivered"])


class BrokenOffError(Exception):
    pass


@pytest.mark.parametrize("error", [BrokenOffError, KeyboardInterrupt])
@pytest.mark.parametrize("at", [0, 1, 4_096, 19_999])
def test_a_pass_that_breaks_off_goes_on(features, tmp_path, error, at):
    path = tmp_path / "adapt.state"
    broken, read = [True], []

    def look(row):
        if row["other"] == at and broken:
            broken.clear()
            raise error
        read.append(1)
        return row

    ds = hr.Dataset.from_tensor_slices(features).map(look, mode="eager")
    with pytest.raises((hr.ElementError, KeyboardInterrupt)):
        some_columns().adapt(ds, state=path)
    assert path.exists() == (at > 0)
    kept, before = delivered(path) if at else 0, len(read)
    assert bool(at) <= kept <= at
    assert some_columns().adapt(ds, state=path).columns == some_columns().adapt(features).columns
    assert len(read) - before == ROWS - kept
    assert not any(tmp_path.iterdir())


def test_a_pass_that_is_killed_goes_on(features, tmp_path):
    path, here = tmp_path / "adapt.state", os.getpid()
    fork = multiprocessing.get_context("fork")
    stopped = fork.Event()

    def stop_once_there_is_a_state(row):
        if os.getpid() != here and path.exists():
            stopped.set()
            signal.pause()
        return row

    ds = hr.Dataset.from_tensor_slices(features).map(stop_once_there_is_a_state, mode="eager")
    process = fork.Process(target=lambda: some_columns().adapt(ds, state=path, save_every=0))
    process.start()
    assert stopped.wait(300)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert 0 < delivered(path) < ROWS
    layer = some_columns().adapt(ds, state=path)
    assert layer.columns == some_columns().adapt(features).columns
    assert not any(tmp_path.iterdir())


def test_a_state_of_something_else_is_refused(features, tmp_path):
    path = tmp_path / "adapt.state"
    ds = hr.Dataset.from_tensor_slices(features)
    broken = ds.map(lambda row: row if row["other"] < 5_000 else 1 / 0, mode="eager")
    with pytest.raises(hr.ElementError):
        some_columns().adapt(broken, state=path)
    other = fc.DenseFeatures(fc.numeric_column("place", (2,), normalizer="adapt"))
    with pytest.raises(hr.StateError, match=r"adapt.state was begun for NumericColumn\('age'\), .*remove it"):
        other.adapt(broken, state=path)
    with pytest.raises(hr.StateError):
        some_columns().adapt(ds.batch(2), state=path)
    whole = path.read_bytes()
    for damaged in (b"", b"nothing", whole[: len(whole) // 2], whole[:2000] + b"\0" * 50 + whole[2050:]):
        path.write_bytes(damaged)
        with pytest.raises(hr.StateError, match="remove it to begin again"):
            some_columns().adapt(broken, state=path)


def test_what_is_not_complete_says_so(features):
    layer = fc.DenseFeatures([*columns(), fc.numeric_column("age", normalizer="adapt")])
    for use in (lambda: layer(features), lambda: layer.ids(features), layer.torch, layer.to_json, layer.describe):
        with pytest.raises(ValueError, match=r"column '\w+': .* to be found in data|layer.adapt\(dataset\)"):
            use()
    assert sorted(layer.keys) == ["age", "city", "code", "place"]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: hr.quantiles(1), ValueError, "buckets must be at least 2"),
        (lambda: hr.most_frequent(0), ValueError, "limit must be at least 1"),
        (lambda: hr.most_frequent(min_count=1.5), TypeError, "min_count must be an integer"),
        (lambda: fc.numeric_column("x", normalizer="mean"), ValueError, "normalizer must be 'adapt' or None"),
        (lambda: fc.numeric_column("x", normalizer_fn=abs, normalizer="adapt"), ValueError, "not both"),
        (lambda: fc.DenseFeatures(fc.bucketized_column(fc.numeric_column("x", 2, normalizer="adapt"), hr.quantiles(2)))
         .adapt({"x": [[1.0, 2.0]]}), ValueError, "have 2 means and share"),
        (lambda: some_columns().adapt(hr.Dataset.range(3)), TypeError, "dataset of dicts of features"),
        (lambda: some_columns().adapt(hr.Dataset.range(3).enumerate()), TypeError, "features, label: features"),
        (lambda: some_columns().adapt(hr.Dataset.from_tensors({"age": 1.0}).repeat()), ValueError, "take"),
        (lambda: some_columns().adapt({"age": [1.0]}), KeyError, "column 'city' needs the feature 'city'"),
        (lambda: some_columns().adapt({"age": [np.nan], "city": ["a"]}), ValueError, "column 'age': there is no num"),
        (lambda: some_columns().adapt({"age": [1.0], "city": [""]}), ValueError, "column 'city': there is no value"),
        (lambda: some_columns().adapt({"age": [1.0], "city": [5]}), TypeError, "dtype=np.int64 says that"),
    ],
)  # fmt: skip
def test_bad_input(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_shared_tables_must_fit_after_all():
    codes = [fc.categorical_column_with_vocabulary_list(key, hr.most_frequent()) for key in "ab"]
    layer = fc.DenseFeatures(fc.shared_embeddings(codes, 2))
    with pytest.raises(ValueError, match="of different shapes"):
        layer.adapt({"a": ["x", "y"], "b": ["x", "x"]})


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-100, 100, width=32) | st.integers(0, 3).map(float), min_size=1, max_size=60),
    st.integers(2, 8),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_quantiles_are_those_of_numpy(values, buckets, cuts):
    learner = learners.Quantiles()
    for part in np.split(np.array(values), sorted(cuts)):
        learner.take(part)
        other = learners.Quantiles()
        other.restore(learner.arrays())
        learner = other
    expected = np.unique(np.quantile(values, np.arange(1, buckets) / buckets))
    np.testing.assert_array_equal(learner.quantiles(buckets), expected)


def test_quantiles_of_more_numbers_than_are_held(monkeypatch):
    monkeypatch.setattr(learners, "MAX_EXACT_VALUES", 2_000)
    monkeypatch.setattr(learners.Quantiles, "run", 1_000)
    values = np.random.default_rng(2).normal(size=300_000)
    whole, pieces = learners.Quantiles(), learners.Quantiles()
    whole.take(values)
    for part in np.array_split(values, 77):
        pieces.take(part)
    found = whole.quantiles(100)
    assert found == pieces.quantiles(100)
    ranks = np.searchsorted(np.sort(values), found) / len(values)
    assert np.abs(ranks - np.arange(1, 100) / 100).max() < 0.005
    assert len(whole.arrays()["values"]) <= 2_000


def test_means_do_not_depend_on_the_pieces():
    values = np.random.default_rng(1).normal(1e6, 1, 10_000)
    whole, pieces = learners.Moments(), learners.Moments()
    whole.take(values[:, None])
    for part in np.array_split(values, 313):
        pieces.take(part[:, None])
    assert whole.moments() == pieces.moments()
    np.testing.assert_allclose(whole.moments()[1], values.var(), rtol=1e-9)


def test_a_bar_on_a_terminal():
    program = (
        "import headrace as hr; fc = hr.feature_column; x = fc.numeric_column('x', normalizer='adapt');"
        "fc.DenseFeatures(x).adapt(hr.Dataset.range(5000).map(lambda i: {'x': i}))"
    )
    outer, inner = pty.openpty()
    done = subprocess.run([sys.executable, "-c", program], stderr=inner, stdout=subprocess.PIPE, check=True)
    os.close(inner)
    shown = os.read(outer, 1 << 16).decode()
    os.close(outer)
    assert "adapt" in shown
    assert "5000/5000" in shown
    assert done.stdout == b""
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert piped.stderr == b""
