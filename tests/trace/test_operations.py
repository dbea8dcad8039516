"""Traced functions within pipelines: modes, specs, explain, and operations of our own that work on columns."""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes
from headrace.trace.operation import traced_operation

D = hr.Dataset


CALLS = []


def _lengths(column):
    CALLS.append(len(column))
    if isinstance(column, hr.Ragged):
        return column.row_lengths()
    values = column.to_pylist() if isinstance(column, pa.Array) else column
    return np.array([len(v) for v in values], np.int64)


@traced_operation(spec=lambda text: hr.TensorSpec((), np.int64), block=lambda text: _lengths)
def length(text):
    return np.int64(len(text))


def _halves(column, at):
    return {"head": column[:, :at].copy(), "tail": column[:, at:].copy()}


@traced_operation(
    spec=lambda x, at: {"head": hr.TensorSpec((at,), x.dtype), "tail": hr.TensorSpec((x.shape[0] - at,), x.dtype)},
    block=lambda x, at: lambda column: _halves(column, at),
)
def halves(x, at):
    return {"head": x[:at].copy(), "tail": x[at:].copy()}


@traced_operation(
    spec=lambda x: hr.TensorSpec((), bytes),
    block=lambda x: lambda column: pa.array([f"{v}".encode() for v in column], pa.large_binary()),
)
def encoded(x):
    return f"{x}".encode()


TEXT = ["a", "", "ccc", "dd", "é" * 9, "f"] * 8
RAGGED = hr.Ragged.from_rows([np.arange(i % 4) for i in range(9)])


@pytest.mark.parametrize("data", [TEXT, [t.encode() for t in TEXT], RAGGED])
def test_an_operation_of_ours_gets_whole_columns(data):
    CALLS.clear()
    ds = D.from_tensor_slices(data).map(lambda s: (length(s) * 2, s))
    assert "vectorised: 2 operations" in ds.explain()
    assert difference(outcomes(iter(ds)), reference_outcomes(ds)) is None
    assert max(CALLS) > 1
    assert ds.element_spec[0] == hr.TensorSpec((), np.int64)


def test_an_operation_may_give_a_structure_and_take_constants():
    ds = D.from_tensor_slices(np.arange(40.0).reshape(8, 5)).map(lambda x: halves(x + 1, at=2))
    assert ds.element_spec == {"head": hr.TensorSpec((2,), "f8"), "tail": hr.TensorSpec((3,), "f8")}
    assert "vectorised" in ds.explain()
    check_transformation(ds)


def test_an_operation_may_give_text_which_travels_on():
    ds = D.range(20).map(lambda x: {"text": encoded(x), "x": x}).map(lambda d: (length(d["text"]), d["x"]))
    assert ds.explain().partition("runs as:")[0].count("vectorised") == 2
    check_transformation(ds)


def test_an_operation_that_fails_on_a_row_fails_on_that_row_alone():
    def strict(column):
        if (column == 3).any():
            raise ValueError("a three")
        return column * 2

    @traced_operation(spec=lambda x: x, block=lambda x: strict)
    def doubled(x):
        if x == 3:
            raise ValueError("a three")
        return x * 2

    ds = D.range(6).map(lambda x: doubled(x))
    want = reference_outcomes(ds)
    assert [kind for kind, _ in want] == ["value"] * 3 + ["error"] + ["value"] * 2
    assert difference(outcomes(iter(ds)), want) is None


def test_explain_says_how_each_function_runs():
    text = (
        D.range(9)
        .filter(lambda x: x % 2 == 0)
        .map(lambda x: np.log1p(x) * 2)
        .map(lambda x: x if x > 1 else -x)
        .map(lambda x: x if x > 1 else 0)
        .take_while(lambda x: x < 100)
        .explain()
    )
    assert "vectorised: 2 operations]" in text
    assert "vectorised: 2 operations, log1p row by row" in text
    assert "vectorised: 2 operations, 2 paths" in text
    assert "row by row: branches on data at " in text
    assert "test_operations.py:" in text
    assert "decided at the first rows" in text


def test_the_modes():
    branch = lambda x: x if x > 1 else 0.5  # noqa: E731
    assert "as asked for" in D.range(3).map(lambda x: x, mode="eager").explain()
    assert list(D.range(3).map(lambda x: x + 1, mode="vectorized")) == [1, 2, 3]
    assert list(D.range(4).map(lambda x: x if x > 1 else -x, mode="vectorized")) == [0, -1, 2, 3]
    with pytest.raises(TypeError, match=r"cannot be vectorised: branches on data at .*test_operations\.py"):
        D.range(3).map(branch, mode="vectorized")
    unknown = D.range(9).map(lambda x: x, mode="eager").map(branch, mode="vectorized")
    with pytest.raises(TypeError, match="cannot be vectorised"):
        list(unknown)
    with pytest.raises(ValueError, match="mode must be one of"):
        D.range(3).map(branch, mode="fast")


def test_vectorised_by_the_users_word_may_differ_in_last_bits_only():
    weights = np.random.default_rng(0).normal(size=(64, 33)).astype(np.float32)
    x = np.random.default_rng(1).normal(size=(50, 64)).astype(np.float32)
    ds = D.from_tensor_slices(x).map(lambda v: np.exp(v @ weights / 9), mode="vectorized")
    assert "row by row" not in ds.explain()
    np.testing.assert_allclose(np.stack(list(ds)), np.exp(x @ weights / 9), rtol=1e-4)


def test_the_spec_is_known_without_running_anything():
    empty = D.from_tensor_slices(np.zeros((0, 4), np.float32))
    assert empty.map(lambda x: {"sum": x.sum(), "x": x[:2]}).element_spec == {
        "sum": hr.TensorSpec((), np.float32),
        "x": hr.TensorSpec((2,), np.float32),
    }


def test_rows_of_unknown_shape_are_traced_by_the_shape_they_have():
    def rows():
        for i in range(60):
            yield np.arange(4 if i < 30 else 6, dtype=np.float64) + i

    ds = D.from_generator(rows, output_signature=hr.TensorSpec((None,), np.float64))
    ds = ds.map(lambda v: v * 2 + v.sum()).padded_batch(15)
    assert difference(outcomes(iter(ds)), reference_outcomes(ds)) is None
    assert "by the shapes that came" in ds.explain()


def test_a_traced_map_is_skipped_indexed_shuffled_and_counted_as_if_it_were_not_there():
    ds = D.range(1000).map(lambda x: x * 2)
    assert ds[7] == 14
    assert ds._node.addressable
    assert "gather" in D.from_tensor_slices(np.arange(9)).map(lambda x: x + 1).shuffle(3).explain()
    assert next(iter(ds.skip(900))) == 1800


PIPELINES = {
    "map": lambda: D.range(50).map(lambda x: x * 2.5),
    "map, shuffle, batch": lambda: D.range(50).map(lambda x: (x, x % 3)).shuffle(7, seed=1).batch(4),
    "parallel map": lambda: D.range(90).map(lambda x: np.sqrt(x) + 1, num_parallel_calls=3),
    "parallel map of a stream": lambda: D.from_generator(
        lambda: iter(range(40)), output_signature=hr.TensorSpec((), np.int64)
    ).map(lambda x: x + 1, num_parallel_calls=2),
    "errors": lambda: D.range(-3, 30).map(lambda x: np.arange(9)[x]),
    "filter": lambda: D.range(90).filter(lambda x: x % 7 < 2).map(lambda x: x + 1).batch(4),
    "filter a rare thing": lambda: D.range(3000).filter(lambda x: x % 997 == 3),
    "filter with errors": lambda: D.range(30).filter(lambda x: np.arange(20)[x] % 3 == 0),
    "filter of a wrong type": lambda: D.range(5).filter(lambda x: x + 1),
    "take_while": lambda: D.range(90).take_while(lambda x: x < 55),
    "take_while nothing": lambda: D.range(9).take_while(lambda x: x < 0),
    "group_by_window": lambda: D.range(60).group_by_window(lambda x: x % 4, lambda k, w: w.batch(5), 5),
    "group_by_window with errors": lambda: D.range(25).group_by_window(
        lambda x: np.arange(20)[x] % 3, lambda k, w: w.batch(4), 4
    ),
    "bucket": lambda: D.from_tensor_slices(np.arange(80).reshape(40, 2)).bucket_by_sequence_length(
        lambda x: x[0] % 9, [3, 6], [4, 4, 4]
    ),
    "rejection_resample": lambda: D.range(200).rejection_resample(lambda x: x % 4 == 0, [0.5, 0.5], seed=1),
    "rejection_resample with errors": lambda: D.range(40).rejection_resample(lambda x: x % 3, [0.5, 0.5], seed=1),
    "map_batches": lambda: D.range(23).map_batches(lambda x: x - x.min(), 5),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_of_traced_functions_keeps_every_promise(name):
    check_transformation(PIPELINES[name](), cuts=12)


def test_a_state_is_good_for_a_function_that_is_no_longer_traced():
    def plain(x):
        return x * 2

    def printing(x):
        print(end="")
        return x * 2

    for saved, restored in ((plain, printing), (printing, plain)):
        for after in (lambda d: d, lambda d: d.batch(3), lambda d: d.shuffle(4, seed=1)):
            it = iter(after(D.range(20).map(saved)))
            for _ in range(3):
                next(it)
            with pytest.warns(hr.ChangeWarning, match="another (plain|printing)"):
                again = after(D.range(20).map(restored)).iterator(state=it.state())
            rest = [np.asarray(v).tolist() for v in again]
            assert rest == [np.asarray(v).tolist() for v in it]


RECORDS = np.array([hr.io.encode_example({"a": i, "b": 2 * i, "t": b"ab"}) for i in range(200)], object)
TWO = {name: hr.io.FixedLenFeature([], np.int64) for name in "ab"}
CAPTURED = np.arange(64.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: hr.io.parse_single_example(serialized=r, features=TWO),
        lambda r: hr.io.parse_single_sequence_example(serialized=r, context_features=TWO),
        lambda r: hr.io.decode_raw(input_bytes=r, out_type=np.uint8, fixed_length=4),
        lambda r: hr.io.decode_csv(records=r, record_defaults=["x"]),
        lambda r: hr.io.decode_compressed(bytes=r, compression_type=""),
        lambda r: np.frombuffer(buffer=r, dtype=np.uint8),
    ],
)
def test_operations_called_by_keyword_are_traced(call):
    assert "vectorised" in D.from_tensor_slices(RECORDS).map(call).explain()


def _sum_twice(r):
    found = hr.io.parse_single_example(r, TWO)
    total = found["a"] + found["b"]
    return {"x": total, "y": total}


def _captured(r):
    found = hr.io.parse_single_example(r, TWO)
    _ = found["b"] + 1
    return found["a"], CAPTURED


def _constant(r):
    found = hr.io.parse_single_example(r, TWO)
    _ = found["b"] + 1
    return found["a"], 5


def _same_twice(r):
    found = hr.io.parse_single_example(r, TWO)
    return found["a"], found["a"]


@pytest.mark.parametrize("fn", [_sum_twice, _captured, _constant, _same_twice])
def test_what_a_function_returns_is_its_own(fn):
    ds = D.from_tensor_slices(RECORDS).map(fn)
    assert "vectorised" in ds.explain()
    check_transformation(ds, cuts=2)
    for rows in (64, 200):
        for batch in ds.take(rows).batch(rows):
            first, second = batch.values() if isinstance(batch, dict) else batch
            before = second.copy()
            first[:] = -5
            assert np.array_equal(second, before)
            assert second.shape[0] == rows
    assert np.array_equal(CAPTURED, np.arange(64.0))


def test_one_feature_does_not_hold_the_memory_of_all():
    names = [f"f{i}" for i in range(40)]
    records = np.array([hr.io.encode_example(dict.fromkeys(names, i)) for i in range(500)], object)
    features = {name: hr.io.FixedLenFeature([], np.int64) for name in names}
    ds = D.from_tensor_slices(records).map(lambda r: hr.io.parse_single_example(r, features)["f0"])
    (batch,) = ds.batch(500)
    while batch.base is not None:
        batch = batch.base
    assert batch.nbytes <= 2 * 500 * 8


def test_an_operation_reads_what_the_function_gave_it():
    def back(r):
        total = r + 1
        twice = total * 2
        return twice, halves(total, 1)["tail"]

    rows = np.arange(60.0).reshape(30, 2)
    (batch,) = D.from_tensor_slices(rows).map(back, mode="vectorized").batch(30)
    assert np.array_equal(batch[0], (rows + 1) * 2) and np.array_equal(batch[1], (rows + 1)[:, 1:])
