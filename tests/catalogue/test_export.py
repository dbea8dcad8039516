"""Datasets shown and handed on: cards, Hugging Face datasets, Croissant, tar files."""

import json
import tarfile
from fnmatch import fnmatch

import numpy as np
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app

F = hr.tfds.features


@pytest.fixture
def toy(tmp_path):
    @hr.dataset(
        "toy",
        version="1.0.0",
        features={
            "image": F.Image(shape=(4, 5, 3)),
            "label": F.ClassLabel(names=["<cat>", "dog"]),
            "text": F.Text(),
            "numbers": F.Sequence(np.int64),
            "parts": F.Sequence({"x": np.float32, "word": F.Text()}),
            "at": F.Tensor(shape=(2,), dtype=np.float32),
        },
        splits={"train": 12, "test": 3},
        supervised_keys=("image", "label"),
        release_notes={"1.0.0": "First."},
        citation="@misc{toy}",
        shuffle=False,
    )
    def toy(count):
        """Toys & more."""
        for i in range(count):
            yield {
                "image": np.full((4, 5, 3), i, np.uint8),
                "label": i % 2,
                "text": f"<b>{i}</b>",
                "numbers": list(range(i % 3)),
                "parts": [{"x": j / 2, "word": str(j)} for j in range(i % 2)],
                "at": [i, -i],
            }

    return toy.build(tmp_path)


def run(*words):
    done = CliRunner().invoke(app, ["dataset", *words])
    assert done.exit_code == 0, (done.output, done.exception)


def test_a_card_shows_rows_pictures_and_numbers(toy, tmp_path):
    run("card", toy.data_path, "-o", str(tmp_path / "toy.html"))
    page = (tmp_path / "toy.html").read_text()
    assert page.count('src="data:image/png;base64,') == 8
    for said in (
        "Toys &amp; more.",
        "&lt;b&gt;3&lt;/b&gt;",
        "0 (&lt;cat&gt;)",
        "&lt;cat&gt;: 6, dog: 6",
        "12",
        "@misc{toy}",
    ):
        assert said in page, said
    assert "<b>3" not in page
    run("card", "iris", "-o", str(tmp_path / "iris.html"))
    assert "setosa: 50" in (tmp_path / "iris.html").read_text()


def test_hugging_face_datasets_reads_it(toy, tmp_path):
    datasets = pytest.importorskip("datasets")
    run("export", toy.data_path, str(tmp_path / "hf"), "--to", "huggingface")
    found = datasets.load_from_disk(str(tmp_path / "hf"))
    assert {name: len(split) for name, split in found.items()} == {"train": 12, "test": 3}
    row = found["train"][5]
    assert np.asarray(row["image"]).tolist() == np.full((4, 5, 3), 5).tolist()
    assert (row["label"], row["text"], row["numbers"], row["at"]) == (1, "<b>5</b>", [0, 1], [5.0, -5.0])
    assert row["parts"] == {"x": [0.0], "word": ["0"]}
    assert found["train"].features["label"].names == ["<cat>", "dog"]


def test_tar_files_for_webdataset(toy, tmp_path):
    run("export", toy.data_path, str(tmp_path / "tar"), "--to", "webdataset")
    with tarfile.open(tmp_path / "tar/train-000000.tar") as tar:
        names = tar.getnames()
        assert names[:4] == ["000000000.at.npy", "000000000.image.png", "000000000.numbers.npy", "000000000.text.txt"]
        assert tar.extractfile("000000003.text.txt").read() == b"<b>3</b>"
        assert json.loads(tar.extractfile("000000003.json").read())["label"] == 1
        assert len({name.split(".")[0] for name in names}) == 12


def test_croissant_names_files_and_fields(toy, tmp_path):
    run("export", toy.data_path, str(tmp_path / "croissant.json"), "--to", "croissant")
    page = json.loads((tmp_path / "croissant.json").read_text())
    shards, *files = page["distribution"]
    assert [file["name"] for file in files] == [
        "toy-train.tfrecord-00000-of-00001",
        "toy-test.tfrecord-00000-of-00001",
    ]
    assert all(fnmatch(file["name"], shards["includes"]) for file in files)
    assert all(len(file["sha256"]) == 64 for file in files)
    types = {field["name"]: field["dataType"] for field in page["recordSet"][0]["field"]}
    assert types["image"] == "sc:ImageObject"
    assert types["label"] == "sc:Integer"
    assert types["parts/word"] == "sc:Text"


@pytest.mark.filterwarnings("ignore")
def test_croissants_own_library_finds_nothing_wrong(toy, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant")
    run("export", toy.data_path, str(tmp_path), "--to", "croissant")
    found = mlcroissant.Dataset(jsonld=str(tmp_path / "croissant.json")).metadata
    assert not found.ctx.issues.errors
    assert [field.name for field in found.record_sets[0].fields][:2] == ["at", "image"]
    assert found.name == "toy"


def test_an_unknown_library(toy, tmp_path):
    done = CliRunner().invoke(app, ["dataset", "export", toy.data_path, "x", "--to", "pandas"])
    assert "huggingface, webdataset" in str(done.exception).replace("croissant, ", "")
