"""Encoding, writing and telling what is there."""

import gc
import gzip
import os
import sys
import zlib

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr


def test_values_become_what_an_example_holds():
    values = {
        "int": 3, "bool": True, "float": 0.5, "text": "é", "bytes": b"\xff\0", "list": [1, 2], "floats": (0.5, 1.0),
        "texts": ["a", b"b"], "array": np.arange(4).reshape(2, 2), "half": np.float16(0.25), "small": np.uint8(200),
        "none": None, "empty": [], "typed": np.empty(0, np.float32),
    }  # fmt: skip
    got = hr.io.Example.parse(hr.io.encode_example(values))
    assert {name: value.tolist() for name, value in got.items()} == {
        "int": [3], "bool": [1], "float": [0.5], "text": ["é".encode()], "bytes": [b"\xff\0"], "list": [1, 2],
        "floats": [0.5, 1.0], "texts": [b"a", b"b"], "array": [0, 1, 2, 3], "half": [0.25], "small": [200], "typed": [],
    }  # fmt: skip
    assert got["float"].dtype == np.float32
    assert got["small"].dtype == np.int64


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (np.uint64(2**63), ValueError, "does not fit"),
        (1j, TypeError, "complex"),
        ({"nested": 1}, TypeError, "nested"),
        ([b"a", 1], TypeError, "'x'"),
    ],
)
def test_what_an_example_cannot_hold_is_refused_by_name(value, error, said):
    with pytest.raises(error, match=said) as caught:
        hr.io.encode_example({"x": value})
    assert "'x'" in str(caught.value)


def test_columns_and_single_rows_are_encoded_alike():
    columns = {
        "a": np.arange(6).reshape(3, 2),
        "b": np.array([0.5, 1.5, 2.5]),
        "c": hr.Ragged.from_rows([[1, 2], [], [3]]),
        "d": pa.array(["x", "", "yy"]),
        "e": [b"1", b"22", b"\0"],
        "f": np.array([b"p", b"q", b"r"], object),
        "g": [[1], [2, 3], []],
        "h": pa.array([7, 8, 9]),
        "i": [["t"], [], ["u", "v"]],
    }
    rows = hr.io.encode_examples(columns)
    assert rows.type == pa.large_binary()
    parsed = [hr.io.Example.parse(r.as_py()) for r in rows]
    assert parsed[0]["a"].tolist() == [0, 1]
    assert [p["c"].tolist() for p in parsed] == [[1, 2], [], [3]]
    assert [p["d"].tolist() for p in parsed] == [[b"x"], [b""], [b"yy"]]
    assert [p["g"].tolist() for p in parsed] == [[1], [2, 3], []]
    assert [p["h"].tolist() for p in parsed] == [[7], [8], [9]]
    assert [p["i"].tolist() for p in parsed] == [[b"t"], [], [b"u", b"v"]]
    for row, example in zip(rows, parsed, strict=True):
        assert hr.io.encode_example(example) == row.as_py()
    with pytest.raises(ValueError, match="one length"):
        hr.io.encode_examples({"a": [1, 2], "b": [1]})
    with pytest.raises(TypeError, match="different rows"):
        hr.io.encode_examples({"a": [[1], [0.5]]})


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "ZSTD"])
def test_a_file_holds_what_was_written(tmp_path, compression):
    path = tmp_path / "data.tfrecord"
    records = [b"one", b"", b"x" * 100_000] * 20
    with hr.io.TFRecordWriter(path, compression) as writer:
        for record in records[:30]:
            writer.write(record)
        writer.write_all(records[30:])
    assert list(hr.TFRecordDataset(path, compression)) == records
    if compression in ("GZIP", "ZLIB"):
        data = (gzip if compression == "GZIP" else zlib).decompress(path.read_bytes())
        assert len(data) == sum(len(r) + 16 for r in records)


def test_a_file_appears_when_it_is_whole_and_not_at_all_if_it_fails(tmp_path):
    path = tmp_path / "data.tfrecord"
    writer = hr.io.TFRecordWriter(path)
    writer.write(b"one")
    writer.flush()
    assert not path.exists()
    writer.close()
    writer.close()
    assert list(hr.TFRecordDataset(path)) == [b"one"]
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"two")
    with pytest.raises(KeyError), hr.io.TFRecordWriter(path) as writer:
        writer.write(b"half")
        raise KeyError
    assert list(hr.TFRecordDataset(path)) == [b"one"]
    assert [p.name for p in tmp_path.iterdir()] == ["data.tfrecord"]
    with pytest.raises(TypeError, match="'x'"), hr.io.TFRecordWriter(path) as writer:
        writer.write({"x": object()})
    assert list(hr.TFRecordDataset(path)) == [b"one"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (10, "a record is bytes, or a dict that becomes an Example, not int: write array.tobytes()"),
        (True, "not bool"),
        ("text", r"not str: write 'text'\.encode\(\)"),
        (np.array([b"a", None], object), "not ndarray"),
        (np.arange(3), "not ndarray"),
        (np.int64(7), "not int64"),
        ([1, 2], "not list"),
        (None, "not NoneType"),
        (memoryview(b"abcdef")[::2], "not a memoryview with gaps"),
    ],
)
def test_a_record_that_is_no_bytes_is_refused(tmp_path, record, said):
    with hr.io.TFRecordWriter(tmp_path / "data.tfrecord") as writer:
        writer.write(b"fine")
        with pytest.raises(TypeError, match=said):
            writer.write(record)
        with pytest.raises(TypeError, match=f"record 1: .*{said}"):
            writer.write_all([b"fine", record])
    assert list(hr.TFRecordDataset(tmp_path / "data.tfrecord")) == [b"fine"]
    with pytest.raises(TypeError, match=said):
        hr.io.infer_features([record])


def test_bytes_of_every_kind_are_records(tmp_path):
    records = [b"a\0", bytearray(b"b"), memoryview(b"xyz")[1:], np.bytes_(b"c"), memoryview(np.arange(2, dtype="u1"))]
    with hr.io.TFRecordWriter(tmp_path / "data.tfrecord") as writer:
        for record in records:
            writer.write(record)
        writer.write_all(records)
        writer.write_all(pa.array([b"d"]))
    assert list(hr.TFRecordDataset(tmp_path / "data.tfrecord")) == 2 * [bytes(r) for r in records] + [b"d"]


@pytest.mark.parametrize("records", [b"abc", "abc", pa.array(["a"]), pa.array([1]), {"x": 1}])
def test_what_holds_no_records_is_refused(tmp_path, records):
    with (
        pytest.raises(TypeError, match=r"records are bytes, not|takes many records, not one"),
        hr.io.TFRecordWriter(tmp_path / "x") as writer,
    ):
        writer.write_all(records)


def test_a_file_with_an_index_can_be_read_in_any_order(tmp_path):
    path = tmp_path / "data.tfrecord"
    with hr.io.TFRecordWriter(path, index=True) as writer:
        writer.write_all([b"%d" % i for i in range(100)])
    assert (tmp_path / ".headrace" / "data.tfrecord.idx").exists()
    ds = hr.TFRecordDataset(path)
    assert len(ds) == 100
    assert ds[42] == b"42"
    with pytest.raises(ValueError, match="GZIP"):
        hr.io.TFRecordWriter(path, "GZIP", index=True)


def test_remote_files_are_written_too():
    path = "memory://somewhere/data.tfrecord"
    with hr.io.TFRecordWriter(path) as writer:
        writer.write({"x": 1})
    assert len(list(hr.TFRecordDataset(path))) == 1


def test_features_are_inferred(tmp_path):
    path = tmp_path / "data.tfrecord"
    rows = [
        {"id": i, "ids": list(range(i)), "pair": [0.5, 1.0], "name": "x", "rare": None if i else 1} for i in range(5)
    ]
    with hr.io.TFRecordWriter(path, "GZIP") as writer:
        for row in rows:
            writer.write(row)
    features = hr.io.infer_features(path, compression_type="GZIP")
    assert features == {
        "id": hr.io.FixedLenFeature([], np.dtype(np.int64)),
        "ids": hr.io.VarLenFeature(np.dtype(np.int64)),
        "name": hr.io.FixedLenFeature([], np.dtype(bytes)),
        "pair": hr.io.FixedLenFeature([2], np.dtype(np.float32)),
        "rare": hr.io.VarLenFeature(np.dtype(np.int64)),
    }
    parsed = hr.io.parse_example(list(hr.TFRecordDataset(path, "GZIP")), features)
    assert parsed["ids"].to_list() == [list(range(i)) for i in range(5)]
    assert "rare" not in hr.io.infer_features([hr.io.encode_example(row) for row in rows[1:]])


def test_what_cannot_be_inferred_is_said():
    with pytest.raises(ValueError, match="no records"):
        hr.io.infer_features([])
    with pytest.raises(hr.ParseError, match="'x' is float32 and int64"):
        hr.io.infer_features([hr.io.encode_example({"x": 1}), hr.io.encode_example({"x": 1.5})])
    with pytest.raises(hr.ParseError, match="record 1 is not an Example"):
        hr.io.infer_features([b"", b"\xff"])
    with pytest.raises(hr.ParseError, match="record 0 is a SequenceExample"):
        hr.io.infer_features([hr.io.encode_sequence_example({}, {"x": [[1]]})])


def test_shards():
    assert hr.io.plan_shards(30_000_000_000, 8) == (80, 375_000_000)
    assert hr.io.plan_shards(1_000, 8) == (1, 1_000)
    assert hr.io.plan_shards(95_000_000, 8) == (9, 10_555_556)
    assert hr.io.plan_shards(0, 1) == (1, 0)
    with pytest.raises(ValueError, match="servers"):
        hr.io.plan_shards(5, 0)


@pytest.fixture
def no_credentials(monkeypatch, tmp_path):
    """A store whose library finds no credentials, and what is raised where no caller can catch it."""
    s3fs = pytest.importorskip("s3fs")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    yield unraisable
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize("rows", [1, 60])  # those of one request, and of several
def test_a_store_without_credentials_is_one_error(no_credentials, rows):
    writer = hr.io.TFRecordWriter("s3://some-bucket/data.tfrecord")
    with pytest.raises(
        hr.TransportError, match=r"s3://some-bucket/data\.tfrecord could not be written.*NoCred"
    ) as caught:
        for _ in range(rows):
            writer.write(bytes(1 << 20))
        writer.close()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    del writer, caught
    gc.collect()
    assert not no_credentials


def test_a_writer_to_a_store_that_is_never_closed_says_and_leaves_nothing(no_credentials):
    writer = hr.io.TFRecordWriter("s3://some-bucket/data.tfrecord")
    writer.write(b"a")
    writer.flush()
    del writer
    gc.collect()
    assert not no_credentials


def test_a_writer_to_a_store_that_is_discarded_uploads_nothing(no_credentials):
    with pytest.raises(KeyError), hr.io.TFRecordWriter("s3://some-bucket/data.tfrecord") as writer:
        writer.write(b"a")
        raise KeyError
    del writer
    gc.collect()
    assert not no_credentials
