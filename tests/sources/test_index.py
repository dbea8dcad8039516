"""Sidecar indexes: what they make possible, and when they are not believed."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.framing import framed

import headrace as hr
from headrace.execute.context import Context, Run
from headrace.records.index import SUFFIX, build_index, fresh_index
from headrace.records.text import Lines
from headrace.records.tfrecord import TFRecords

ROWS = [b"%d" % i * (i % 7) for i in range(3000)]


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "r.tfrecord"
    path.write_bytes(framed(ROWS))
    return str(path)


def test_rows_by_number(records):
    ds = hr.TFRecordDataset(records, index=True)
    assert len(ds) == len(ROWS)
    assert [ds[0], ds[1500], ds[-1]] == [ROWS[0], ROWS[1500], ROWS[-1]]
    assert list(ds[10:2000:333]) == ROWS[10:2000:333]
    with pytest.raises(IndexError):
        ds[len(ROWS)]


def test_a_shuffle_of_everything(records):
    shuffled = list(hr.TFRecordDataset([records, records], index=True).shuffle(seed=1))
    assert shuffled != ROWS + ROWS
    assert sorted(shuffled) == sorted(ROWS + ROWS)


def test_a_share_of_one_file(records):
    ds = hr.TFRecordDataset(records, index=True)
    assert [row for i in range(3) for row in ds.shard(3, i)] == ROWS[0::3] + ROWS[1::3] + ROWS[2::3]


def test_skip_goes_straight_there(records):
    damaged = bytearray(Path(records).read_bytes())
    ds = hr.TFRecordDataset(records, index=True)
    stamp = Path(records).stat()
    damaged[200] ^= 1  # a pass over everything would meet this
    Path(records).write_bytes(damaged)
    os.utime(records, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert next(iter(ds.skip(2990))) == ROWS[2990]
    with pytest.raises(hr.ElementError, match="checksum"):
        list(ds)


def test_one_that_is_there_is_used_without_asking(records):
    assert hr.TFRecordDataset(records).cardinality() == hr.UNKNOWN_CARDINALITY
    hr.TFRecordDataset(records, index=True)
    assert len(hr.TFRecordDataset(records)) == len(ROWS)
    assert hr.TFRecordDataset(records, index=False).cardinality() == hr.UNKNOWN_CARDINALITY


def test_one_made_ahead_serves_every_reader_of_such_files(tmp_path):
    examples, lines = tmp_path / "e.tfrecord", tmp_path / "lines.txt"
    examples.write_bytes(framed([hr.io.encode_example({"x": i}) for i in range(5)]))
    lines.write_bytes(b"a\nb\nc")
    assert hr.io.build_index(examples) == [5]
    assert hr.io.build_index([str(lines)], format="text") == [3]
    assert hr.TextLineDataset(lines)[2] == "c"
    made = Path(f"{examples}{SUFFIX}").read_bytes()
    assert hr.Dataset.from_tfrecord(examples, {"x": hr.io.FixedLenFeature([], np.int64)}, index=True)[4]["x"] == 4
    assert len(hr.TFRecordDataset(examples)) == 5
    assert Path(f"{examples}{SUFFIX}").read_bytes() == made


def test_one_made_ahead_must_be_kept(records, monkeypatch):
    def refused(path, parts, via):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("headrace.records.index.write_whole", refused)
    with pytest.raises(hr.StorageError, match="cannot be written"):
        hr.io.build_index(records)
    with pytest.raises(ValueError, match="tfrecord"):
        hr.io.build_index(records, format="parquet")


class TestStaleOnes:
    def stale(self, path):
        assert fresh_index(path, TFRecords()) is None
        assert len(hr.TFRecordDataset(path, index=True)) == hr.TFRecordDataset(path, index=False).count()

    def test_by_size(self, records):
        build_index(records, TFRecords())
        Path(records).write_bytes(framed(ROWS[:10]))
        self.stale(records)

    def test_by_time(self, records):
        build_index(records, TFRecords())
        os.utime(records, ns=(1, 1))
        self.stale(records)

    def test_by_their_beginning(self, records):
        build_index(records, TFRecords())
        stamp = Path(records).stat()
        rows = [b"x" * len(row) for row in ROWS]
        Path(records).write_bytes(framed(rows))
        os.utime(records, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        self.stale(records)

    def test_of_another_format(self, records):
        build_index(records, Lines())
        self.stale(records)

    @pytest.mark.parametrize("damage", [b"", b"nonsense", None])
    def test_damaged(self, records, damage):
        build_index(records, TFRecords())
        sidecar = Path(records + SUFFIX)
        data = bytearray(sidecar.read_bytes())
        data[-5] ^= 1
        sidecar.write_bytes(data if damage is None else damage)
        self.stale(records)

    def test_a_file_that_changes_later_is_noticed(self, records):
        ds = hr.TFRecordDataset(records, index=True)
        Path(records).write_bytes(framed(ROWS[:10]))
        with pytest.raises(hr.HeadraceError, match="has changed since its index was made"):
            ds[3]


class TestWhatCannotBeIndexed:
    def test_compressed_files(self, records):
        with pytest.raises(ValueError, match="GZIP cannot be indexed"):
            hr.TFRecordDataset(records, "GZIP", index=True)

    def test_files_in_turn(self, records):
        with pytest.raises(ValueError, match="several in turn"):
            hr.TFRecordDataset(records, num_parallel_reads=2, index=True)

    def test_names_from_a_dataset_that_shuffles(self, records):
        with pytest.raises(ValueError, match="a dataset of them"):
            hr.TFRecordDataset(hr.Dataset.from_tensor_slices([records]).shuffle(3), index=True)

    def test_damaged_files(self, records):
        data = bytearray(Path(records).read_bytes())
        data[1000] ^= 1
        Path(records).write_bytes(data)
        with pytest.raises(hr.ElementError, match=r"checksum.*\n.*record \d+, byte \d+"):
            hr.TFRecordDataset(records, index=True)
        assert not Path(records + SUFFIX).exists()

    def test_it_says_which_reader_cannot_be(self, records):
        with pytest.raises(hr.NotIndexableError, match="TFRecordDataset"):
            hr.TFRecordDataset(records)[0]


def test_without_leave_to_write_it_stays_in_memory(records, monkeypatch, caplog):
    def refuse(path, parts, via):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("headrace.records.index.write_whole", refuse)
    assert len(hr.TFRecordDataset(records, index=True)) == len(ROWS)
    assert "not kept" in caplog.text


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n"]), max_size=30), st.randoms())
def test_lines_by_number_are_the_lines(tmp_path_factory, parts, random):
    path = tmp_path_factory.getbasetemp() / "indexed.txt"
    path.write_bytes(b"".join(parts))
    want = list(hr.TextLineDataset(path, index=False))
    ds = hr.TextLineDataset(path, index=True)
    assert len(ds) == len(want)
    numbers = [random.randrange(len(want)) for _ in range(10)] if want else []
    assert [ds[i] for i in numbers] == [want[i] for i in numbers]
    assert list(ds) == want
    if want:
        block = ds._node.at(Context(Run()), np.array(numbers))
        assert list(block.elements()) == [want[i] for i in numbers]
