"""States and caches belong to what files hold: a copy, or the same file elsewhere, is as good as the file."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.framing import framed

import headrace as hr
from headrace.formats.shared import files

D = hr.Dataset


def lines(folder):
    return hr.TextLineDataset(sorted(folder.glob("text-*")))


def lines_by_number(folder):
    return hr.TextLineDataset(sorted(folder.glob("text-*")), index=True).shuffle(seed=1)


def lines_in_turn(folder):
    return hr.TextLineDataset(sorted(folder.glob("text-*")), num_parallel_reads=2)


def lines_of_a_listing(folder):
    return D.list_files(f"{folder}/text-*", shuffle=False).interleave(hr.TextLineDataset, 2)


def lines_of_a_shuffled_listing(folder):
    return hr.TextLineDataset(D.list_files(f"{folder}/text-*", seed=3))


def packed_lines(folder):
    return hr.TextLineDataset(folder / "packed", "GZIP")


def records(folder):
    return hr.TFRecordDataset(folder / "records", index=False).shuffle(5, seed=2).batch(2)


def tables(folder):
    return hr.ParquetDataset(folder / "*.parquet")


PIPELINES = [
    lines, lines_by_number, lines_in_turn, lines_of_a_listing, lines_of_a_shuffled_listing, packed_lines, records,
    tables,
]  # fmt: skip


@pytest.fixture
def here(tmp_path):
    import gzip

    folder = tmp_path / "here"
    folder.mkdir()
    for i in range(3):
        (folder / f"text-{i}").write_bytes(b"".join(b"%d %d\n" % (i, j) for j in range(20)))
    (folder / "packed").write_bytes(gzip.compress(b"".join(b"%d\n" % i for i in range(50))))
    (folder / "records").write_bytes(framed([b"%d" % i for i in range(50)]))
    pq.write_table(pa.table({"x": np.arange(50)}), folder / "t.parquet", row_group_size=7)
    return folder


def move(here, there):
    here.rename(there)


def copy(here, there):
    shutil.copytree(here, there, copy_function=shutil.copyfile)


def copy_with_times(here, there):
    shutil.copytree(here, there)


def rest(it):
    return json.dumps([np.asarray(value).tolist() if not isinstance(value, dict) else int(value["x"]) for value in it],
                      default=str)  # fmt: skip


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("relocated", [move, copy, copy_with_times], ids=lambda m: m.__name__)
def test_a_state_is_good_for_files_that_were(here, tmp_path, pipeline, relocated):
    it = iter(pipeline(here))
    for _ in range(13):
        next(it)
    state = json.loads(json.dumps(it.state()))
    want = rest(it)
    relocated(here, tmp_path / "there")
    assert rest(pipeline(tmp_path / "there").iterator(state=state)) == want


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: p.__name__)
def test_a_state_is_refused_for_files_with_other_content(here, pipeline):
    it = iter(pipeline(here))
    for _ in range(13):
        next(it)
    state = it.state()
    it.close()
    for path in here.iterdir():
        if path.is_file():
            found = path.stat()
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises((hr.StateError, hr.ElementError)) as raised:
        list(pipeline(here).iterator(state=state))
    if pipeline is not lines_by_number:  # whose index is made again, and whose lines are as many
        assert raised.type is hr.StateError


def test_files_in_another_order_are_other_files(here):
    names = sorted(here.glob("text-*"))
    it = iter(hr.TextLineDataset(names))
    next(it)
    with pytest.raises(hr.StateError):
        hr.TextLineDataset(names[::-1]).iterator(state=it.state())


def test_a_state_looks_at_files_once(here, monkeypatch):
    it = iter(lines(here))
    next(it)
    it.state()
    monkeypatch.setattr(files, "file_identity", None)
    next(it)
    assert it.state()["delivered"] == 2


def test_a_cache_is_good_for_files_that_were_moved(here, tmp_path):
    want = list(lines(here).cache(str(tmp_path / "cache")))
    move(here, tmp_path / "there")
    ds = lines(tmp_path / "there").cache(str(tmp_path / "cache"))
    assert list(ds) == want
    (tmp_path / "there" / "text-1").write_bytes(b"other\n")
    with pytest.raises(hr.StorageError):
        list(lines(tmp_path / "there").cache(str(tmp_path / "cache")))


def test_opening_files_does_not_ask_which_they_are(here, monkeypatch):
    def content(*_):
        raise AssertionError("no state was requested")

    monkeypatch.setattr("headrace.remote.identity._content", content)
    assert len(list(lines(here))) == 60
    assert len(list(lines_of_a_listing(here))) == 60
