"""Reading writes nothing beside the data: indexes made on the way are in the user's cache folder, within its bound."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from tests.framing import framed

import headrace as hr
from headrace.formats.shared import index_cache
from headrace.formats.shared.index import fresh_index, index_file
from headrace.formats.shared.sidecar import FOLDER
from headrace.formats.tfrecord.format import TFRecords

D = hr.Dataset
ROWS = [b"%d" % i * (i % 7) for i in range(300)]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "headrace" / "indexes"


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "r.tfrecord"
    path.write_bytes(framed(ROWS))
    return str(path)


def kept(cache):
    return sorted(cache.glob("*.idx"))


def table():
    return D.range(50).map(lambda x: {"x": x, "name": str(x)})


def records_without_index(folder):
    (folder / "r.tfrecord").write_bytes(framed(ROWS))
    return [str(folder / "r.tfrecord")]


def text(folder):
    (folder / "t.txt").write_bytes(b"a\nb\nc\n")
    return [str(folder / "t.txt")]


def tar(folder):
    rows = D.range(5).map(lambda i: {"__key__": str(i), "cls": i})
    files = rows.write_webdataset(folder / "w")
    for index in folder.glob(f"{FOLDER}/*"):
        index.unlink()
    return files


def lines(folder):
    (folder / "rows.jsonl").write_bytes(b'{"x": 1}\n{"x": 2}\n')
    return [str(folder / "rows.jsonl")]


def csv(folder):
    (folder / "rows.csv").write_bytes(b"x,y\n1,2\n3,4\n")
    return [str(folder / "rows.csv")]


def packed(folder):
    (folder / "rows.txt.gz").write_bytes(gzip.compress(b"a\nb\n"))
    return [str(folder / "rows.txt.gz")]


def saved(folder):
    table().save(folder / "saved")
    return str(folder / "saved")


def tfds(folder):
    table().write_tfds(folder, "rows", shards=2)
    return folder


READERS = {
    "records by number": (records_without_index, lambda f: hr.TFRecordDataset(f, index=True).shuffle(seed=1)),
    "records": (records_without_index, hr.TFRecordDataset),
    "lines by number": (text, lambda f: hr.TextLineDataset(f, index=True)[1:]),
    "lines, compressed": (packed, lambda f: hr.TextLineDataset(f, "GZIP")),
    "samples by number": (tar, lambda f: hr.WebDataset(f, index=True).shuffle()),
    "JSON": (lines, hr.JsonLinesDataset),
    "CSV": (csv, D.from_csv),
    "Parquet": (lambda folder: table().write_parquet(folder / "p"), lambda f: hr.ParquetDataset(f).shuffle()),
    "saved": (saved, lambda f: D.load(f).shuffle()),
    "tfds": (tfds, lambda f: hr.tfds.load("rows", split="train", data_dir=f)),
    "tfds shuffled": (tfds, lambda f: hr.tfds.load("rows", split="train", data_dir=f).shuffle()),
    "tfds by number": (tfds, lambda f: [hr.tfds.load("rows", split="train[10:20]", data_dir=f)[3]]),
    "tfds info": (tfds, lambda f: [hr.tfds.builder("rows", data_dir=f).info]),
}


def contents(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_mode)
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("kind", READERS)
def test_reading_writes_nothing_beside_the_data(kind, tmp_path):
    make, read = READERS[kind]
    data = make(tmp_path)
    before = contents(tmp_path)
    assert list(read(data))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("index", [True, "beside"])
def test_where_an_index_goes(records, tmp_path, cache, index):
    assert len(hr.TFRecordDataset(records, index=index)) == len(ROWS)
    assert (tmp_path / FOLDER).exists() == (index == "beside")
    assert len(kept(cache)) == (index is True)
    assert len(hr.TFRecordDataset(records)) == len(ROWS)  # either is found again


def test_asking_for_one_beside_copies_that_of_the_cache(records, tmp_path, cache):
    made = index_file(records, TFRecords())
    assert Path(made.place) == kept(cache)[0]
    assert hr.io.build_index(records) == [len(ROWS)]
    assert (tmp_path / FOLDER / "r.tfrecord.idx").read_bytes() == kept(cache)[0].read_bytes()


def test_the_index_of_a_file_that_changes_is_replaced(records, cache):
    index_file(records, TFRecords())
    Path(records).write_bytes(framed(ROWS[:10]))
    assert fresh_index(records, TFRecords()) is None
    assert len(hr.TFRecordDataset(records, index=True)) == 10
    assert len(kept(cache)) == 1


def test_two_files_alike_have_an_index_each(tmp_path, cache):
    for name in "ab":
        (tmp_path / name).write_bytes(framed(ROWS))
        index_file(str(tmp_path / name), TFRecords())
    assert len(kept(cache)) == 2


def test_the_cache_has_a_bound_and_drops_what_was_not_used_for_longest(tmp_path, cache, monkeypatch):
    paths = [str(tmp_path / f"{i}.tfrecord") for i in range(6)]
    for path in paths:
        Path(path).write_bytes(framed(ROWS))
    size = Path(index_file(paths[0], TFRecords()).place).stat().st_size
    monkeypatch.setattr(index_cache, "MAX_CACHE_BYTES", 4 * size)
    for path in paths[1:4]:
        index_file(path, TFRecords())
    for age, place in enumerate(reversed(kept(cache))):
        os.utime(place, (1000 - age, 1000))
    assert fresh_index(paths[0], TFRecords()) is not None  # used now, so the others are older
    for path in paths[4:]:
        index_file(path, TFRecords())
        assert sum(place.stat().st_size for place in kept(cache)) <= 4 * size
    assert fresh_index(paths[0], TFRecords()) is not None
    assert fresh_index(paths[5], TFRecords()) is not None


def test_one_larger_than_the_cache_is_used_and_not_kept(records, cache, monkeypatch, caplog):
    monkeypatch.setattr(index_cache, "MAX_CACHE_BYTES", 100)
    assert len(hr.TFRecordDataset(records, index=True)) == len(ROWS)
    assert not kept(cache) and "is not kept" in caplog.text


def test_a_damaged_one_is_replaced(records, cache):
    index_file(records, TFRecords())
    good = kept(cache)[0].read_bytes()
    kept(cache)[0].write_bytes(good[:-3] + b"xyz")
    assert fresh_index(records, TFRecords()) is None
    assert np.array_equal(index_file(records, TFRecords()).starts(np.arange(3)), [0, 16, 33])
    assert kept(cache)[0].read_bytes() == good


def test_the_name_of_an_index_tells_no_secret(cache):
    place = index_cache.cached_path("https://me:sesame@host/data?sig=opensesame", "TFRecords")
    assert place.parent == cache and "sesame" not in place.name
