"""The command line, run in this process and as people run it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app
from headrace.formats.shared.kinds import file_kind

HEADRACE = Path(sys.executable).with_name("headrace")


def rows(n):
    return hr.Dataset.range(n).map(lambda x: {"x": x, "half": x / 2, "name": f"row {x}", "ids": np.arange(x % 3)})


def headrace(*arguments):
    """What a command that goes well prints as JSON."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run(*arguments):
    """A command in a process of its own."""
    return subprocess.run([HEADRACE, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def good(tmp_path):
    return Path(rows(300).write_tfrecord(tmp_path / "good", index=False)[0])


@pytest.fixture
def damaged(tmp_path, good):
    """Of 300 records, record 10 has wrong data, record 20 a wrong length, and the last one ends early."""
    starts = np.cumsum([0, *(len(record) + 16 for record in hr.TFRecordDataset(good))])
    data = bytearray(good.read_bytes())
    data[starts[10] + 20] ^= 1
    data[starts[20]] ^= 1
    path = tmp_path / "damaged.tfrecord"
    path.write_bytes(data[:-5])
    ends = [int(starts[11]), int(starts[21]), len(data) - 5]
    return path, list(zip([int(starts[n]) for n in (10, 20, 299)], ends, strict=True))


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "ZSTD"])
def test_inspect_says_what_a_file_holds(tmp_path, compression):
    (file,) = rows(300).write_tfrecord(tmp_path / "t", compression=compression)
    about = headrace("inspect", file, "-n", 2)
    assert (about["format"], about["compression"], about["records"], about["bad"]) == ("TFRecord", compression, 300, 0)
    assert about["size"] == Path(file).stat().st_size
    assert about["features"] == {"half": "float32", "ids": "int64 × any", "name": "bytes", "x": "int64"}
    assert about["first"] == [
        {"half": [0.0], "ids": [], "name": ["row 0"], "x": [0]},
        {"half": [0.5], "ids": [0], "name": ["row 1"], "x": [1]},
    ]


def test_inspect_of_records_that_are_no_examples(tmp_path):
    with hr.io.TFRecordWriter(tmp_path / "t.tfrecord") as writer:
        writer.write(b"\xff\xff")
    about = headrace("inspect", tmp_path / "t.tfrecord")
    assert about["features"] is None and "no Example" in about["note"]
    assert about["first"] == ["ffff"] and about["read_with"] == "hr.TFRecordDataset"


def test_inspect_for_people(good):
    result = run("inspect", good)
    assert result.returncode == 0 and result.stderr == ""
    assert "records     300" in result.stdout and "name = [b'row 2']" in result.stdout


def test_verify_of_good_files(good):
    assert headrace("verify", good) == [{"file": str(good), "records": 300, "size": good.stat().st_size, "bad": []}]


def test_verify_lists_the_bad_ranges(damaged):
    path, ranges = damaged
    result = run("verify", path, "--json")
    assert result.returncode == 1
    (report,) = json.loads(result.stdout)
    assert [(bad["start"], bad["stop"]) for bad in report["bad"]] == ranges
    assert [bad["record"] for bad in report["bad"]] == [10, 20, 299]
    assert report["records"] == 297
    assert "3 bad ranges" in run("verify", path).stdout


def test_verify_looks_at_all_of_a_large_file(tmp_path):
    path = Path(hr.Dataset.range(300_000).map(lambda x: {"x": x}).batch(1).unbatch().write_tfrecord(tmp_path / "t")[0])
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    result = run("verify", path, "--json")
    (report,) = json.loads(result.stdout)
    assert report["records"] == 299_999 and [bad["record"] for bad in report["bad"]] == [299_999]


def test_salvage_keeps_what_is_good(tmp_path, damaged):
    path, ranges = damaged
    saved = tmp_path / "saved.tfrecord"
    report = headrace("salvage", path, saved)
    assert report["records"] == 297 and len(report["bad"]) == len(ranges)
    kept = [int(row["x"]) for row in hr.Dataset.from_tfrecord(saved)]
    assert kept == [x for x in range(299) if x not in (10, 20)]
    again = run("salvage", path, saved)
    assert again.returncode == 2 and "--overwrite" in again.stderr


def test_index_makes_a_file_countable(good):
    (made,) = headrace("index", good)
    assert made["records"] == 300 and made["made"] and Path(made["index"]).exists()
    assert len(hr.TFRecordDataset(good)) == 300
    assert not headrace("index", good)[0]["made"]


def test_index_of_a_damaged_file_names_the_record(damaged):
    result = run("index", damaged[0])
    assert result.returncode == 2
    assert "record 10, byte" in result.stderr and result.stderr.count("\n") == 1


def test_convert_to_other_shards_keeps_the_records(tmp_path, good):
    made = headrace("convert", good, tmp_path / "out" / "t", "--shards", 3, "--compression", "gzip")
    assert [Path(f).name for f in made["files"]] == [f"t-0000{i}-of-00003.tfrecord" for i in range(3)]
    read = list(hr.TFRecordDataset(made["files"], "GZIP", num_parallel_reads=3))
    assert read == list(hr.TFRecordDataset(good))


def test_convert_to_parquet(tmp_path, good):
    made = headrace("convert", good, tmp_path / "t.parquet")
    assert [Path(f).name for f in made["files"]] == ["t-00000-of-00001.parquet"]
    table = pq.read_table(made["files"][0])
    assert table["x"].to_pylist() == list(range(300)) and table["ids"][5].as_py() == [0, 1]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.parquet", "t.arrow"])
def test_convert_from_tables(tmp_path, name):
    path = tmp_path / name
    table = pa.table({"x": range(100), "name": [f"row {i}" for i in range(100)]})
    if name == "t.parquet":
        pq.write_table(table, path)
    elif name == "t.arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    elif name == "t.jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        text = "x,name\n" + "".join(f"{row['x']},{row['name']}\n" for row in table.to_pylist())
        with pa.CompressedOutputStream(path, "gzip") if name.endswith("gz") else path.open("wb") as file:
            file.write(text.encode())
    assert headrace("inspect", path)["records"] == 100
    made = headrace("convert", path, tmp_path / "out")
    read = list(hr.Dataset.from_tfrecord(made["files"]))
    assert [(int(row["x"]), row["name"]) for row in read] == [(i, f"row {i}".encode()) for i in range(100)]


def test_convert_tells_missing_numbers_from_zeros(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(b"\xef\xbb\xbfname,age\nLee,31\nKim,\nIda,NA\nJo,0\n")
    made = headrace("convert", path, tmp_path / "a.parquet", "--na", "NA")
    assert str(pq.read_table(made["files"][0])["age"].to_pylist()) == "[31.0, nan, nan, 0.0]"
    made = headrace("convert", path, tmp_path / "b.parquet", "--na", "NA", "--nulls", "age=-1", "--nulls", "name=?")
    assert pq.read_table(made["files"][0])["age"].to_pylist() == [31, -1, -1, 0]
    rows = [json.dumps(row) for row in ({"x": 1}, {"x": None}, {"x": 3})]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    made = headrace("convert", tmp_path / "rows.jsonl", tmp_path / "c.parquet", "--nulls", "x=7")
    assert pq.read_table(made["files"][0])["x"].to_pylist() == [1, 7, 3]


def test_convert_reads_tabs_between_the_fields_of_tsv(tmp_path):
    (tmp_path / "t.tsv").write_text("x\ty\n1\ta,b\n")
    made = headrace("convert", tmp_path / "t.tsv", tmp_path / "t.parquet")
    assert pq.read_table(made["files"][0]).to_pylist() == [{"x": 1, "y": "a,b"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "twice.csv", "out"], "two columns are named 'a'"),
        (["convert", "open.csv", "out"], "open.csv, line 1: its header line"),
        (["convert", "twice.csv", "out", "--nulls", "a"], "--nulls takes COLUMN=VALUE"),
        (["convert", "lines.txt", "out", "--na", "x"], "--na is about CSV"),
        (["verify", "nothing-*"], "no files match 'nothing-*'"),
        (["inspect", "nothing"], "nothing: No such file or directory"),
        (["convert", "lines.txt", "out"], "lines.txt is text"),
        (["verify", "lines.txt"], "only TFRecord files have checksums"),
        (["inspect", "noise"], "neither Arrow"),
    ],
)
def test_an_error_is_one_line(tmp_path, arguments, message):
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    (tmp_path / "open.csv").write_text('a,"b\n1,2\n')
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 4)
    result = subprocess.run([HEADRACE, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr and result.stderr.count("\n") == 1 and "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["inspect", "verify", "index", "convert", "salvage"])
def test_every_command_has_help_with_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0 and f"headrace {command}" in result.output and "Example" in result.output


def test_a_file_is_known_by_what_it_holds(tmp_path, good):
    unnamed = tmp_path / "data"
    unnamed.write_bytes(good.read_bytes())
    assert file_kind(str(unnamed)) == ("TFRecord", "")
    unnamed.write_text('{"x": 1}\n')
    assert file_kind(str(unnamed)).format == "JSON lines"


def test_the_version():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"headrace {hr.__version__} (Python ")
    assert "inspect" in run("--help").stdout
