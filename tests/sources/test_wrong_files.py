"""Files that are not what the reader expects, names that do not exist: the error says what to do."""

import glob
import gzip
import pickle
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.framing import framed

import headrace as hr
from headrace.testing import check_transformation, outcomes

D = hr.Dataset
LINES = b"".join(b"line %d\n" % i for i in range(500))
RECORDS = framed([b"record %d" % i for i in range(50)])


def zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


PACKED = {"GZIP": gzip.compress, "ZSTD": zstd}


def errors(ds):
    return [value for kind, value in outcomes(iter(ds)) if kind == "error"]


class TestPackedData:
    @pytest.fixture(params=PACKED)
    def compression(self, request):
        return request.param

    @pytest.fixture
    def put(self, tmp_path):
        def write(data):
            (tmp_path / "data").write_bytes(data)
            return tmp_path / "data"

        return write

    @pytest.mark.parametrize("encoding", [None, "utf-8", "latin-1"])
    def test_as_text(self, put, compression, encoding):
        path = put(PACKED[compression](LINES))
        for chunk in (None, 3):
            ds = hr.TextLineDataset(path, encoding=encoding, buffer_size=chunk)
            (error,) = errors(ds)
            assert f"this is {compression} data: say compression_type={compression!r}" in error
            assert str(path) in error
            check_transformation(ds.skip(0))
            check_transformation(D.from_tensor_slices([str(path)] * 2).flat_map(hr.TextLineDataset).skip(1))
        assert len(list(hr.TextLineDataset(path, compression, encoding=encoding))) == 500

    def test_as_records(self, put, compression):
        path = put(PACKED[compression](RECORDS))
        (error,) = errors(hr.TFRecordDataset(path))
        assert f"compression_type={compression!r}" in error
        with pytest.raises(hr.ElementError, match=f"compression_type='{compression}'"):
            hr.TFRecordDataset(path, index=True)
        with pytest.raises(hr.ElementError, match=f"compression_type='{compression}'"):
            D.from_tfrecord(path)

    @pytest.mark.parametrize("chunk", [None, 5])
    def test_records_in_zlib_data_which_has_no_mark(self, put, chunk):
        (error,) = errors(hr.TFRecordDataset(put(zlib.compress(RECORDS)), buffer_size=chunk))
        assert "this is ZLIB data" in error

    def test_a_record_that_is_as_long_as_the_mark_says_is_a_record(self, put):
        record = bytes(int.from_bytes(b"\x1f\x8b\x08", "little"))
        assert list(hr.TFRecordDataset(put(framed([record])))) == [record]

    def test_as_records_of_one_length(self, put, compression):
        path = put(PACKED[compression](bytes(999)) + b"x")
        size = path.stat().st_size
        (error,) = errors(hr.FixedLengthRecordDataset(path, size - 1))
        assert "not a multiple" in error and f"this is {compression} data" in error
        assert len(list(hr.FixedLengthRecordDataset(path, size))) == 1

    def test_as_csv(self, put, compression):
        path = put(PACKED[compression](b"a,b\n1,2\n"))
        (error,) = errors(hr.CsvDataset(path, [np.int32, np.int32]))
        assert f"this is {compression} data" in error
        with pytest.raises(ValueError, match=f"this is {compression} data"):
            D.from_csv(path)

    def test_as_json(self, put, compression):
        path = put(PACKED[compression](b'{"x": 1}\n'))
        with pytest.raises(ValueError, match=f"this is {compression} data"):
            hr.JsonLinesDataset(path)
        (error,) = errors(hr.JsonLinesDataset(path, pa.schema({"x": pa.int64()})))
        assert f"this is {compression} data" in error

    def test_no_records_at_all(self, put):
        for data in (b"hello", b"hello, world, what is this?"):
            (error,) = errors(hr.TFRecordDataset(put(data)))
            assert "is this a TFRecord file at all?" in error
        (error,) = errors(hr.TFRecordDataset(put(RECORDS[:20])))
        assert "at all" not in error


class TestPatterns:
    @pytest.mark.parametrize("reader", [hr.TFRecordDataset, hr.TextLineDataset])
    @pytest.mark.parametrize("name", ["train-*.tfrecord", "train-?", "train-[ab]"])
    def test_a_pattern_in_place_of_a_name_points_to_list_files(self, tmp_path, reader, name):
        with pytest.raises(FileNotFoundError, match=r"hr.Dataset.list_files\(.*\) gives the names"):
            reader(tmp_path / name)
        with pytest.raises(FileNotFoundError, match="list_files"):
            reader([tmp_path / "other", tmp_path / name], on_error="skip")

    def test_so_it_does_where_names_come_from_a_dataset(self, tmp_path):
        ds = hr.TextLineDataset(D.from_tensor_slices([f"{tmp_path}/train-*"]).skip(0))
        (error,) = errors(ds)
        assert "No such file" in error and "list_files" in error
        check_transformation(ds)

    def test_a_file_of_such_a_name_is_read(self, tmp_path):
        for name in ("a[1].txt", "what?.txt", "*", "[x]"):
            path = tmp_path / name
            path.write_bytes(name.encode())
            assert list(hr.TextLineDataset(path)) == [name]
            assert list(hr.TextLineDataset(str(path), index=True)) == [name]
            path.unlink()


class TestBrackets:
    @pytest.fixture
    def folder(self, tmp_path):
        folder = tmp_path / "runs[1]"
        folder.mkdir()
        for name in ("a[1].csv", "a1.csv", "a2.csv"):
            (folder / name).write_text(f"x\n{name}\n")
        (tmp_path / "runs1").mkdir()
        (tmp_path / "runs1" / "other.csv").write_text("x\nother\n")
        return folder

    def listed(self, pattern):
        return [Path(n).name for n in D.list_files(str(pattern), shuffle=False)]

    def test_in_folders(self, folder):
        assert self.listed(folder / "*.csv") == ["a1.csv", "a2.csv", "a[1].csv"]
        assert self.listed(folder / "a?.csv") == ["a1.csv", "a2.csv"]

    def test_in_names(self, folder):
        assert self.listed(folder / "a[1].csv") == ["a[1].csv"]
        assert self.listed(folder / "a[2].csv") == ["a2.csv"]
        assert [row["x"] for row in D.from_csv(folder / "a[1].csv")] == ["a[1].csv"]

    def test_a_folder_that_is_not_there_as_written_is_a_pattern(self, folder):
        (folder / "a[1].csv").unlink()
        assert self.listed(folder.parent / "runs[12]" / "*.csv") == ["other.csv"]

    def test_in_urls(self):
        import fsspec

        system = fsspec.filesystem("memory")
        system.pipe("/odd/a[1].txt", b"x\n")
        try:
            assert list(hr.TextLineDataset(D.list_files("memory://odd/a[1].txt"))) == ["x"]
        finally:
            system.rm("/odd", recursive=True)

    @pytest.mark.parametrize("write", ["write_tfrecord", "write_parquet"])
    def test_where_files_are_written(self, tmp_path, write):
        folder = tmp_path / "out[1]"
        made = D.range(3).map(lambda x: {"x": x})
        names = getattr(made, write)(folder / "part[2]")
        read = D.from_tfrecord if write == "write_tfrecord" else hr.ParquetDataset
        assert [int(row["x"]) for row in read(names)] == [0, 1, 2]
        assert [int(row["x"]) for row in read(f"{glob.escape(str(folder))}/part[[]2]-*")] == [0, 1, 2]


class TestCauses:
    def cause(self, ds):
        it = iter(ds)
        with pytest.raises(hr.ElementError) as raised:
            next(it)
        it.close()
        again = pickle.loads(pickle.dumps(raised.value))
        assert type(again.__cause__) is type(raised.value.__cause__)
        return raised.value.__cause__

    def test_of_a_missing_file(self, tmp_path):
        missing = tmp_path / "missing"
        for ds in (hr.TextLineDataset(missing), hr.TFRecordDataset(missing), hr.TextLineDataset("memory://missing")):
            assert isinstance(self.cause(ds), FileNotFoundError)
        assert isinstance(self.cause(hr.TextLineDataset(missing).batch(2)), FileNotFoundError)

    def test_of_a_folder(self, tmp_path):
        assert isinstance(self.cause(hr.TextLineDataset(tmp_path)), IsADirectoryError)

    def test_of_a_table_that_vanishes(self, tmp_path):
        path = tmp_path / "t.parquet"
        names = D.range(2).map(lambda x: {"x": x}).write_parquet(path)
        ds = hr.ParquetDataset(names)
        Path(names[0]).unlink()
        assert isinstance(self.cause(ds), FileNotFoundError)
