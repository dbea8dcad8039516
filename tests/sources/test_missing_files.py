"""A file that cannot be opened is an error that no policy for bad records hides, and nothing drops it silently."""

import logging
import pickle
import warnings

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import reference
from headrace.errors import ElementError
from headrace.formats.shared import files
from headrace.testing import check_transformation


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = hr.Dataset.range(3)
    for name in ("a", "b"):
        with hr.io.TFRecordWriter(tmp_path / f"{name}.tfrecord") as writer:
            for i in range(3):
                writer.write({"x": i})
        (tmp_path / f"{name}.txt").write_text("0\n1\n2\n")
        (tmp_path / f"{name}.csv").write_text("x\n0\n1\n2\n")
        (tmp_path / f"{name}.jsonl").write_text('{"x": 0}\n{"x": 1}\n{"x": 2}\n')
        (tmp_path / f"{name}.bin").write_bytes(b"012")
        pq.write_table(pa.table({"x": [0, 1, 2]}), tmp_path / f"{name}.parquet")
        feather.write_feather(pa.table({"x": [0, 1, 2]}), tmp_path / f"{name}.arrow")
        (made,) = rows.map(lambda i: {"__key__": str(i), "txt": str(i)}).write_webdataset(tmp_path / name)
        (tmp_path / made).rename(tmp_path / f"{name}.tar")
    return tmp_path


READERS = {
    "tfrecord": hr.TFRecordDataset,
    "txt": hr.TextLineDataset,
    "bin": lambda names, **how: hr.FixedLengthRecordDataset(names, 1, **how),
    "csv": lambda names, **how: hr.CsvDataset(names, [str], header=True, **how),
    "tar": lambda names, **how: hr.WebDataset(names, fields=["txt"], **how),
}
PATTERNS = {
    "tfrecord": hr.Dataset.from_tfrecord,
    "csv": hr.Dataset.from_csv,
    "jsonl": hr.JsonLinesDataset,
    "parquet": hr.ParquetDataset,
    "arrow": hr.ArrowDataset,
    "tar": hr.WebDataset,
}


def outcomes(rows):
    """How many elements come, and the errors in between; of an iterator, or of the reference executor."""
    found, it = [], iter(rows)
    while True:
        try:
            next(it)
            found.append("row")
        except StopIteration:
            return found
        except ElementError as error:
            found.append(error)


def naive(ds):
    return [row.value if isinstance(row.value, ElementError) else "row" for row in reference.run(ds._node)]


def shown(found):
    return [str(each) for each in found]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("on_error", ["raise", "skip", "quarantine"])
@pytest.mark.parametrize("reads", [None, 2])
def test_a_missing_file_is_raised_whatever_on_error_says(folder, kind, on_error, reads):
    names = [f"a.{kind}", f"gone.{kind}", f"b.{kind}"]
    policy = hr.Quarantine(folder / "bad") if on_error == "quarantine" else on_error
    ds = READERS[kind](names, on_error=policy, num_parallel_reads=reads)
    found = outcomes(ds)
    (error,) = (each for each in found if each != "row")
    assert isinstance(error, FileNotFoundError) and error.filename == f"gone.{kind}" and error.errno == 2
    assert len(found) == 7 and shown(naive(ds)) == shown(found)
    assert ("missing=" in str(error)) is (on_error != "raise")


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_missing_skip_leaves_it_out_and_logs_it(folder, caplog, kind, on_error):
    names = [f"gone.{kind}", f"a.{kind}", f"gone.{kind}", f"b.{kind}"]
    with caplog.at_level(logging.WARNING, "headrace"):
        ds = READERS[kind](names, on_error=on_error, missing="skip")
        assert outcomes(ds) == naive(ds) == ["row"] * 6 and ds.count() == 6
    assert any(f"gone.{kind}" in line for line in caplog.messages)
    check_transformation(ds, cuts=4)


@pytest.mark.parametrize("kind", PATTERNS)
def test_readers_that_look_into_the_first_file_look_into_the_first_there_is(folder, kind):
    names = [f"gone.{kind}", f"a.{kind}", f"b.{kind}"]
    with pytest.raises(FileNotFoundError):
        outcomes(PATTERNS[kind](names, on_error="skip"))
    ds = PATTERNS[kind](names, missing="skip")
    assert outcomes(ds) == naive(ds) == ["row"] * 6
    if kind != "tar":  # which may be read by a dataset of names
        with pytest.raises(FileNotFoundError):
            PATTERNS[kind]([f"gone.{kind}"], missing="skip")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "jsonl"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("missing", ["raise", "skip"])
def test_a_file_that_vanishes_before_it_is_read(folder, kind, on_error, missing):
    ds = PATTERNS[kind]([f"a.{kind}", f"b.{kind}"], on_error=on_error, missing=missing)
    (folder / f"b.{kind}").unlink()
    found = outcomes(ds)
    if missing == "skip":
        assert found == naive(ds) == ["row"] * 3
    else:
        assert len(found) == 4 and isinstance(found[3], FileNotFoundError) and shown(naive(ds)) == shown(found)


def test_a_file_that_may_not_be_read_is_a_permission_error(folder, monkeypatch):
    opened = files.LocalFile.__init__

    def forbidden(self, path):
        if path == "b.txt":
            raise PermissionError(13, "Permission denied", path)
        opened(self, path)

    monkeypatch.setattr(files.LocalFile, "__init__", forbidden)
    names = ["a.txt", "b.txt"]
    (error,) = outcomes(hr.TextLineDataset(names, buffer_size=100, on_error="skip"))[3:]
    assert isinstance(error, PermissionError) and not isinstance(error, FileNotFoundError)
    assert outcomes(hr.TextLineDataset(names, buffer_size=100, missing="skip")) == ["row"] * 3


def test_a_folder_is_no_file_either(folder):
    (folder / "inner").mkdir()
    (error,) = outcomes(hr.TextLineDataset(["a.txt", "inner"], on_error="skip"))[3:]
    assert isinstance(error, OSError) and error.filename == "inner"


def test_bad_records_are_still_left_out(folder):
    (folder / "b.tfrecord").write_bytes((folder / "b.tfrecord").read_bytes()[:-1])
    assert outcomes(hr.TFRecordDataset(["a.tfrecord", "b.tfrecord"], on_error="skip")) == ["row"] * 5


def test_the_error_travels(folder):
    (error,) = outcomes(hr.TextLineDataset("gone.txt"))
    for same in (error.copy(), pickle.loads(pickle.dumps(error))):
        assert isinstance(same, FileNotFoundError) and isinstance(same, ElementError)
        assert (str(same), same.filename, same.errno, same.provenance) == (
            str(error), "gone.txt", 2, error.provenance,
        )  # fmt: skip


def test_numbers_and_files_that_may_be_missing_exclude_each_other(folder):
    with pytest.raises(ValueError, match="missing='skip'"):
        hr.TextLineDataset("a.txt", missing="skip", index=True)
    with pytest.raises(ValueError, match="missing must be"):
        hr.TextLineDataset("a.txt", missing="ignore")
    with pytest.raises(TypeError):
        len(hr.ParquetDataset("*.parquet", missing="skip"))


def test_a_state_is_restored_with_a_file_missing(folder):
    ds = hr.TextLineDataset(["gone.txt", "a.txt", "gone.txt", "b.txt"], missing="skip")
    for cut in range(7):
        it = iter(ds)
        head = [next(it) for _ in range(cut)]
        assert head + list(ds.iterator(state=it.state())) == ["0", "1", "2"] * 2


class TestIgnoreErrors:
    def test_names_each_file_that_it_drops_once(self, folder, run):
        ds = hr.TextLineDataset(["a.txt", "gone.txt", "lost.txt"]).ignore_errors()
        with pytest.warns(hr.PipelineWarning) as caught:
            assert len(run(ds)) == 3
        said = [str(warning.message) for warning in caught]
        assert len(said) == 2 and "gone.txt" in said[0] and "lost.txt" in said[1] and __file__ in said[0]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(run(ds)) == 3

    def test_behind_a_batch_and_a_map(self, folder, run):
        ds = hr.TextLineDataset(["gone.txt", "a.txt"]).map(lambda x: x).batch(2).ignore_errors()
        with pytest.warns(hr.PipelineWarning, match=r"gone\.txt"):
            assert len(run(ds)) == 1

    def test_of_files_that_functions_open(self, folder, run):
        def content(name):
            with open(name) as file:  # noqa: PTH123
                return file.read()

        ds = hr.Dataset.from_tensor_slices(["a.txt", "gone.txt"]).map(content).ignore_errors()
        with pytest.warns(hr.PipelineWarning, match=r"gone\.txt"):
            assert len(run(ds)) == 1

    def test_by_options(self, folder):
        ds = hr.TextLineDataset(["gone.txt", "a.txt"]).with_options(hr.Options(on_error="skip"))
        with pytest.warns(hr.PipelineWarning, match=r"gone\.txt"):
            assert len(list(ds)) == 3

    def test_says_nothing_of_other_errors(self, run):
        ds = hr.Dataset.from_tensor_slices(["1", "x"]).map(int).ignore_errors()
        assert len(run(ds)) == 1
