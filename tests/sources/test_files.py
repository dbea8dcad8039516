"""Readers of files: what they give, what they reject, what they leave behind."""

import gzip
import json
import pickle
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.framing import framed

import headrace as hr
from headrace import _native
from headrace.remote.objects import BLOCK
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

D = hr.Dataset


def packed_zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACK = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress, "ZSTD": packed_zstd}


def errors(ds):
    return [value for kind, value in outcomes(iter(ds)) if kind == "error"]


class TestText:
    def test_lines_are_text(self, put, run):
        assert run(hr.TextLineDataset(put("é\nb\n".encode(), b"", b"c"))) == ["é", "b", "c"]

    def test_or_bytes(self, put, run):
        assert run(hr.TextLineDataset(put(b"\xff\nb\n"), encoding=None)) == [b"\xff", b"b"]

    def test_or_text_in_another_encoding(self, put, run):
        assert run(hr.TextLineDataset(put("é\n".encode("latin-1")), encoding="latin-1")) == ["é"]

    @pytest.mark.parametrize("encoding", ["utf-16", "nonsense"])
    def test_of_an_encoding_that_makes_sense(self, encoding):
        with pytest.raises(ValueError, match="encoding"):
            hr.TextLineDataset("x", encoding=encoding)

    def test_a_line_that_is_no_text_is_an_error_in_its_place(self, put):
        (name,) = put(b"a\n\xff\nb\n")
        got = outcomes(iter(hr.TextLineDataset(name)))
        assert [kind for kind, _ in got] == ["value", "error", "value"]
        assert f"{name}, record 1, byte 2" in got[1][1]

    @pytest.mark.parametrize("compression", PACK)
    def test_every_compression(self, put, run, compression):
        text = b"".join(b"line %d\n" % i for i in range(1000))
        names = put(PACK[compression](text), PACK[compression](b"end"))
        assert run(hr.TextLineDataset(names, compression)) == [*text.decode().splitlines(), "end"]

    def test_batches_are_arrays_of_objects(self, put):
        (batch,) = hr.TextLineDataset(put(b"a\nbc\n")).batch(5)
        assert batch.dtype == object
        assert batch.tolist() == ["a", "bc"]


class TestFixedLength:
    def test_zeros_at_the_end_stay(self, put, run):
        assert run(hr.FixedLengthRecordDataset(put(b"a\0b\0"), 2)) == [b"a\0", b"b\0"]

    def test_a_file_of_the_wrong_size_says_so(self, put):
        (name,) = put(b"HHaabF")
        (error,) = errors(hr.FixedLengthRecordDataset(name, 2, 2, 1, index=False))
        assert "its body of 3 bytes is not a multiple of the record size, 2 bytes" in error
        assert str(name) in error

    def test_its_rows_are_addressable(self, put):
        names = put(b"HHaabbF", b"HHF", b"HHccF")
        ds = hr.FixedLengthRecordDataset(names, 2, 2, 1)
        assert len(ds) == 3
        assert [ds[0], ds[-1]] == [b"aa", b"cc"]
        assert sorted(ds.shuffle()) == [b"aa", b"bb", b"cc"]


class TestTFRecord:
    ROWS = (b"one", b"", b"three" * 1000, b"four")

    @pytest.mark.parametrize("compression", PACK)
    def test_every_compression(self, put, run, compression):
        data = PACK[compression](framed(self.ROWS))
        assert run(hr.TFRecordDataset(put(data, data), compression)) == [*self.ROWS, *self.ROWS]

    def test_a_record_larger_than_a_chunk(self, put):
        rows = [b"x" * 5_000_000, b"y"]
        assert list(hr.TFRecordDataset(put(framed(rows)), buffer_size=1000)) == rows

    def test_an_implausible_length_allocates_nothing(self, put):
        length = (2**62).to_bytes(8, "little")
        crc = _native.crc32c(length)
        masked = (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
        for compression, pack in PACK.items():
            names = put(pack(framed([b"a"]) + length + masked + b"rest"), framed([b"b"]))
            (error,) = errors(hr.TFRecordDataset(names[:1], compression))
            assert f"the file ends 16 bytes into a record of {2**62 + 16}" in error


class TestFileNames:
    def test_urls(self, put):
        (name,) = put(b"a\n")
        assert list(hr.TextLineDataset(f"file://{name}")) == ["a"]

    def test_a_file_that_is_not_there_is_one_error(self, put):
        (name,) = put(b"a\n")
        got = outcomes(iter(hr.TextLineDataset(["missing", name])))
        assert [kind for kind, _ in got] == ["error", "value"]
        assert "missing" in got[0][1]

    def test_a_folder_is_no_file(self, tmp_path):
        (error,) = errors(hr.TextLineDataset(tmp_path))
        assert "directory" in error

    def test_no_files(self, run):
        ds = hr.TextLineDataset([])
        assert run(ds) == []
        assert len(ds) == 0

    def test_names_from_a_pipeline(self, put, run):
        names = [str(n) for n in put(b"a\n", b"b\n", b"c\n")]
        assert run(hr.TextLineDataset(D.from_tensor_slices(names).skip(1))) == ["b", "c"]
        assert run(D.from_tensor_slices(names).interleave(hr.TextLineDataset, 3)) == ["a", "b", "c"]

    def test_what_is_no_name(self):
        with pytest.raises(TypeError, match="not 3"):
            hr.TextLineDataset([3])


@pytest.fixture
def memory():
    import fsspec

    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


class TestRemoteFiles:
    def test_any_url_that_fsspec_knows(self, memory):
        memory.pipe("/data/a.txt", b"a\nb\n")
        memory.pipe("/data/b.txt.gz", gzip.compress(b"c\n"))
        assert list(hr.TextLineDataset("memory://data/a.txt")) == ["a", "b"]
        assert list(hr.TextLineDataset("memory://data/b.txt.gz", "GZIP")) == ["c"]
        names = list(D.list_files("memory://data/*.txt", shuffle=False))
        assert names == ["memory://data/a.txt"] or names == ["memory:///data/a.txt"]
        assert list(hr.TextLineDataset(names)) == ["a", "b"]

    def test_index(self, memory):
        memory.pipe("/r", framed([b"a", b"bb", b"ccc"]))
        for index in (True, "beside"):
            assert not memory.exists("/.headrace/r.idx")
            ds = hr.TFRecordDataset("memory://r", index=index)
            assert (len(ds), ds[1], list(ds[1:])) == (3, b"bb", [b"bb", b"ccc"])
        assert memory.exists("/.headrace/r.idx")

    def test_a_state_is_refused_when_the_file_has_changed(self, memory):
        memory.pipe("/t", b"a\nb\n")
        it = iter(hr.TextLineDataset("memory://t"))
        next(it)
        state = it.state()
        memory.rm("/t")
        memory.pipe("/t", b"a\nc\nd\n")
        with pytest.raises(hr.StateError):
            list(hr.TextLineDataset("memory://t").iterator(state=state))

    def test_a_missing_one(self, memory):
        assert len(errors(hr.TextLineDataset("memory://nothing"))) == 1
        with pytest.raises(FileNotFoundError, match="memory://n"):
            D.list_files("memory://nothing/*")


class TestRangesOfRemoteFiles:
    DATA = b"".join(b"line %d\n" % i for i in range(1_500_000))

    @pytest.fixture
    def ranges(self):
        """A file system that can only be read by ranges, and the ranges that were asked for."""
        import fsspec
        from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

        asked, data = [], self.DATA

        class RangedFile(AbstractBufferedFile):
            def _fetch_range(self, start, end):
                asked.append((start, end))
                return data[start:end]

        class Ranged(AbstractFileSystem):
            protocol = "ranged"

            def info(self, path, **options):
                return {"name": path, "size": len(data), "type": "file", "etag": "1"}

            def _open(self, path, mode="rb", **options):
                return RangedFile(self, path, mode, **options)

        fsspec.register_implementation("ranged", Ranged, clobber=True)
        return asked

    def test_are_fetched_as_they_are_needed(self, ranges):
        with iter(hr.TextLineDataset("ranged://file")) as it:
            assert [next(it) for _ in range(3)] == ["line 0", "line 1", "line 2"]
        assert sum(stop - start for start, stop in ranges) <= 2 * BLOCK < len(self.DATA)

    def test_each_once_and_in_order(self, ranges):
        before = set(threading.enumerate())
        assert hr.TextLineDataset("ranged://file").count() == 1_500_000
        assert [start for start, _ in sorted(ranges)] == list(range(0, len(self.DATA), BLOCK))
        assert not [t.name for t in set(threading.enumerate()) - before if "ThreadPool" in t.name]

    def test_a_resume_begins_where_it_stopped(self, ranges):
        it = iter(hr.TextLineDataset("ranged://file").skip(1_400_000))
        next(it)
        state = it.state()
        it.close()
        ranges.clear()
        ds = hr.TextLineDataset("ranged://file").skip(1_400_000)
        with ds.iterator(state=state) as again:
            assert next(again) == "line 1400001"
        assert min(start for start, _ in ranges) > len(self.DATA) // 2


class TestFilesThatChangeWhileTheyAreRead:
    def test_a_file_that_shrinks_is_an_error(self, put):
        (name,) = put(b"line\n" * 200_000)
        with iter(hr.TextLineDataset(name, index=False)) as it:
            next(it)
            with name.open("r+b") as file:
                file.truncate(1000)
            with pytest.raises(hr.ElementError, match="shrunk"):
                list(it)

    def test_a_file_that_is_removed_is_read_to_its_end(self, put):
        (name,) = put(b"line\n" * 200_000)
        with iter(hr.TextLineDataset(name, index=False)) as it:
            next(it)
            name.unlink()
            assert sum(1 for _ in it) == 199_999


class TestStates:
    def test_are_small(self, put):
        names = put(*(b"".join(b"%d\n" % i for i in range(5000)) for _ in range(3)))
        it = iter(hr.TextLineDataset(names, num_parallel_reads=3).batch(7))
        for _ in range(900):
            next(it)
        assert len(json.dumps(it.state())) < 900
        it.close()

    @pytest.mark.parametrize("names_known", [True, False])
    def test_are_refused_when_a_file_has_changed(self, put, names_known):
        names = [str(n) for n in put(b"a\nb\n", b"c\nd\n")]

        def lines():
            return hr.TextLineDataset(names if names_known else D.from_tensor_slices(names).skip(0))

        it = iter(lines())
        next(it)
        state = it.state()
        Path(names[0]).write_bytes(b"x\nyy\n")
        with pytest.raises(hr.StateError):
            list(lines().iterator(state=state))

    def test_are_good_whether_there_is_an_index_or_not(self, put):
        (name,) = put(framed([b"%d" % i for i in range(100)]))
        plain, indexed = hr.TFRecordDataset(name, index=False), hr.TFRecordDataset(name, index=True)
        for one, other in ((plain, indexed), (indexed, plain)):
            it = iter(one)
            head = [next(it) for _ in range(37)]
            assert head + list(other.iterator(state=it.state())) == list(plain)


class TestResources:
    def descriptors(self):
        return psutil.Process().num_fds()

    @pytest.mark.parametrize("reads", [None, 3])
    def test_files_close_with_the_iterator(self, put, reads):
        names = put(*[b"a\nb\n" * 200_000] * 3)
        before = self.descriptors()
        for index in (False, True):
            ds = hr.TextLineDataset(names, num_parallel_reads=reads, index=index and reads is None)
            it = iter(ds)
            next(it)
            it.close()
            assert self.descriptors() == before
            it = iter(ds.take(3))
            assert len(list(it)) == 3
            assert self.descriptors() == before

    def test_random_access_leaves_no_file_open(self, put):
        ds = hr.TextLineDataset(put(b"a\nb\nc\n"), index=True)
        before = self.descriptors()
        assert ds[1] == "b"
        assert sorted(ds.shuffle()) == ["a", "b", "c"]
        assert self.descriptors() == before


class TestPromises:
    """Every reader through the conformance kit."""

    DATA = b"".join(b"line %d\n" % i for i in range(25))
    ROWS = framed([b"r" * i for i in range(12)])

    @pytest.mark.parametrize("compression", PACK)
    @pytest.mark.parametrize("reads", [None, 2])
    def test_text(self, put, compression, reads):
        names = put(*(PACK[compression](d) for d in (self.DATA, b"", b"\xff\nend")))
        check_transformation(hr.TextLineDataset(names, compression, 16, reads), cuts=12)

    @pytest.mark.parametrize("index", [False, True])
    def test_fixed_length(self, put, index):
        names = put(b"H" + self.DATA[:170], b"H", b"H" + self.DATA[:17])
        check_transformation(hr.FixedLengthRecordDataset(names, 17, 1, index=index and "auto"), cuts=12)
        check_transformation(hr.FixedLengthRecordDataset([*names, *put(b"x", name="bad")], 17, 1), cuts=12)

    @pytest.mark.parametrize("index", [False, True])
    def test_tfrecords(self, put, index):
        check_transformation(hr.TFRecordDataset(put(self.ROWS, b"", self.ROWS), index=index), cuts=12)

    def test_indexed_text(self, put):
        check_transformation(hr.TextLineDataset(put(b"a\nb\r\n\nc", b"", b"d\n\r"), index=True).shuffle(), cuts=12)

    def test_damaged_tfrecords(self, put):
        damaged = bytearray(self.ROWS)
        damaged[40] ^= 1
        check_transformation(hr.TFRecordDataset([*put(bytes(damaged), self.ROWS), "missing"], None, 16), cuts=12)

    def test_csv(self, put):
        names = put(b'x,y\n1,"a\nb"\nbad,c\n3\n4,d\n', b"", b'x,y\r\n5,"e"f"\r\n6,\xff\r\n7,g')
        check_transformation(hr.CsvDataset(names, [np.int32, str], header=True, buffer_size=7), cuts=12)

    def test_skipping_bad_rows(self, put):
        names = put(b"1,a\nbad,b\n3\n4,d\n")
        check_transformation(hr.CsvDataset(names, [np.int32, str], on_error="skip"), cuts=12)


@settings(max_examples=80)
@given(
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]),
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\xff"]), max_size=40),
    st.integers(1, 9),
    st.randoms(),
)
def test_chunks_of_any_size_give_the_same_lines(tmp_path_factory, lead, parts, chunk, random):
    path = tmp_path_factory.getbasetemp() / "chunks.txt"
    path.write_bytes(lead + b"".join(parts))
    ds = hr.TextLineDataset(path, buffer_size=chunk, index=False)
    want = reference_outcomes(ds)
    assert difference(outcomes(iter(ds)), want) is None
    cut = random.randint(0, len(want))
    it = iter(ds)
    outcomes(it, cut)
    assert difference(outcomes(ds.iterator(state=it.state())), want[cut:]) is None


@settings(max_examples=80)
@given(
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\n\r\n"]),
    st.lists(st.sampled_from([b"1", b",", b"a", b'"', b"\n", b"\r", b'"x\ny"', b'""', b" ", b"\xff"]), max_size=40),
    st.integers(1, 9),
    st.booleans(),
    st.randoms(),
)
def test_chunks_of_any_size_give_the_same_rows_of_csv(tmp_path_factory, lead, parts, chunk, header, random):
    path = tmp_path_factory.getbasetemp() / "chunks.csv"
    path.write_bytes(lead + b"".join(parts))
    for kinds in ([str, [7]], [bytes], [["d"], np.float32, str]):
        ds = hr.CsvDataset(path, kinds, buffer_size=chunk, header=header)
        want = reference_outcomes(ds)
        assert difference(outcomes(iter(ds)), want) is None
        cut = random.randint(0, len(want))
        it = iter(ds)
        outcomes(it, cut)
        assert difference(outcomes(ds.iterator(state=it.state())), want[cut:]) is None


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 64), st.data())
def test_damaged_files_of_any_kind(tmp_path_factory, rows, chunk, data):
    path = tmp_path_factory.getbasetemp() / "damaged.tfrecord"
    raw = bytearray(framed(rows))
    for _ in range(data.draw(st.integers(0, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(raw)))
    path.write_bytes(raw[:cut])
    ds = hr.TFRecordDataset(path, buffer_size=chunk, index=False)
    assert difference(outcomes(iter(ds)), reference_outcomes(ds)) is None
    kept = list(hr.TFRecordDataset(path, buffer_size=chunk, on_error="skip", index=False))
    rest = iter(rows)
    assert all(any(row == other for other in rest) for row in kept)  # some of the rows, in order


@settings(max_examples=60)
@given(
    st.lists(st.text("ab1", min_size=3, max_size=3), max_size=40),
    st.sampled_from([1, 7, 64, 300, None]),
    st.integers(1, 12),
    st.data(),
)
def test_batches_of_any_size_out_of_chunks_of_any_size(tmp_path_factory, rows, chunk, size, data):
    """A reader looks for as many rows as are wanted: what is left in its window comes next, and nothing else."""
    folder = tmp_path_factory.getbasetemp()
    raw = bytearray(framed([row.encode() for row in rows]))
    if raw and data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1
    (folder / "wanted.tfrecord").write_bytes(raw)
    (folder / "wanted.txt").write_text("\n".join(rows))
    (folder / "wanted.csv").write_text("".join(f"{row},{i}\n" for i, row in enumerate(rows)))
    (folder / "wanted.bin").write_text("head" + "".join(rows))
    for ds in (
        hr.TFRecordDataset(folder / "wanted.tfrecord", buffer_size=chunk, index=False),
        hr.TextLineDataset(folder / "wanted.txt", buffer_size=chunk, index=False),
        hr.CsvDataset(folder / "wanted.csv", [str, np.int32], buffer_size=chunk),
        hr.FixedLengthRecordDataset(folder / "wanted.bin", 3, 4, buffer_size=chunk),
    ):
        batches = ds.batch(size)
        want = reference_outcomes(batches)
        assert difference(outcomes(iter(batches)), want) is None
        cut = data.draw(st.integers(0, len(want)))
        it = iter(batches)
        outcomes(it, cut)
        assert difference(outcomes(batches.iterator(state=it.state())), want[cut:]) is None
    kept = hr.TFRecordDataset(folder / "wanted.tfrecord", buffer_size=chunk, index=False, on_error="skip")
    assert [row for batch in kept.batch(size) for row in batch] == list(kept)


def test_batches_of_records_hold_bytes_wherever_they_are_made(tmp_path):
    """Objects are made by the reader where only a batch is made of them; else later."""
    rows = [bytes([i % 256]) * (i % 50) for i in range(3000)]
    names = [tmp_path / f"{i}.tfrecord" for i in range(3)]
    for i, name in enumerate(names):
        name.write_bytes(framed(rows[1000 * i : 1000 * i + 1000]))
    files = hr.Dataset.from_tensor_slices([str(name) for name in names])
    records = hr.TFRecordDataset(names, index=False)
    turns = [row for three in zip(rows[:1000], rows[1000:2000], rows[2000:], strict=True) for row in three]

    def one(name):
        return hr.TFRecordDataset(name, index=False)

    for ds, want in (
        (records.batch(700), rows),
        (records.prefetch(1).batch(700), rows),
        (records.take(2500).batch(700), rows[:2500]),
        (records.shuffle(1).batch(700), rows),
        (files.interleave(one, 3).batch(700), turns),
        (files.interleave(one, 3, num_parallel_calls=2).batch(700), turns),
        (hr.TFRecordDataset(names, num_parallel_reads=3, index=False).batch(700), turns),
        (records.batch(10).unbatch().batch(700), rows),
    ):
        got = list(ds)
        assert {batch.dtype for batch in got} == {np.dtype(object)} and {type(row) for row in got[0]} == {bytes}
        assert [row for batch in got for row in batch] == want


def test_datasets_of_files_can_be_pickled_before_and_after_a_pass(tmp_path):
    with hr.io.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for i in range(5):
            writer.write({"x": i})
    (tmp_path / "a.csv").write_text("x\n0\n1\n2\n3\n4\n")
    for ds in (
        hr.Dataset.from_tfrecord(tmp_path / "a.tfrecord"),
        hr.Dataset.from_csv(tmp_path / "a.csv", batch_size=None),
    ):
        for _ in range(2):
            again = pickle.loads(pickle.dumps(ds))
            assert [int(row["x"]) for row in again] == [int(row["x"]) for row in ds] == list(range(5))


def test_records_are_read_shuffled_and_picked_without_pandas(tmp_path):
    with hr.io.TFRecordWriter(tmp_path / "few.tfrecord") as writer:
        for i in range(9):
            writer.write(b"%d" % i)
    program = """
import sys
import headrace as hr
ds = hr.TFRecordDataset(sys.argv[1]).shuffle(3, seed=1).filter(lambda record: record != b"3").batch(2)
assert sorted(row for batch in ds for row in batch) == [b"%d" % i for i in range(9) if i != 3]
print("pandas" in sys.modules)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "few.tfrecord")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "False\n"


def test_a_local_file_is_opened_without_a_look_at_how_much_memory_there_is(tmp_path, monkeypatch):
    (tmp_path / "lines").write_text("a\nb\n")
    asked = []
    monkeypatch.setattr("headrace.execute.budget.free_memory", lambda: asked.append(1) or 1 << 30)
    (lines,) = hr.TextLineDataset(tmp_path / "lines").batch(2)
    assert lines.tolist() == ["a", "b"]
    assert not asked
