"""Sidecar indexes: what they make possible, and when they are not believed."""

import contextlib
import glob
import json
import os
import shutil
import signal
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.framing import framed

import headrace as hr
from headrace.execute.run import Pass
from headrace.formats.shared.files import file_identity
from headrace.formats.shared.index import fresh_index, index_file
from headrace.formats.shared.index_cache import index_cache
from headrace.formats.shared.sidecar import FOLDER, RECORDS_PER_GROUP
from headrace.formats.text.format import Lines
from headrace.formats.tfrecord.format import TFRecords
from headrace.plan.prepared import Prepared
from headrace.storage.files import TEMPORARY

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
    made = (tmp_path / FOLDER / "e.tfrecord.idx").read_bytes()
    assert hr.Dataset.from_tfrecord(examples, {"x": hr.io.FixedLenFeature([], np.int64)}, index=True)[4]["x"] == 4
    assert len(hr.TFRecordDataset(examples)) == 5
    assert (tmp_path / FOLDER / "e.tfrecord.idx").read_bytes() == made


def test_one_made_ahead_must_be_kept(records, monkeypatch):
    def refused(path, parts, via):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("headrace.formats.shared.sidecar.write_whole", refused)
    monkeypatch.setenv("XDG_CACHE_HOME", records)
    with pytest.raises(hr.StorageError, match="cannot be written"):
        hr.io.build_index(records)
    with pytest.raises(ValueError, match="tfrecord"):
        hr.io.build_index(records, format="parquet")


class TestStaleOnes:
    def stale(self, path):
        assert fresh_index(path, TFRecords()) is None
        assert len(hr.TFRecordDataset(path, index=True)) == hr.TFRecordDataset(path, index=False).count()

    def test_by_size(self, records):
        index_file(records, TFRecords())
        Path(records).write_bytes(framed(ROWS[:10]))
        self.stale(records)

    def test_not_by_time_alone(self, records):
        index_file(records, TFRecords())
        os.utime(records, ns=(1, 1))
        assert fresh_index(records, TFRecords()).count == len(ROWS)

    def test_by_content(self, records):
        index_file(records, TFRecords())
        stamp = Path(records).stat()
        rows = [b"x" * len(row) for row in ROWS]
        Path(records).write_bytes(framed(rows))
        os.utime(records, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        self.stale(records)

    def test_of_another_format(self, records):
        index_file(records, Lines())
        self.stale(records)

    @pytest.mark.parametrize("damage", [b"", b"nonsense", None])
    def test_damaged(self, records, damage):
        sidecar = Path(index_file(records, TFRecords()).place)
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
        assert not (Path(records).parent / FOLDER).exists()

    def test_it_says_which_reader_cannot_be(self, records):
        with pytest.raises(hr.NotIndexableError, match="TFRecordDataset"):
            hr.TFRecordDataset(records)[0]


def test_without_leave_to_write_it_stays_in_memory(records, monkeypatch, caplog):
    def refuse(place, parts):
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr("headrace.formats.shared.sidecar.keep_index", refuse)
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
        block = Pass().context(Prepared.of(ds._node)).fetch(ds._node, np.array(numbers))
        assert list(block.elements()) == [want[i] for i in numbers]


class TestWhereTheyLie:
    def test_no_pattern_for_data_finds_them(self, records, tmp_path):
        made = hr.TFRecordDataset(records, index="beside")
        assert [p.name for p in tmp_path.iterdir() if p.name != "r.tfrecord"] == [FOLDER]
        assert glob.glob(f"{tmp_path}/*") == [records]  # noqa: PTH207 - Path.glob finds what is hidden
        for pattern in ("*", "r*", "**"):
            assert list(hr.Dataset.list_files(f"{tmp_path}/{pattern}", shuffle=False)) == [records]
        with pytest.raises(FileNotFoundError):
            hr.Dataset.list_files(f"{tmp_path}/*/*")
        assert len(made) == len(ROWS)

    def test_a_folder_that_cannot_be_written_has_them_in_the_users_cache(self, records, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        (tmp_path / FOLDER).write_bytes(b"in the way")
        assert hr.io.build_index(records) == [len(ROWS)]
        assert len(hr.TFRecordDataset(records)) == len(ROWS)
        assert len(list((tmp_path / "cache" / "headrace" / "indexes").glob("*.idx"))) == 1
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "r.tfrecord"))
        with pytest.raises(hr.StorageError, match="cannot be written"):
            hr.io.build_index(records)

    def test_a_user_without_a_home_has_no_cache(self, records, tmp_path, monkeypatch):
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", "~nobody")
        (tmp_path / FOLDER).write_bytes(b"in the way")
        assert index_cache() is None
        assert len(hr.TFRecordDataset(records, index=True)) == len(ROWS)

    def test_of_a_file_in_the_working_folder(self, records, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        hr.io.build_index("r.tfrecord")
        assert len(hr.TFRecordDataset(records)) == len(hr.TFRecordDataset("r.tfrecord")) == len(ROWS)

    @pytest.mark.parametrize("names", [list, lambda names: hr.Dataset.from_tensor_slices(names).skip(0)])
    def test_those_that_lie_beside_their_files_are_no_data(self, records, tmp_path, run, names):
        beside = tmp_path / "r.tfrecord.idx"
        for old in (b"headrace index 1\n", Path(index_file(records, TFRecords()).place).read_bytes()):
            beside.write_bytes(old)
            both = [records, str(beside)]
            assert list(hr.Dataset.list_files(f"{tmp_path}/r*", shuffle=False)) == [records]
            assert run(hr.TFRecordDataset(names(both))) == ROWS
            assert run(hr.TFRecordDataset(names(both), num_parallel_reads=2)) == ROWS
        beside.write_bytes(b"other people's")
        assert list(hr.Dataset.list_files(f"{tmp_path}/r*", shuffle=False)) == both

    def test_a_copy_of_both_is_as_good(self, records, tmp_path):
        hr.io.build_index(records)
        shutil.copytree(tmp_path, tmp_path.with_name("copy"), copy_function=shutil.copyfile)
        assert len(hr.TFRecordDataset(tmp_path.with_name("copy") / "r.tfrecord")) == len(ROWS)


def mutated(data, chance):
    """A sidecar with something wrong in it, and checksums that are right."""
    start = data.index(b"{")
    stop = data.index(b"\n", start)
    header, arrays = json.loads(data[start:stop]), bytearray(data[stop + 1 :])
    what = chance.choice(["header", "header", "array", "half", "more", "bytes", "nesting"])
    if what == "header":
        values = [None, -1, 0, 1, 3, 4, 8, 2**31, 2**62, 2**80, 1.5, True, "x", [], {}, header["size"]]
        header[chance.choice([*header, "other"])] = chance.choice(values)
    elif what == "array":
        at = 8 * chance.randrange(len(arrays) // 8)
        arrays[at : at + 8] = chance.choice([0, 1, 2**31, 2**62, 2**63 + 5, 2**64 - 1]).to_bytes(8, "little")
    elif what == "half":
        count = chance.randrange(header["count"])
        groups, kept = header["count"] // RECORDS_PER_GROUP + 1, count // RECORDS_PER_GROUP + 1
        arrays = arrays[: 8 * kept] + arrays[8 * groups : 8 * groups + 4 * (count + 1)]
        header["count"] = count
    elif what == "more":
        header["count"] += 1
        arrays += (0).to_bytes(4, "little")
    if isinstance(header.get("crc"), int) and what != "header":
        header["crc"] = zlib.crc32(arrays)
    made = bytearray(data[:start] + json.dumps(header).encode() + b"\n" + arrays)
    if what == "bytes":
        for _ in range(chance.randint(1, 5)):
            made[chance.randrange(len(made))] = chance.randrange(256)
    if what == "nesting":
        made = data[:start] + b"[" * 3000 + b"\n"
    return bytes(made)


@settings(max_examples=400)
@given(st.randoms(use_true_random=False))
def test_a_sidecar_that_is_nonsense_is_never_believed_and_never_raises(tmp_path_factory, chance):
    folder = tmp_path_factory.getbasetemp()
    path = folder / "mutated.tfrecord"
    rows = ROWS[:1500]
    if not path.exists():
        path.write_bytes(framed(rows))
    place = Path(index_file(str(path), TFRecords()).place)
    good = place.read_bytes()
    place.write_bytes(mutated(good, chance))
    found = fresh_index(str(path), TFRecords())
    if found is not None:  # the change did not matter, or the offset of one record in the middle is wrong
        assert found.count == len(rows)
        ds = hr.TFRecordDataset(path)
        for number in (0, len(rows) // 2, len(rows) - 1, chance.randrange(len(rows))):
            with contextlib.suppress(hr.ElementError):
                assert ds[number] == rows[number]
    assert len(hr.TFRecordDataset(path, index=True)) == len(rows)
    place.write_bytes(good)


@pytest.mark.parametrize("covered", [0, 1, 1024, 2999])
def test_one_that_covers_a_part_of_its_file_is_made_again(records, covered):
    whole = Path(records).read_bytes()
    Path(records).write_bytes(framed(ROWS[:covered]))
    place = Path(index_file(records, TFRecords(), beside=True).place)
    short = place.read_bytes()
    Path(records).write_bytes(whole)
    known = file_identity(records)
    start, stop = short.index(b"{"), short.index(b"\n", 17)
    header = json.loads(short[start:stop]) | {"size": known.size, "stamp": known.stamp}
    place.write_bytes(short[:start] + json.dumps(header).encode() + short[stop:])
    assert fresh_index(records, TFRecords()) is None
    assert hr.TFRecordDataset(records).cardinality() == hr.UNKNOWN_CARDINALITY
    assert len(hr.TFRecordDataset(records, index=True)) == len(ROWS)


def test_what_a_killed_writer_leaves_is_cleared_by_the_next(records, tmp_path):
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
            index_file(records, TFRecords(), beside=True)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    left = list((tmp_path / FOLDER).iterdir())
    assert len(left) == 1 and left[0].name.startswith(".") and left[0].name.endswith(TEMPORARY)
    assert list(hr.Dataset.list_files(f"{tmp_path}/*", shuffle=False)) == [records]
    assert len(hr.TFRecordDataset(records, index="beside")) == len(ROWS)
    assert [p.name for p in (tmp_path / FOLDER).iterdir()] == ["r.tfrecord.idx"]
