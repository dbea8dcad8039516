"""Files of others on the command line: streams, marks, and names that would speak to the terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables import NO_TEXT, strings, write_stream
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app
from headrace.formats.shared.kinds import file_kind

HEADRACE = Path(sys.executable).with_name("headrace")
EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b31m\u202etxt\n\r\x00"
TABLE = pa.table({"x": range(100), "name": [f"row {i}" for i in range(100)]})


def headrace(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run(*arguments, folder=None):
    return subprocess.run([HEADRACE, *map(str, arguments)], capture_output=True, check=False, cwd=folder)


def quiet(output):
    """Whether nothing in it speaks to a terminal."""
    return all(c.isprintable() or c == "\n" for c in output.decode())


@pytest.mark.parametrize("name", ["t.arrow", "t.arrows", "t.feather", "data"])
def test_a_stream_of_arrow_is_known_by_what_it_holds(tmp_path, name):
    path = tmp_path / name
    write_stream(TABLE, path, 30)
    assert file_kind(str(path)) == ("Arrow", "")
    about = headrace("inspect", path)
    assert (about["format"], about["records"], about["read_with"]) == ("Arrow", 100, "hr.ArrowDataset")
    made = headrace("convert", path, tmp_path / "out")
    rows = list(hr.Dataset.from_tfrecord(made["files"]))
    assert [(int(row["x"]), row["name"]) for row in rows] == [(i, f"row {i}".encode()) for i in range(100)]


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\n\n", b"\xef\xbb\xbf \r\n\r\n"])
@pytest.mark.parametrize("name", ["t.jsonl", "t"])
def test_json_lines_behind_a_mark_or_blank_lines(tmp_path, before, name):
    path = tmp_path / name
    path.write_bytes(before + b"".join(json.dumps(row).encode() + b"\n" for row in TABLE.to_pylist()))
    about = headrace("inspect", path, "-n", 1)
    assert (about["format"], about["records"], about["first"]) == ("JSON lines", 100, [{"x": 0, "name": "row 0"}])
    made = headrace("convert", path, tmp_path / "out.parquet")
    assert pq.read_table(made["files"][0])["x"].to_pylist() == list(range(100))


class TestNamesThatSpeakToTheTerminal:
    def test_names_of_features_and_values(self, tmp_path):
        name = EVIL.replace("\x00", "")
        pq.write_table(pa.table({name: [name], "s": [EVIL]}), tmp_path / "t.parquet")
        with hr.io.TFRecordWriter(tmp_path / "t.tfrecord") as writer:
            writer.write(hr.io.encode_example({name: [name.encode()], "b": [EVIL.encode()]}))
        (tmp_path / "t.jsonl").write_text(json.dumps({name: EVIL}) + "\n")
        (tmp_path / "t.txt").write_text(name.replace("\n", "").replace("\r", ""))
        for file in ("t.parquet", "t.tfrecord", "t.jsonl", "t.txt"):
            result = run("inspect", tmp_path / file)
            assert result.returncode == 0, result.stderr
            assert quiet(result.stdout) and b"red" in result.stdout

    def test_names_of_files(self, tmp_path):
        name = EVIL.replace("\x00", "")
        pq.write_table(TABLE, tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.tfrecord").write_bytes(b"nonsense that is no record at all")
        for command in (
            ["inspect", f"{name}.parquet"],
            ["inspect", f"{name}.missing"],
            ["verify", f"{name}.tfrecord"],
            ["convert", f"{name}.parquet", f"{name}-out"],
            ["index", f"{name}.parquet"],
        ):
            result = run(*command, folder=tmp_path)
            assert quiet(result.stdout) and quiet(result.stderr), command
            assert b"red" in result.stdout + result.stderr

    def test_names_that_are_no_text(self, tmp_path):
        path = os.fsencode(tmp_path) + b"/\xff\xfe.parquet"
        with open(path, "wb") as file:  # noqa: PTH123 - a path is text
            pq.write_table(TABLE, file)
        result = run("inspect", os.fsdecode(path))
        assert result.returncode == 0 and quiet(result.stdout), result.stderr
        assert rb"\udcff\udcfe.parquet" in result.stdout

    def test_what_is_left_out(self, tmp_path):
        """The log goes to the terminal, too."""
        name = EVIL.replace("\x00", "")
        table = pa.table({name: strings([b"a", NO_TEXT]), "x": np.arange(2)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        result = run("convert", f"{name}.parquet", "out", "--skip-errors", folder=tmp_path)
        assert result.returncode == 0, result.stderr
        assert b"skipped" in result.stderr and quiet(result.stderr)
