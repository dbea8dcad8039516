"""from_arrow: values, types, nulls, chunks, memory."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset
ROWS = 150

COLUMNS = {
    "int16": (pa.array(range(ROWS), pa.int16()), hr.TensorSpec([], "int16")),
    "float32 with nulls": (pa.array([None, 1.5, 2.5] * 50, pa.float32()), hr.TensorSpec([], "float32")),
    "float16": (pa.array(np.arange(ROWS, dtype=np.float16)), hr.TensorSpec([], "float16")),
    "bool": (pa.array([True, False, True] * 50), hr.TensorSpec([], bool)),
    "string": (pa.array([f"é{i}" for i in range(ROWS)]), hr.TensorSpec([], str)),
    "string view": (pa.array(["a", "b" * 40] * 75, pa.string_view()), hr.TensorSpec([], str)),
    "binary": (pa.array([b"a\0", b""] * 75), hr.TensorSpec([], bytes)),
    "fixed binary": (pa.array([b"a\0", b"bb"] * 75, pa.binary(2)), hr.TensorSpec([], bytes)),
    "categories": (pa.array(["x", "y", "x"] * 50).dictionary_encode(), hr.TensorSpec([], str)),
    "categories of numbers": (pa.array([7, 9, 7] * 50, pa.int8()).dictionary_encode(), hr.TensorSpec([], "int8")),
    "lists": (pa.array([[1, 2], [], [3]] * 50), hr.TensorSpec([None], "int64")),
    "lists of floats with nulls": (pa.array([[1.5, None], [], [3]] * 50), hr.TensorSpec([None], "float64")),
    "list views": (pa.array([[1, 2], [], [3]] * 50, pa.list_view(pa.int8())), hr.TensorSpec([None], "int8")),
    "lists of views": (
        pa.array([["a", "b" * 40], [], ["c"]] * 50, pa.list_(pa.string_view())),
        hr.TensorSpec([None], str),
    ),
    "lists of text": (pa.array([["a", "b"], ["c"]] * 75), hr.TensorSpec([None], str)),
    "fixed-size lists": (pa.array([[1, 2], [3, 4]] * 75, pa.list_(pa.uint8(), 2)), hr.TensorSpec([2], "uint8")),
    "fixed-size lists of text": (pa.array([["a", "b"]] * ROWS, pa.list_(pa.string(), 2)), hr.TensorSpec([2], str)),
    "lists of pairs": (
        pa.array([[[1, 2], [3, 4]], [], [[5, 6]]] * 50, pa.list_(pa.list_(pa.int32(), 2))),
        hr.TensorSpec([None, 2], "int32"),
    ),
    "lists of lists": (pa.array([[[1], [2, 3]], [], [[]]] * 50), hr.TensorSpec([None, None], "int64")),
    "structs": (
        pa.array([{"b": 1, "a": {"s": "x"}}] * ROWS),
        {"b": hr.TensorSpec([], "int64"), "a": {"s": hr.TensorSpec([], str)}},
    ),
}


def plain(value):
    """As Arrow's to_pylist gives it; NaN is None."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    value = value.to_list() if isinstance(value, hr.Ragged) else value
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, list):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and np.isnan(value) else value


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_arrives(run, name):
    array, spec = COLUMNS[name]
    table = pa.concat_tables([pa.table({"c": array[:70]}), pa.table({"c": array[70:]})])
    ds = D.from_arrow(table)
    assert ds.element_spec == {"c": spec}
    assert [plain(row["c"]) for row in run(ds)] == array.to_pylist()
    shuffled = run(ds.shuffle(seed=1))
    assert sorted(map(repr, map(plain, shuffled))) == sorted(repr({"c": v}) for v in array.to_pylist())


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_keeps_every_promise(name):
    array, _ = COLUMNS[name]
    check_transformation(D.from_arrow(pa.chunked_array([array[3:70], array[70:140]])).shuffle(20).take(90), cuts=5)


TIMES = {
    "date32": (pa.array([dt.date(2024, 2, 29), None]), "datetime64[D]", np.datetime64("2024-02-29")),
    "date64": (pa.array([dt.date(2024, 2, 29), None], pa.date64()), "datetime64[ms]", np.datetime64("2024-02-29")),
    "timestamp": (pa.array([5, None], pa.timestamp("ns")), "datetime64[ns]", np.datetime64(5, "ns")),
    "with a zone": (
        pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("s", "Asia/Tokyo")),
        "datetime64[s]",
        np.datetime64("2024-01-01T00:00:00"),
    ),
    "duration": (pa.array([7, None], pa.duration("us")), "timedelta64[us]", np.timedelta64(7, "us")),
    "time of day": (pa.array([dt.time(1), None], pa.time32("s")), "timedelta64[s]", np.timedelta64(3600, "s")),
    "nanoseconds of a day": (pa.array([3, None], pa.time64("ns")), "timedelta64[ns]", np.timedelta64(3, "ns")),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_are_numpys_and_nulls_are_nat(run, name):
    array, dtype, first = TIMES[name]
    ds = D.from_arrow(array)
    got, missing = run(ds)
    assert ds.element_spec == hr.TensorSpec([], dtype)
    assert got == first
    assert got.dtype == missing.dtype == np.dtype(dtype)
    assert np.isnat(missing)


def test_tensors_of_one_shape(run):
    values = np.arange(24.0).reshape(4, 2, 3)
    ds = D.from_arrow(pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(values)}))
    assert ds.element_spec == {"t": hr.TensorSpec([2, 3], "float64")}
    assert np.array_equal(run(ds.batch(4))[0]["t"], values)


def test_numbers_and_lists_are_not_copied():
    numbers, pairs = np.arange(200), np.arange(400, dtype=np.float32)
    table = pa.table(
        {
            "n": numbers,
            "p": pa.FixedSizeListArray.from_arrays(pa.array(pairs), 2),
            "l": pa.ListArray.from_arrays(pa.array(np.arange(201, dtype=np.int32)), pa.array(numbers)),
        }
    )
    row = next(iter(D.from_arrow(table).skip(5)))
    assert np.shares_memory(row["p"], pairs)
    assert np.shares_memory(row["l"], numbers)
    assert not row["p"].flags.writeable
    batch = next(iter(D.from_arrow(table).batch(10)))
    assert np.shares_memory(batch["n"], numbers)


def test_chunks_are_read_where_they_lie():
    first, second = np.arange(100), np.arange(100, 300)
    ds = D.from_arrow(pa.table({"x": pa.chunked_array([first, second])}))
    batches = list(ds.batch(50))
    assert np.shares_memory(batches[1]["x"], first)
    assert np.shares_memory(batches[2]["x"], second)
    assert [b["x"][0] for b in batches] == [0, 50, 100, 150, 200, 250]
    assert ds[299] == {"x": 299}
    assert [int(r["x"]) for r in ds[98:103]] == [98, 99, 100, 101, 102]


def test_many_small_chunks_become_one(run):
    table = pa.concat_tables([pa.table({"x": [i]}) for i in range(300)])
    ds = D.from_arrow(table)
    assert len(ds._node.chunks) == 1
    assert [int(r["x"]) for r in run(ds)] == list(range(300))


def test_tables_batches_readers_and_lists(run):
    table = pa.table({"x": [1, 2, 3]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

    class Foreign:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    for data in (table, table.to_batches()[0], reader, Foreign()):
        assert run(D.from_arrow(data)) == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert len(D.from_arrow([table, *table.to_batches()])) == 6
    assert run(D.from_arrow(pa.array(["a", "b"]))) == ["a", "b"]


def test_an_empty_table_has_a_spec(run):
    ds = D.from_arrow(pa.schema({"x": pa.int8(), "s": pa.string()}).empty_table())
    assert run(ds.shuffle()) == []
    assert len(ds) == 0
    assert ds.element_spec == {"x": hr.TensorSpec([], "int8"), "s": hr.TensorSpec([], str)}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pa.table({"x": [1, None]}), r"column 'x' has a null in row 1, and NumPy's int64 .*fill_null"),
        (pa.table({"x": pa.chunked_array([[1] * 70, [2] * 69 + [None]])}), "null in row 139"),
        (pa.table({"x": [True, None]}), "null in row 1, and NumPy's bool"),
        (pa.table({"x": ["a", None]}), "null in row 1, and NumPy's str"),
        (pa.table({"x": pa.array(["a", None]).dictionary_encode()}), "null in row 1, and NumPy's str"),
        (
            pa.table({"x": pa.DictionaryArray.from_arrays([0, 0, 1], pa.array(["a", None]))}),
            "null in row 2, and NumPy's str",
        ),
        (pa.table({"x": [[1], [2], [3, None]]}), "column 'x' has a null in row 2"),
        (pa.table({"x": pa.array([[1, 2], [3, None]], pa.list_(pa.int8(), 2))}), "column 'x' has a null in row 1"),
        (pa.table({"x": [[1.5], None]}), "null in row 1"),
        (pa.table({"x": [{"y": 1}, None]}), r"column 'x'\['y'\] has a null in row 1"),
        (pa.table({"x": [decimal.Decimal("1.0000000000000001")]}), "decimal128.*more digits.*cast it to another type"),
        (pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), "interval.*leave it out"),
        (pa.table({"x": [[{"y": 1}, {"y": None}]]}), r"column 'x'\['y'\] has a null in row 0"),
        ([pa.table({"x": [1]}), pa.table({"y": [1]})], "item 1 of the list has other columns.*y: int64 against x"),
    ],
)
def test_what_numpy_cannot_say_is_refused_with_a_remedy(data, said):
    with pytest.raises(hr.SpecError, match=said):
        D.from_arrow(data)


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ({"x": [1]}, TypeError, "takes a pyarrow Table.*not builtins.dict"),
        ([], ValueError, "empty list"),
        (pa.table({}), ValueError, "without columns"),
        (pa.table([[1], [2]], ["a", "a"]), ValueError, "more than one column is called a"),
    ],
)
def test_what_is_no_table_is_refused(data, error, said):
    with pytest.raises(error, match=said):
        D.from_arrow(data)


def test_a_state_does_not_depend_on_the_chunks():
    table = pa.table({"x": np.arange(200)})
    it = iter(D.from_arrow(table).shuffle(10, seed=1).batch(3))
    next(it)
    chunked = pa.concat_tables([table[:90], table[90:]])
    again = D.from_arrow(chunked).shuffle(10, seed=1).batch(3).iterator(state=it.state())
    assert [b["x"].tolist() for b in again] == [b["x"].tolist() for b in it]
