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
from headrace.testing import outcomes, reference_outcomes


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
    """Reads that all fail after the first `number`."""

    def __init__(self, number):
        self.left = number

    def __call__(self, read):
        def failing_read(*args):
            self.left -= 1
            return failing() if self.left < 0 else read(*args)

        return failing_read


POLICIES = {
    "raise": lambda ds: ds,
    "skip": lambda ds: ds,
    "ignore_errors": lambda ds: ds.ignore_errors(),
    "shard": lambda ds: ds.shard(2, 1),
    "skipped": lambda ds: ds.skip(3),
    "windows": lambda ds: ds.map(lambda *row: 0).window(3, shift=5).flat_map(lambda each: each),
    "shuffle": lambda ds: ds.shuffle(4, seed=1),
    "parallel": lambda ds: ds.map(lambda *row: row, num_parallel_calls=2).prefetch(2),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    "kind", ["lines, gzip", "lines, zstd", "records, zlib", "csv", "json", "samples", "parquet", "arrow"]
)
def test_a_read_that_fails_is_raised_whatever_is_left_out_and_the_rest_comes(
    tmp_path, monkeypatch, kind, number, policy
):
    files = Files(random.Random(1), tmp_path, kind)
    ds = POLICIES[policy](files.dataset(on_error="skip" if policy == "skip" else "raise"))
    want = reference_outcomes(ds)
    got, raised = [], []
    fault = Failing(number)
    with monkeypatch.context() as patched, iter(ds) as it:
        patched.setattr(os, "preadv", fault(os.preadv))
        patched.setattr(os, "pread", fault(os.pread))
        while True:
            try:
                got.append(("value", next(it)))
            except StopIteration:
                break
            except hr.TransportError as error:
                raised.append(str(error))
                if len(raised) > 1:
                    patched.undo()
    assert len(raised) == (2 if fault.left < 0 else 0)
    for said in raised:
        assert str(files.folder) in said
        assert "could not be read just now: Input/output error; the next call continues" in said
    assert [repr(each) for each in got] == [repr(each) for each in want]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow stream"])
def test_rows_that_cannot_be_counted_just_now_are_counted_later(tmp_path, monkeypatch, kind):
    files = Files(random.Random(1), tmp_path, kind)
    ds = files.dataset()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", failing)
        with pytest.raises(OSError, match=str(files.paths[0])):
            len(ds)
    assert len(ds) == sum(files.counts) == len(outcomes(iter(ds)))


def _write_records(ds, path):
    with hr.io.TFRecordWriter(path) as writer:
        writer.write_all(str(x).encode() for x in ds)


WRITERS = {
    "write_tfrecord": lambda ds, path: ds.map(lambda x: {"x": x}).write_tfrecord(path),
    "write_parquet": lambda ds, path: ds.map(lambda x: {"x": x}).write_parquet(path),
    "write_webdataset": lambda ds, path: ds.map(lambda x: {"__key__": str(x), "cls": x}).write_webdataset(path),
    "cache": lambda ds, path: list(ds.cache(path)),
    "snapshot": lambda ds, path: list(ds.snapshot(path)),
    "TFRecordWriter": _write_records,
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
