"""Work that fails leaves nothing open: no descriptor, thread, shared memory or temporary file."""

import errno
import os
import sqlite3
from contextlib import suppress

import numpy as np
import pytest

import headrace as hr
from tests.leaks import Held

D = hr.Dataset
FAILURES = (hr.HeadraceError, OSError, ValueError, TypeError)
TIMES = 3


def fails_late(x):
    if x == 37:
        raise ValueError("this element fails")
    return {"__key__": f"k{int(x)}", "x.npy": np.full(2_000, x), "name": f"row {int(x)}"}


def broken():
    return D.range(40).map(fails_late)


def named():
    return broken().map(lambda d: {"x": d["x.npy"], "name": d["name"]})


def whole():
    return D.range(40).map(lambda x: {"x": x, "name": str(x)})


def check_nothing_stays(work, folder):
    """Raise if what fails again and again holds more after it than after the first time."""
    with pytest.raises(FAILURES):
        work()
    before = Held.now(folder)
    for _ in range(TIMES):
        with suppress(*FAILURES):
            work()
    left = Held.now(folder).since(before)
    assert not left


WRITERS = {
    "save": lambda ds, to: ds.save(to / "saved"),
    "save shards": lambda ds, to: ds.save(to / "saved", shard_func=lambda d: 0),
    "cache": lambda ds, to: list(ds.cache(to / "rows")),
    "snapshot": lambda ds, to: list(ds.snapshot(to / "rows")),
    "write_tfrecord": lambda ds, to: ds.write_tfrecord(to / "t", shards=3, overwrite=True),
    "write_parquet": lambda ds, to: ds.write_parquet(to / "t", shards=3, overwrite=True),
    "write_webdataset": lambda ds, to: ds.write_webdataset(to / "t", shards=3, overwrite=True),
    "write_tfds": lambda ds, to: ds.write_tfds(to / "d", "rows", overwrite=True),
    "write_sql": lambda ds, to: ds.write_sql(f"sqlite:///{to}/rows.db", "rows", if_exists="replace"),
    "statistics": lambda ds, to: ds.statistics(),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_writer_whose_element_fails(kind, tmp_path):
    ds = broken() if kind == "write_webdataset" else named()
    check_nothing_stays(lambda: WRITERS[kind](ds, tmp_path), tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "statistics"])
def test_a_writer_whose_target_cannot_be(kind, tmp_path):
    (tmp_path / "file").write_bytes(b"in the way")
    ds = broken().take(5) if kind == "write_webdataset" else named().take(5)
    check_nothing_stays(lambda: WRITERS[kind](ds, tmp_path / "file"), tmp_path)


@pytest.mark.parametrize("kind", ["save", "save shards", "write_tfrecord", "write_parquet", "write_webdataset"])
def test_a_writer_whose_disk_is_full(kind, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    ds = broken().take(5) if kind == "write_webdataset" else named().take(5)
    check_nothing_stays(lambda: WRITERS[kind](ds, tmp_path), tmp_path)


def test_a_record_writer_that_is_given_nonsense(tmp_path):
    def work():
        with hr.io.TFRecordWriter(tmp_path / "records") as writer:
            writer.write(b"fine")
            writer.write("no bytes")

    check_nothing_stays(work, tmp_path)


GARBAGE = bytes(range(256)) * 40
READERS = {
    "tfrecord": hr.TFRecordDataset,
    "tfrecord, compressed": lambda name: hr.TFRecordDataset(name, compression_type="GZIP"),
    "text": hr.TextLineDataset,
    "text, compressed": lambda name: hr.TextLineDataset(name, compression_type="GZIP"),
    "csv": lambda name: hr.CsvDataset(name, [np.int64, np.float32]),
    "csv by header": D.from_csv,
    "jsonl": hr.JsonLinesDataset,
    "fixed": lambda name: hr.FixedLengthRecordDataset(name, 7),
    "parquet": hr.ParquetDataset,
    "arrow": hr.ArrowDataset,
    "webdataset": hr.WebDataset,
    "sqlite": lambda name: D.from_sql(f"sqlite:///{name}", "SELECT * FROM rows"),
    "saved": D.load,
    "index": lambda name: [hr.io.build_index(name)],
    "text, zstd": lambda name: hr.TextLineDataset(name, compression_type="ZSTD"),
    "by number": lambda name: hr.TFRecordDataset(name, index=True),
    "in turn": lambda name: hr.TFRecordDataset([name, name], num_parallel_reads=2),
    "records on threads": lambda name: hr.TFRecordDataset(name).map(len, num_parallel_calls=2),
    "tfds": lambda name: hr.tfds.load("rows", split="train", data_dir=name),
    "catalogue": lambda name: hr.load("rows", split="train", data_dir=name, download=False),
    "duckdb": lambda name: D.from_sql(f"duckdb:///{name}", "SELECT * FROM rows"),
    "image": lambda name: D.from_tensor_slices([name]).map(lambda n: hr.image.decode_image(hr.io.read_file(n))),
    "images of a folder": lambda name: D.from_image_folder(name, (8, 8)),
}


def read_through(make, name):
    """Read all that there is, and raise the first error."""
    errors = []
    it = iter(make(name))
    while True:
        try:
            next(it)
        except StopIteration:
            break
        except hr.ElementError as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("damage", ["missing", "garbage", "a folder"])
@pytest.mark.parametrize("kind", READERS)
def test_a_reader_of_what_is_no_such_file(kind, damage, tmp_path):
    path = tmp_path / "data"
    if damage == "garbage":
        path.write_bytes(GARBAGE)
    elif damage == "a folder":
        path.mkdir()

    def work():
        try:
            read_through(READERS[kind], str(path))
        except FAILURES:
            raise
        raise ValueError("formats that take any bytes have nothing to complain of")

    check_nothing_stays(work, tmp_path)


@pytest.mark.parametrize("kind", ["write_tfrecord", "write_parquet", "save", "write_sql"])
def test_a_reader_of_a_file_that_breaks_off(kind, tmp_path):
    readers = {
        "write_tfrecord": hr.TFRecordDataset, "write_parquet": hr.ParquetDataset,
        "save": lambda name: D.load(tmp_path / "saved"),
        "write_sql": lambda name: D.from_sql(f"sqlite:///{name}", "SELECT * FROM rows"),
    }  # fmt: skip
    writers = {**WRITERS, "write_tfrecord": lambda ds, to: ds.write_tfrecord(to / "t", shards=1)}
    writers["write_parquet"] = lambda ds, to: ds.write_parquet(to / "t", shards=1)
    writers[kind](whole(), tmp_path)
    files = [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix in (".tfrecord", ".parquet", ".arrow", ".db")]
    largest = max(files, key=lambda p: p.stat().st_size)
    os.truncate(largest, largest.stat().st_size * 2 // 3)
    check_nothing_stays(lambda: read_through(readers[kind], str(largest)), tmp_path)


FUNCTIONS = {
    "inline": {},
    "on threads": {"num_parallel_calls": 2},
    "in processes": {"mode": "process", "num_parallel_calls": 1},
}


@pytest.mark.parametrize("how", FUNCTIONS)
def test_a_function_that_fails(how, tmp_path):
    check_nothing_stays(lambda: list(D.range(40).map(fails_late, **FUNCTIONS[how]).batch(4)), tmp_path)


def test_a_query_that_fails(tmp_path):
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (x)")
    connection.close()
    uri = f"sqlite:///{tmp_path}/rows.db"
    check_nothing_stays(lambda: list(D.from_sql(uri, "SELECT y FROM rows")), tmp_path)


def test_what_is_held_is_noticed(tmp_path):
    before = Held.now(tmp_path)
    with (tmp_path / "open").open("w"):
        assert set(Held.now(tmp_path).since(before)) == {"descriptors"}
    (tmp_path / ".left.hrtmp").touch()
    assert set(Held.now(tmp_path).since(before)) == {"temporary"}
