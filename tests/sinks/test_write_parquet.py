"""Columns of Parquet files: what the first rows lack, later ones may have."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr

ROWS = 3000
"""More than are looked at before there are threads."""


def rows_of(files):
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def lists(kind):
    """Rows of lists that are empty for a long time."""
    filled = [kind(f"word {i}") for i in range(3)]
    return [[]] * (ROWS - 2) + [filled, filled[:1]]


@pytest.mark.parametrize("kind", [str, lambda text: text.encode()], ids=["text", "bytes"])
def test_ragged_text_that_is_empty_at_first(tmp_path, kind):
    rows = lists(kind)
    table = pa.table({"words": pa.array(rows, pa.list_(pa.string() if kind is str else pa.binary()))})
    ds = hr.Dataset.from_arrow(table)
    assert [row["words"] for row in rows_of(ds.write_parquet(tmp_path / "t"))] == rows


def test_ragged_bytes_of_records(tmp_path):
    """As they come from TFRecord files, where the first records have none."""
    records = hr.Dataset.range(ROWS).map(
        lambda x: {"x": x, "words": np.array([b"a", b"b"][: int(x) // (ROWS - 1) * 2], object)}
    )
    records.write_tfrecord(tmp_path / "t")
    features = {"x": hr.io.FixedLenFeature([], np.int64), "words": hr.io.VarLenFeature(bytes)}
    ds = hr.Dataset.from_tfrecord(tmp_path / "t-*.tfrecord", features)
    got = rows_of(ds.write_parquet(tmp_path / "p"))
    assert got[0]["words"] == [] and got[-1]["words"] == [b"a", b"b"]


def test_nested_lists(tmp_path):
    rows = [[]] * (ROWS - 1) + [[["a", "b"], []]]
    ds = hr.Dataset.from_arrow(pa.table({"deep": pa.array(rows, pa.list_(pa.list_(pa.string())))}))
    files = ds.write_parquet(tmp_path / "t")
    assert [row["deep"] for row in rows_of(files)] == rows
    assert list(hr.ParquetDataset(files).skip(ROWS - 1))[0]["deep"].to_list() == [["a", "b"], []]  # noqa: RUF015


def test_a_kind_that_is_unknown_at_first_is_an_error_that_says_so(tmp_path):
    def untold(x):
        return {"words": np.array(["a"][: int(x) // (ROWS - 1)], object)}

    ds = hr.Dataset.range(ROWS).map(untold, output_signature={"words": hr.TensorSpec(None, None)})
    with pytest.raises(TypeError, match=r"column 'words' .*output_signature"):
        ds.write_parquet(tmp_path / "t")
    told = hr.Dataset.range(ROWS).map(untold, output_signature={"words": hr.TensorSpec([None], str)})
    assert rows_of(told.write_parquet(tmp_path / "t"))[-1] == {"words": ["a"]}
