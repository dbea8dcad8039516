"""Files of rows: which row goes where, and that there are whole files or none."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.sinks import deal
from headrace.testing import our_threads


def numbered(n):
    return hr.Dataset.range(n).map(lambda x: {"x": x, "half": x / 2, "name": f"row {x}", "ids": np.arange(x % 3)})


def read(files, **options):
    return [int(row["x"]) for row in hr.Dataset.from_tfrecord(files, **options)]


def left(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "ZSTD"])
def test_what_is_written_is_read(tmp_path, compression):
    files = numbered(1000).write_tfrecord(tmp_path / "train", shards=3, compression=compression)
    assert [Path(f).name for f in files] == [f"train-0000{i}-of-00003.tfrecord" for i in range(3)]
    rows = list(hr.Dataset.from_tfrecord(tmp_path / "train-*.tfrecord", compression_type=compression))
    assert [int(r["x"]) for r in rows] == list(range(1000))
    assert rows[5]["half"] == np.float32(2.5) and rows[5]["name"] == b"row 5" and rows[5]["ids"].tolist() == [0, 1]


def test_rows_of_a_known_number_lie_in_order_in_files_of_equal_length(tmp_path):
    files = numbered(10).write_tfrecord(tmp_path / "t", shards=4)
    assert [read(f) for f in files] == [[0, 1], [2, 3, 4], [5, 6], [7, 8, 9]]


def test_rows_of_an_unknown_number_are_dealt_out_in_turn(tmp_path):
    ds = hr.Dataset.range(2000).filter(lambda x: x % 2 == 0).map(lambda x: {"x": x})
    files = ds.write_tfrecord(tmp_path / "t", shards=3)
    assert read(files[1])[:3] == [2, 8, 14]
    assert read(files, num_parallel_reads=3) == list(range(0, 2000, 2))


def test_an_unknown_number_of_files_is_found_while_writing(tmp_path, monkeypatch):
    monkeypatch.setattr(deal, "SHARD_BYTES", 10_000)
    files = hr.Dataset.range(1000).filter(lambda x: True).map(lambda x: {"x": x}).write_tfrecord(tmp_path / "t")
    assert len(files) > 2 and all(f.endswith(f"-of-{len(files):05d}.tfrecord") for f in files)
    assert all(Path(f).stat().st_size < 12_000 for f in files)
    assert read(files) == list(range(1000))


def test_files_are_planned_by_size(tmp_path):
    ds = hr.Dataset.range(45).map(lambda x: bytes(1_000_000))
    assert len(ds.write_tfrecord(tmp_path / "t")) == hr.io.plan_shards(45_000_000).shards == 4


def test_bytes_are_records_as_they_are(tmp_path):
    records = [b"", b"a", b"\0" * 100]
    (file,) = hr.Dataset.from_generator(lambda: records, output_signature=hr.TensorSpec((), bytes)).write_tfrecord(
        tmp_path / "t"
    )
    assert list(hr.TFRecordDataset(file)) == records


def test_each_file_has_an_index(tmp_path):
    files = numbered(10).write_tfrecord(tmp_path / "t", shards=2)
    assert left(tmp_path) == [".headrace", *(Path(f).name for f in files)]
    assert left(tmp_path / ".headrace") == [Path(f).name + ".idx" for f in files]
    ds = hr.Dataset.from_tfrecord(files)
    assert len(ds) == 10 and ds[7]["x"] == 7
    files = numbered(10).write_tfrecord(tmp_path / "t", shards=3, index=False, overwrite=True)
    assert left(tmp_path) == [Path(f).name for f in files]


def test_more_files_than_rows(tmp_path):
    files = numbered(2).write_tfrecord(tmp_path / "t", shards=4)
    assert len(files) == 4 and read(files) == [0, 1]


@pytest.mark.parametrize("shards", [None, 2])
def test_an_empty_dataset(tmp_path, shards):
    files = numbered(0).write_tfrecord(tmp_path / "t", shards=shards)
    assert len(files) == (shards or 1) and list(hr.TFRecordDataset(files)) == []


def test_nested_dicts_have_names_with_a_slash(tmp_path):
    (file,) = hr.Dataset.range(2).map(lambda x: {"a": {"b": x, "c": -x}}).write_tfrecord(tmp_path / "t")
    assert list(hr.Dataset.from_tfrecord(file))[1] == {"a/b": 1, "a/c": -1}


@pytest.mark.parametrize(
    ("made", "remedy"),
    [
        (lambda x: (x, x), "map(lambda x, y: {'x': x, 'y': y})"),
        (lambda x: x, "map(lambda x: {'x': x})"),
        (lambda x: str(x), "map(lambda x: {'x': x})"),
    ],
)
def test_what_has_no_names_is_refused_with_the_remedy(tmp_path, made, remedy):
    with pytest.raises(TypeError) as caught:
        hr.Dataset.range(3).map(made).write_tfrecord(tmp_path / "t")
    assert remedy in str(caught.value)
    assert left(tmp_path) == []


def test_the_same_files_whatever_the_threads(tmp_path):
    written = []
    for threads in (1, 4):
        files = numbered(3000).write_tfrecord(tmp_path / f"t{threads}", 2, "GZIP", num_parallel_writes=threads)
        written.append([list(hr.TFRecordDataset(f, "GZIP")) for f in files])
    assert written[0] == written[1]


def test_files_that_are_there_are_replaced_only_on_demand(tmp_path):
    numbered(10).write_tfrecord(tmp_path / "t", shards=5)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        numbered(3).write_tfrecord(tmp_path / "t")
    (file,) = numbered(3).write_tfrecord(tmp_path / "t", overwrite=True)
    assert left(tmp_path) == [".headrace", Path(file).name] and read(file) == [0, 1, 2]
    assert left(tmp_path / ".headrace") == [Path(file).name + ".idx"]


def test_an_error_leaves_nothing_and_what_was_there(tmp_path):
    numbered(10).write_tfrecord(tmp_path / "t", shards=2)
    before = left(tmp_path)
    bad = hr.Dataset.range(5000).map(lambda x: {"x": 1 // (x - 4000)})
    with pytest.raises(hr.ElementError, match="element 4000"):
        bad.write_tfrecord(tmp_path / "t", shards=3, overwrite=True)
    assert left(tmp_path) == before and our_threads() == []


def test_an_infinite_dataset_is_refused(tmp_path):
    with pytest.raises(ValueError, match="take"):
        numbered(3).repeat().write_tfrecord(tmp_path / "t")


@pytest.mark.parametrize(("how", "leftovers"), [(signal.SIGINT, False), (signal.SIGKILL, True)])
def test_a_stopped_run_leaves_nothing_or_what_the_next_removes(tmp_path, how, leftovers):
    code = """
import os, signal, sys, headrace as hr
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs lack
said = []
def row(x):
    if not said and x % 1000 == 0 and os.listdir(os.path.dirname(sys.argv[1])):
        said.append(print("going", flush=True))
    return {"x": x, "data": bytes(100)}
hr.Dataset.range(10**9).map(row).write_tfrecord(sys.argv[1], shards=100_000)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "t")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout.readline() == b"going\n"
    os.kill(child.pid, how)
    child.communicate()
    assert child.returncode != 0
    assert all(name.endswith(".hrtmp") for name in left(tmp_path))
    assert bool(left(tmp_path)) == leftovers
    files = numbered(3).write_tfrecord(tmp_path / "t", index=False)
    assert left(tmp_path) == [Path(f).name for f in files]


def test_of_two_writers_the_one_that_ends_last_replaces_the_other(tmp_path):
    def row(x):
        if x == 900:
            numbered(2).write_tfrecord(tmp_path / "t", overwrite=True)
        return {"x": x}

    hr.Dataset.range(1000).map(row).write_tfrecord(tmp_path / "t", shards=2, index=False, overwrite=True)
    assert left(tmp_path) == [f"t-0000{i}-of-00002.tfrecord" for i in range(2)]
    assert read(tmp_path / "t-*") == list(range(1000))


def test_files_that_another_wrote_meanwhile_are_not_replaced_unasked(tmp_path):
    def row(x):
        if x == 900:
            numbered(2).write_tfrecord(tmp_path / "t", index=False)
        return {"x": x}

    with pytest.raises(FileExistsError, match="overwrite=True"):
        hr.Dataset.range(1000).map(row).write_tfrecord(tmp_path / "t", shards=2)
    assert left(tmp_path) == ["t-00000-of-00001.tfrecord"]


def test_a_url(tmp_path):
    files = numbered(10).write_tfrecord("memory://out/t", shards=2)
    assert files == [f"memory://out/t-0000{i}-of-00002.tfrecord" for i in range(2)]
    assert read(files) == list(range(10))


def test_parquet(tmp_path):
    files = numbered(100).write_parquet(tmp_path / "d", shards=3)
    assert [Path(f).name for f in files] == [f"d-0000{i}-of-00003.parquet" for i in range(3)]
    rows = [row for f in files for row in pq.read_table(f).to_pylist()]
    assert rows == [{"half": x / 2, "ids": list(range(x % 3)), "name": f"row {x}", "x": x} for x in range(100)]


def test_parquet_keeps_shapes_that_are_known(tmp_path):
    ds = hr.Dataset.from_tensor_slices({"image": np.arange(24, dtype=np.uint8).reshape(2, 3, 4)})
    (file,) = ds.write_parquet(tmp_path / "d")
    assert str(pq.read_schema(file).field("image").type).count("fixed_size_list") == 2
    assert pq.read_table(file).to_pylist()[1]["image"] == np.arange(12, 24).reshape(3, 4).tolist()


def test_parquet_of_rows_that_differ_is_refused(tmp_path):
    ds = hr.Dataset.range(500).map(lambda x: {"x": x if x < 400 else "text"})
    with pytest.raises(TypeError, match="Parquet file"):
        ds.write_parquet(tmp_path / "d")
    assert left(tmp_path) == []


def test_a_record_that_cannot_be_parsed_is_one_error_in_its_place(tmp_path):
    rows = [hr.io.encode_example({"x": i} if i != 150 else {"x": [1, 2]}) for i in range(300)]
    (file,) = hr.Dataset.from_generator(lambda: rows, output_signature=hr.TensorSpec((), bytes)).write_tfrecord(
        tmp_path / "t"
    )
    it = iter(hr.Dataset.from_tfrecord(file))
    assert [int(next(it)["x"]) for _ in range(150)] == list(range(150))
    offset = sum(len(r) + 16 for r in rows[:150])
    with pytest.raises(hr.ElementError, match=f"record 150, byte {offset}") as caught:
        next(it)
    assert "'x'" in str(caught.value)
    assert [int(r["x"]) for r in it] == list(range(151, 300))
    assert len(read(file, on_error="skip")) == 299


def test_from_tfrecord_on_every_engine(tmp_path, run):
    files = numbered(30).write_tfrecord(tmp_path / "t", shards=2)
    rows = run(hr.Dataset.from_tfrecord(files).skip(10).take(15))
    assert [int(r["x"]) for r in rows] == list(range(10, 25))
    assert rows[1]["ids"].tolist() == [0, 1] and rows[1]["name"] == b"row 11"


def test_given_features_are_all_that_is_parsed(tmp_path):
    files = numbered(3).write_tfrecord(tmp_path / "t")
    ds = hr.Dataset.from_tfrecord(files, {"x": hr.io.FixedLenFeature([], np.int64)})
    assert list(ds) == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert ds.element_spec == {"x": hr.TensorSpec((), np.int64)}


@pytest.mark.parametrize("values", [[b"a\0", b""], ["text"], [1.5]])
def test_the_first_rows_of_a_parquet_column_may_be_empty(tmp_path, values):
    rows = [[], [], values, [], values]
    ds = hr.Dataset.range(5).map(
        lambda i: {"x": np.array(rows[int(i)], object if isinstance(values[0], str | bytes) else None)}
    )
    (file,) = ds.write_parquet(tmp_path / "t", shards=1)
    assert pq.read_table(file)["x"].to_pylist() == rows


WRITERS = {
    "tfrecord": lambda ds, path, **how: ds.write_tfrecord(path, **how),
    "webdataset": lambda ds, path, **how: ds.map(lambda i: {"__key__": str(i), "txt": str(i)}).write_webdataset(
        path, **how
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_files_that_cannot_be_read_back_are_not_published(tmp_path, monkeypatch, writer):
    def unreadable(*args, **more):
        raise OSError(5, "Input/output error")

    write, ds = WRITERS[writer], hr.Dataset.range(100).map(lambda i: {"x": i} if writer == "tfrecord" else i)
    before = write(ds, tmp_path / "t", shards=2)
    bytes_before = [Path(file).read_bytes() for file in before]
    monkeypatch.setattr("headrace.sinks.writing.scan_index", unreadable)
    there = left(tmp_path)
    with pytest.raises(OSError, match="Input/output"):
        write(ds.take(50), tmp_path / "t", shards=3, overwrite=True)
    with pytest.raises(OSError, match="Input/output"):
        write(ds, tmp_path / "new")
    assert left(tmp_path) == there and [Path(file).read_bytes() for file in before] == bytes_before


def test_a_tfrecord_that_cannot_be_read_back_is_not_published(tmp_path, monkeypatch):
    def unreadable(*args, **more):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("headrace.formats.shared.index.scan_index", unreadable)
    writer = hr.io.TFRecordWriter(tmp_path / "t.tfrecord", index=True)
    writer.write(b"a")
    with pytest.raises(OSError, match="Input/output"):
        writer.close()
    assert left(tmp_path) == []


def tar_of(path, key, ending="txt"):
    return (
        hr.Dataset.range(2).map(lambda i: {"__key__": key if i == 0 else "last", ending: b"v"}).write_webdataset(path)
    )


@pytest.mark.parametrize(
    ("key", "ending"),
    [("a\0b", "txt"), ("a", "t\0xt"), ("a.b", "txt"), ("./a", "txt"), ("/a", "txt"), ("a/", "txt"), ("__a", "txt"),
     ("a/__b", "txt"), ("", "txt"), ("a", "TXT"), ("a", ""), ("a", "x/y"), ("x" * 65532, "txt"), ("a\ud800", "txt")],
)  # fmt: skip
def test_a_key_that_would_not_be_read_back_is_refused(tmp_path, key, ending):
    with pytest.raises(ValueError, match="__key__") as caught:
        tar_of(tmp_path / "t", key, ending)
    assert left(tmp_path) == [] and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "key",
    ["a\nb", "a\r", "a/b", "a/./b", "a//b", "../a", " a ", "é", "a\\b", "x" * 95, "x" * 96, "x" * 65531, b"a\xff"],
)
def test_any_other_key_is_read_back_exactly(tmp_path, key):
    rows = list(hr.WebDataset(tar_of(tmp_path / "t", key)))
    assert [row["__key__"] for row in rows] == [os.fsdecode(key), "last"]


@pytest.mark.parametrize("run_bytes", [1, 1 << 22])
def test_two_samples_in_a_row_with_the_same_key_are_refused(tmp_path, monkeypatch, run_bytes):
    monkeypatch.setattr("headrace.sinks.write_webdataset.TarEncoding.run_bytes", run_bytes)
    ds = hr.Dataset.range(8).map(lambda i: {"__key__": str(i // 2), "txt": b"v"}, mode="eager")
    with pytest.raises(ValueError, match="two samples in a row have the __key__ '0'"):
        ds.write_webdataset(tmp_path / "t")
    assert left(tmp_path) == []
    again = hr.Dataset.range(3).map(lambda i: {"__key__": str(i), "txt": b"v"}).repeat(2)
    assert len(list(hr.WebDataset(again.write_webdataset(tmp_path / "apart")))) == 6


def test_a_sample_of_a_key_alone_is_refused(tmp_path):
    with pytest.raises(TypeError, match="add a component"):
        hr.Dataset.range(2).map(lambda i: {"__key__": str(i)}).write_webdataset(tmp_path / "t")
    assert left(tmp_path) == []


@pytest.mark.parametrize("writer", ["write_tfrecord", "write_parquet", "write_webdataset"])
def test_servers_and_sizes_say_how_many_files(writer, tmp_path):
    ds = hr.Dataset.range(4000).map(lambda x: {"x": x, "s": np.full(100, x, np.int64)})
    if writer == "write_webdataset":
        ds = hr.Dataset.range(400).map(lambda x: {"__key__": str(x), "txt": "x" * 1000}, mode="eager")

    def written(name, **how):
        return len(getattr(ds, writer)(tmp_path / name, **how))

    assert written("auto", shards="auto") == written("none") == 1
    sized = written("sized", shards="auto", shard_bytes=100_000)
    assert 2 < sized < 100
    assert written("servers", servers=7, shard_bytes=100_000) % 7 == 0
    with pytest.raises(ValueError, match='shards=3 says how many files there are: write shards="auto"'):
        written("both", shards=3, servers=2)
    with pytest.raises(ValueError, match="servers must be at least 1"):
        written("none at all", servers=0)


def test_files_of_a_size_where_the_length_is_not_known(tmp_path):
    ds = hr.Dataset.range(4000).filter(lambda x: x >= 0).map(lambda x: {"s": np.full(100, x, np.int64)})
    files = ds.write_tfrecord(tmp_path / "x", shards="auto", shard_bytes=50_000)
    assert len(files) > 3
    assert len(list(hr.Dataset.from_tfrecord(files))) == 4000
