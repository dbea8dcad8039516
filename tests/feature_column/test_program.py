"""Ids of many columns by one call are those that each column makes by itself."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.feature_column.program import Program, program_of
from headrace.feature_column.raw import Inputs

fc = hr.feature_column
TEXT = st.binary(max_size=70) | st.sampled_from([b"", b"a", "東京".encode(), b"x" * 64, b"x" * 65])
NUMBER = st.floats(width=32) | st.sampled_from([0.0, 0.5, 1.0, float("nan"), 1e-40])


def columns():
    x, y = (fc.bucketized_column(fc.numeric_column(key), bounds) for key, bounds in (("x", [0.0, 0.5, 1]), ("y", [7])))
    s, t = (fc.categorical_column_with_hash_bucket(key, size) for key, size in (("s", 10), ("t", 10**9)))
    crosses = [fc.crossed_column(["s", "t"], 100), fc.crossed_column(["t", "s", "u"], 7, hash_key=5)]
    others = [fc.crossed_column(["s", x], 50), fc.categorical_column_with_vocabulary_list("u", ["a"], default_value=0)]
    made = [x, y, *(fc.embedding_column(column, 2) for column in (s, t, *crosses, *others))]
    return fc.DenseFeatures(made)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 255, 256, 257, 600]))
def test_all_at_once_and_each_by_itself(data, rows):
    some = {key: data.draw(st.lists(TEXT, min_size=1, max_size=9)) for key in "stu"}
    numbers = {key: data.draw(st.lists(NUMBER, min_size=1, max_size=9)) for key in "xy"}
    before = data.draw(st.integers(0, 3))  # of a column only a part may be there
    features = {
        key: pa.array([values[i % len(values)] for i in range(before + rows)], pa.large_binary())[before:]
        for key, values in some.items()
    }
    features |= {key: np.resize(np.array(values, np.float32), rows) for key, values in numbers.items()}
    computation = columns().ids.computation
    made = computation.run(Inputs(features, rows, rows_have_axes=True))
    at_once = program_of(computation, computation.categoricals).run(Inputs(features, rows, rows_have_axes=True))
    assert len(at_once) == 6
    for name, column in computation.categoricals.items():
        expected = column.ids(Inputs(features, rows, rows_have_axes=True)).column()
        np.testing.assert_array_equal(made[name], expected)
        assert made[name].dtype == expected.dtype
    assert list(made) == list(computation.categoricals)


@pytest.mark.parametrize(
    "features",
    [
        {"s": hr.Ragged(np.array([b"a", b"b"], object), [0, 2, 2]), "t": [b"x", b""]},
        {"s": [[b"a", b"b"], [b"", b"c"]], "t": [b"x", b""]},
        {"s": [1, -1], "t": [b"x", b""]},
    ],
)
def test_other_features_are_left_to_the_columns(features):
    crossed = fc.crossed_column(["s", "t"], 100)
    hashed = fc.categorical_column_with_hash_bucket("t", 10)
    layer = fc.DenseFeatures([fc.embedding_column(crossed, 2), fc.embedding_column(hashed, 2)])
    inputs = Inputs(features, 2, rows_have_axes=False)
    assert Program({"c": crossed, "t": hashed}).run(inputs) == {}
    np.testing.assert_array_equal(layer.ids(features)["t"], hashed.ids(inputs).column())


def test_a_layer_that_has_run_can_be_sent_elsewhere():
    layer = columns()
    features = {"s": ["a"], "t": ["b"], "u": ["c"], "x": [1.0], "y": [2.0]}
    ids = layer.ids
    before = ids(features)
    again = pickle.loads(pickle.dumps(ids))(features)
    assert {name: value.tolist() for name, value in before.items()} == {n: v.tolist() for n, v in again.items()}


def test_the_kernel_checks_what_it_is_given():
    program = _native.IdProgram()
    program.add_hashed(0, 5)
    text = (b"abc", np.array([0, 1, 3]), 0)
    out = np.empty((1, 2), np.int64)
    program.run([text], [], out)
    for texts, numbers, where in [
        ([], [], out),
        ([text], [], np.empty((2, 2), np.int64)),
        ([text], [], np.empty((1, 3), np.int64)),
        ([(*text[:2], 1)], [], out),
        ([(*text[:2], -1)], [], out),
        ([(text[0], np.array([0, 4, 5]), 0)], [], out),
        ([(text[0], np.array([2, 1, 3]), 0)], [], out),
        ([(text[0], np.array([-1, 1, 3]), 0)], [], out),
        ([text], [np.zeros(3, np.float32)], out),
    ]:
        with pytest.raises(ValueError, match=r"fit|missing|offsets|rows"):
            program.run(texts, numbers, where)
    with pytest.raises(ValueError, match="buckets"):
        program.add_hashed(0, 0)
    with pytest.raises(ValueError, match="rise"):
        program.add_buckets(0, np.array([2, 1], np.float32))


def test_ids_of_parsed_records_are_in_memory_of_their_own():
    records = [hr.io.encode_example({"s": b"a", "t": b"b", "u": b"c", "x": 0.5, "y": float(i)}) for i in range(50)]
    asked = {key: hr.io.FixedLenFeature([], bytes if key in "stu" else np.float32) for key in "stuxy"}
    ids = columns().ids
    ds = hr.Dataset.from_tensor_slices(records).map(lambda record: ids(hr.io.parse_single_example(record, asked)))

    def change(batch):
        batch["s"][:] = -7
        return batch

    expected, changed = (next(iter(ds.batch(50).map(fn, mode="eager"))) for fn in (dict, change))
    assert (changed.pop("s") == -7).all()
    for name, values in changed.items():
        np.testing.assert_array_equal(values, expected[name])
