"""`headrace dataset`: made, checked, listed and shared from the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))


def run(*words, code=0):
    done = CliRunner().invoke(app, ["dataset", *words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def test_from_a_new_file_to_a_locked_dataset(tmp_path):
    run("new", "Toy")
    rows = "".join(f"word {i},{'yes' if i % 2 else 'no'}\n" for i in range(23))
    (tmp_path / "toy.csv").write_text("text,label\n" + rows)
    assert "train: 19 rows" in run("build", "toy.py")
    assert "toy  1.0.0" in run("list")
    page = json.loads(run("info", "toy", "--json"))
    assert page["splits"]["test"]["rows"] == 4
    assert "23 rows, fine" in run("verify", "toy")
    assert "toy:1.0.0 is locked" in run("lock", "toy")
    assert "catalogue.json" in run("index", str(tmp_path / "data"))
    assert hr.load("toy", split="test", as_supervised=True)[0][0].startswith(b"word")
    shard = tmp_path / "data/toy/1.0.0/toy-train.tfrecord-00000-of-00001"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert isinstance(CliRunner().invoke(app, ["dataset", "verify", "toy"]).exception, hr.StorageError)  # of the lock
    (tmp_path / "headrace.lock").unlink()
    assert "toy-train" in run("verify", "toy", code=1)


def test_verify_says_which_version_a_change_demands(tmp_path):
    ds = hr.Dataset.range(5).map(lambda x: {"x": x})
    ds.write_tfds("data", "grown", "1.0.0")
    ds.map(lambda row: {**row, "y": row["x"] * 2}).write_tfds("data", "grown", "1.0.1")
    ds.map(lambda row: {"x": row["x"] + 1}).write_tfds("data", "grown", "2.0.0")
    said = run("verify", "grown:1.0.1", "--against", "1.0.0", code=1)
    assert "minor: feature 'y' is new" in said
    assert "demands 1.1.0 or higher, but the version is 1.0.1" in said
    said = run("verify", "grown:2.0.0", "--against", "1.0.0")
    assert "row 0 is another" in said
    assert "demands 2.0.0 or higher, as 2.0.0 says" in said


def test_a_file_without_datasets(tmp_path):
    (tmp_path / "none.py").write_text("x = 1\n")
    done = CliRunner().invoke(app, ["dataset", "build", "none.py"])
    assert "defines no dataset" in str(done.exception)
    assert np.isscalar(done.exit_code)
