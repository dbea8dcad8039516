"""Datasets as Arrow streams: values, passes, memory, errors, and what reads them."""

import gc
import subprocess
import sys

import duckdb
import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest

import headrace as hr

D = hr.Dataset


def rows(n=10):
    return D.range(n).map(lambda x: {"x": x, "b": x * 2, "name": f"n{int(x)}"})


def test_columns_stand_in_the_order_of_the_elements():
    table = rows(3).to_arrow()
    assert table.column_names == ["x", "b", "name"]
    assert table.to_pylist() == [{"x": i, "b": 2 * i, "name": f"n{i}"} for i in range(3)]


def test_elements_without_names():
    assert D.range(3).to_arrow().to_pydict() == {"value": [0, 1, 2]}
    pair = D.range(2).map(lambda x: (x, {"y": x + 0.5}))
    assert pair.to_arrow().to_pydict() == {"0": [0, 1], "1/y": [0.5, 1.5]}


def test_max_rows_takes_the_first_and_an_endless_dataset_needs_it():
    assert D.range(5).repeat().to_arrow(max_rows=7)["value"].to_pylist() == [0, 1, 2, 3, 4, 0, 1]
    with pytest.raises(ValueError, match="take"):
        D.range(5).repeat().to_arrow()
    with pytest.raises(ValueError, match="max_rows"):
        D.range(5).to_arrow(max_rows=0)


def test_an_empty_dataset_has_the_columns_of_its_spec():
    table = D.range(0).map(lambda x: {"x": x, "half": x / 2}).to_arrow()
    assert (table.num_rows, table.schema.types) == (0, [pa.int64(), pa.float64()])
    unknown = D.range(0).map(lambda x: {"x": object()}, mode="eager")
    with pytest.raises(hr.SpecError, match="output_signature"):
        unknown.to_arrow()


def test_what_reads_arrow_streams_reads_datasets():
    ds = rows(100)
    assert pa.table(ds).num_rows == 100
    assert pl.DataFrame(ds)["b"].sum() == 9900
    assert pl.from_arrow(ds).struct.unnest()["b"].sum() == 9900
    assert duckdb.sql("select sum(b), count(*) from ds where x < 10").fetchall() == [(90, 10)]
    assert pa.RecordBatchReader.from_stream(ds).read_all().num_rows == 100
    wanted = pa.schema({"x": pa.int32(), "b": pa.int64(), "name": pa.string()})
    assert pa.RecordBatchReader.from_stream(ds, schema=wanted).read_all().schema == wanted


def test_frames():
    frame = rows(3).to_pandas()
    pd.testing.assert_frame_equal(frame, pd.DataFrame({"x": [0, 1, 2], "b": [0, 2, 4], "name": ["n0", "n1", "n2"]}))
    assert rows(5).to_polars(max_rows=2).rows() == [(0, 0, "n0"), (1, 2, "n1")]


def test_an_export_is_one_pass():
    ds = D.range(50).shuffle(50, seed=3)
    first, second = ds.to_arrow()["value"].to_pylist(), [int(x) for x in ds]
    again = D.range(50).shuffle(50, seed=3)
    assert [[int(x) for x in again], [int(x) for x in again]] == [first, second]


def test_a_generator_is_read_once_though_only_rows_tell_the_columns():
    read = []

    def source():
        for i in range(200):
            read.append(i)
            yield {"x": i}

    ds = D.from_generator(source, output_signature={"x": hr.TensorSpec(None, None)})
    assert pa.table(ds)["x"].to_pylist() == list(range(200))
    assert read == list(range(200))


def test_a_reader_that_is_dropped_closes_its_pass():
    closed = []

    def source():
        try:
            yield from range(10**9)
        finally:
            closed.append(True)

    ds = D.from_generator(source, output_signature=hr.TensorSpec([], np.int64)).map(lambda x: {"x": x})
    reader = pa.RecordBatchReader.from_stream(ds)
    assert reader.read_next_batch().num_rows > 0
    del reader
    gc.collect()
    assert closed == [True]


def test_batches_are_small_however_long_the_dataset():
    reader = pa.RecordBatchReader.from_stream(D.range(3_000_000).map(lambda x: {"x": x, "y": x + 0.5}))
    sizes = [batch.nbytes for batch in reader]
    assert len(sizes) > 5
    assert max(sizes) < 8 << 20


def test_a_large_dataset_streams_in_constant_memory():
    """1.6 GB of rows."""
    code = """
import headrace as hr, numpy as np
ds = hr.Dataset.range(200_000).map(lambda x: {"x": x, "v": np.zeros(1000) + x})
import pyarrow as pa
def peak():
    return int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1]) >> 10
rows = 0
for batch in pa.RecordBatchReader.from_stream(ds.take(20_000)):
    rows += batch.num_rows
before = peak()
for batch in pa.RecordBatchReader.from_stream(ds):
    rows += batch.num_rows
print(rows, peak() - before)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(shown[0]) == 220_000
    assert int(shown[1]) < 500  # megabytes; the executor reads some batches ahead


def test_an_error_keeps_its_message():
    def fails(x):
        if x == 5:
            raise ValueError("bad five")
        return {"x": x}

    ds = D.range(10).map(fails, mode="eager")
    with pytest.raises(Exception, match="bad five") as caught:
        ds.to_arrow()
    assert "map" in str(caught.value)
    with pytest.raises(Exception, match="bad five"):
        pa.table(ds)
    assert ds.ignore_errors().to_arrow()["x"].to_pylist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize("dtype", [np.complex64, ml_dtypes.bfloat16])
def test_dtypes_that_arrow_does_not_have(dtype):
    ds = D.from_tensor_slices({"z": np.zeros(3, dtype)})
    with pytest.raises(TypeError, match=r"column 'z' is of dtype .*, which Arrow has nothing like: map its? "):
        ds.to_arrow()


def test_units_of_time():
    times = np.array(["2020-01-01T05", "1969-01-01T01"], "datetime64[h]")
    table = D.from_tensor_slices({"h": times, "d": times.astype("M8[D]"), "w": np.array([1, 2], "m8[W]")}).to_arrow()
    assert table.schema.types == [pa.timestamp("s"), pa.date32(), pa.duration("s")]
    with pytest.raises(TypeError, match="durations"):
        D.from_tensor_slices({"m": np.array([1], "m8[M]")}).to_arrow()
    assert table["h"].to_numpy().astype("M8[h]").tolist() == times.tolist()
    assert [value.days for value in table["w"].to_pylist()] == [7, 14]


def test_windows_say_what_to_do():
    with pytest.raises(TypeError, match="flat_map"):
        D.range(5).window(2).to_arrow()


def test_rows_of_different_shapes_are_lists():
    ds = D.range(3).map(lambda x: {"v": np.zeros((int(x) + 1, 2))}, mode="eager")
    assert [len(v) for v in ds.to_arrow()["v"].to_pylist()] == [1, 2, 3]


@pytest.fixture
def folder(tmp_path):
    for i in range(3):
        table = pa.table({"x": range(4 * i, 4 * i + 4), "s": ["a", None, "b", "c"]})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    return tmp_path


def test_a_pyarrow_dataset_is_read_by_fragments_and_resumes(folder):
    ds = D.from_arrow(pds.dataset(folder), nulls={"s": "?"})
    whole = [(int(row["x"]), row["s"]) for row in ds]
    assert whole == [(i, "a?bc"[i % 4]) for i in range(12)]
    for cut in range(13):
        it = iter(ds)
        for _ in range(cut):
            next(it)
        assert [(int(row["x"]), row["s"]) for row in ds.iterator(state=it.state())] == whole[cut:]
    union = pds.dataset([pds.dataset(folder), pds.dataset(folder)])
    assert [int(row["x"]) for row in D.from_arrow(union, nulls={"s": ""})] == [*range(12), *range(12)]
    assert [int(row["x"]) for row in D.from_arrow(pds.dataset(pa.table({"x": [1, 2]})))] == [1, 2]


def test_a_pyarrow_dataset_that_cannot_be_read_so_says_why(folder):
    filtered = pds.dataset(folder).filter(pds.field("x") > 3)
    with pytest.raises(ValueError, match=r"ds\.filter"):
        D.from_arrow(filtered)
    with pytest.raises(TypeError, match="Scanner"):
        D.from_arrow(pds.dataset(folder).scanner())
    with pytest.raises(hr.ElementError, match="column 's' has no value"):
        list(D.from_arrow(pds.dataset(folder)))


def test_what_stands_for_nulls():
    frame = pd.DataFrame({"age": [31.0, None], "city": ["Bern", None], 7: pd.array([1, None], dtype="Int64")})
    filled = [tuple(row.values()) for row in D.from_pandas(frame, nulls={"age": -1, "city": "", 7: 0})]
    assert filled == [(31.0, "Bern", 1), (-1.0, "", 0)]
    assert np.isnan(D.from_pandas(frame[["age"]])[1]["age"])
    with pytest.raises(hr.SpecError, match="'town', and there is no such column"):
        D.from_pandas(frame, nulls={"town": ""})
    with pytest.raises(hr.SpecError, match="'city': 5} is no value of"):
        D.from_pandas(frame, nulls={"city": 5})
    with pytest.raises(TypeError, match="fillna"):
        D.from_pandas(frame["city"], nulls={"city": ""})
    empty = D.from_arrow(pa.table({"n": pa.nulls(2)}), nulls={"n": "none"})
    assert [row["n"] for row in empty] == ["none", "none"]
    polars = pl.DataFrame({"x": [1, None], "c": pl.Series(["a", None], dtype=pl.Categorical)})
    assert [tuple(r.values()) for r in D.from_polars(polars, nulls={"x": 0, "c": "?"})] == [(1, "a"), (0, "?")]
    assert [r["c"] for r in D.from_arrow(polars, nulls={"x": 0, "c": "?"})] == ["a", "?"]


@pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["a", "b"])])
def test_categories_of_polars(kind):
    frame = pl.DataFrame({"c": pl.Series(["a", "b", "a"], dtype=kind)})
    for ds in (D.from_polars(frame), D.from_arrow(frame)):
        assert [row["c"] for row in ds] == ["a", "b", "a"]
