"""Reads that come short or fail, and disks that do not take what is written: no wrong row, and a named file."""

import errno
import json
import os
import pickle
import random

import cloudpickle
import pytest
from tests.chaos.files import KINDS, Files

import headrace as hr
from headrace.testing import outcomes


def short(read):
    return lambda descriptor, size, offset: read(descriptor, min(size, 3), offset)


def failing(*args):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_state_is_good_that_was_taken_where_reads_come_short(tmp_path, monkeypatch):
    ds = Files(random.Random(1), tmp_path, "lines").dataset()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", short(os.pread))
        it = iter(ds)
        next(it)
        state = json.loads(json.dumps(it.state()))
    assert outcomes(ds.iterator(state=state)) == outcomes(it)


def test_a_state_is_not_taken_of_files_that_cannot_be_read_just_now(tmp_path, monkeypatch):
    files = Files(random.Random(1), tmp_path, "lines")
    it = iter(files.dataset())
    next(it)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", failing)
        with pytest.raises(OSError, match=str(files.paths[0])):
            it.state()
    rest = outcomes(files.dataset().iterator(state=it.state()))
    assert rest == outcomes(it)


def test_a_state_is_taken_where_a_file_is_not_there(tmp_path):
    it = iter(hr.TextLineDataset([str(tmp_path / "nowhere")]))
    assert [kind for kind, _ in outcomes(it)] == ["error"]
    assert outcomes(hr.TextLineDataset([str(tmp_path / "nowhere")]).iterator(state=it.state())) == []


class Failing:
    """Reads of which all fail behind the first `number`."""

    def __init__(self, number):
        self.left = number

    def __call__(self, read):
        def failing_read(*args):
            self.left -= 1
            return failing() if self.left < 0 else read(*args)

        return failing_read


@pytest.mark.parametrize("policy", ["skip", "quarantine"])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("kind", ["lines, gzip", "lines, zstd", "records, zlib", "csv", "json", "parquet", "arrow"])
def test_a_read_that_fails_is_an_error_whatever_is_left_out(tmp_path, monkeypatch, kind, number, policy):
    files = Files(random.Random(1), tmp_path, kind)
    on_error = "skip" if policy == "skip" else hr.Quarantine(tmp_path / "bad", max_fraction=0.9)
    ds = files.dataset(on_error=on_error)
    with monkeypatch.context() as patched:
        fault = Failing(number)
        patched.setattr(os, "preadv", fault(os.preadv))
        patched.setattr(os, "pread", fault(os.pread))
        got = outcomes(iter(ds))
        assert fault.left < 0 or [what for what, _ in got] == ["value"] * sum(files.counts)
    lost = sum(files.counts) - [what for what, _ in got].count("value")
    assert not lost or "error" in dict(got), "rows are lost without a word"
    assert len(outcomes(iter(ds))) == sum(files.counts)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow stream"])
def test_rows_that_cannot_be_counted_just_now_are_counted_later(tmp_path, monkeypatch, kind):
    files = Files(random.Random(1), tmp_path, kind)
    ds = files.dataset()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", failing)
        with pytest.raises(OSError, match=str(files.paths[0])):
            len(ds)
    assert len(ds) == sum(files.counts) == len(outcomes(iter(ds)))


WRITERS = {
    "write_tfrecord": lambda ds, path: ds.map(lambda x: {"x": x}).write_tfrecord(path),
    "write_parquet": lambda ds, path: ds.map(lambda x: {"x": x}).write_parquet(path),
    "save": lambda ds, path: ds.save(path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_disk_that_does_not_take_what_is_written_is_named(tmp_path, monkeypatch, writer):
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match=str(tmp_path / "out")):
            WRITERS[writer](hr.Dataset.range(9), tmp_path / "out")
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".hrtmp")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_can_be_sent_to_another_process(tmp_path, kind):
    ds = Files(random.Random(1), tmp_path, kind).dataset()
    want = outcomes(iter(ds))
    assert len(want) > 3
    assert outcomes(iter(pickle.loads(cloudpickle.dumps(ds)))) == want
