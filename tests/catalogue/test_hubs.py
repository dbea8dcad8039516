"""Datasets of the Hugging Face hub and of OpenML by name, from servers on loopback with their layouts."""

import hashlib
import io
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.catalogue.arff import read_arff
from headrace.cli.main import app
from headrace.remote import transport
from tests.stores.faults import Answer, running

BRANCH = "refs%2Fconvert%2Fparquet"


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setattr(transport, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    for name in ("HEADRACE_OFFLINE", "HEADRACE_LOCK", "HEADRACE_MIRRORS", "HF_TOKEN", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server(monkeypatch):
    with running() as made:
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.setenv("HEADRACE_OPENML_URL", made.url)
        yield made


def parquet(table):
    data = io.BytesIO()
    pq.write_table(table, data)
    return data.getvalue()


def hub_table(first, rows):
    """Rows as the hub's own library writes them: images as structs, with what it knows of columns in the metadata."""
    numbers = range(first, first + rows)
    pictures = [np.full((2 + n % 2, 3, 1), n, np.uint8) for n in numbers]
    table = pa.table(
        {
            "image": pa.array([{"bytes": hr.image.encode_png(p), "path": None} for p in pictures]),
            "label": pa.array([None if n == 3 else n % 2 for n in numbers], pa.int64()),
            "text": pa.array([None if n == 4 else f"row {n}" for n in numbers]),
            "scores": pa.array([[n, n / 2] for n in numbers], pa.list_(pa.float32())),
        }
    )
    features = {
        "image": {"_type": "Image"},
        "label": {"names": ["even", "odd"], "_type": "ClassLabel"},
        "text": {"dtype": "string", "_type": "Value"},
        "scores": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"},
    }
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def publish(server, repository, configs):
    """Have a dataset of Parquet files on the server, with its listings."""
    listing, trees = {}, {}
    for config, splits in configs.items():
        for split, tables in splits.items():
            for number, table in enumerate(tables):
                path = f"{config}/{split}/{number:04d}.parquet"
                data = table if isinstance(table, bytes) else parquet(table)
                url = server.put(f"datasets/{repository}/resolve/{BRANCH}/{path}", data)
                listing.setdefault(config, {}).setdefault(split, []).append(url)
                oid = hashlib.sha256(data).hexdigest()
                entry = {"type": "file", "path": path, "size": len(data), "lfs": {"oid": oid}}
                trees.setdefault(f"{config}/{split}", []).append(entry)
    server.put(f"api/datasets/{repository}/parquet", json.dumps(listing).encode())
    for home, tree in trees.items():
        server.put(f"api/datasets/{repository}/tree/{BRANCH}/{home}", json.dumps(tree).encode())


@pytest.fixture
def pets(server):
    publish(server, "team/pets", {"default": {"train": [hub_table(0, 3), hub_table(3, 3)], "test": [hub_table(6, 2)]}})
    return server


def left(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


def test_a_dataset_of_the_hub(pets, monkeypatch):
    ds, info = hr.load("hf:team/pets", split="train", with_info=True)
    assert [row["text"] for row in ds] == ["row 0", "row 1", "row 2", "row 3", "", "row 5"]
    assert [int(row["label"]) for row in ds] == [0, 1, 0, -1, 0, 1]
    assert [row["image"].shape for row in ds] == [(2, 3, 1), (3, 3, 1)] * 3
    assert [int(row["image"][0, 0, 0]) for row in ds] == [0, 1, 2, 3, 4, 5]
    assert ds[4]["scores"].tolist() == [4, 2]
    assert {name: split.num_examples for name, split in info.splits.items()} == {"train": 6, "test": 2}
    assert info.features["label"].names == ["even", "odd"]
    assert isinstance(info.features["image"], hr.tfds.features.Image)
    asked = len(pets.requests)
    part = hr.load("hf:team/pets", split="train[1:3]+test", as_supervised=True)
    assert [(int(image[0, 0, 0]), int(label)) for image, label in part] == [(1, 1), (2, 0), (6, 0), (7, 1)]
    decoders = {"image": hr.tfds.decode.SkipDecoding()}
    assert hr.load("hf:team/pets", split="test", decoders=decoders)[0]["image"][:4] == b"\x89PNG"
    only = hr.load("hf:team/pets", split="test", decoders=hr.tfds.decode.PartialDecoding({"text"}))
    assert list(only) == [{"text": "row 6"}, {"text": "row 7"}]
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    assert sorted(hr.load("hf:team/pets", download=False)) == ["test", "train"]
    assert len(pets.requests) == asked  # the second time nothing is downloaded


def test_the_rows_are_those_of_the_hubs_own_library(pets, tmp_path):
    datasets = pytest.importorskip("datasets")
    ours = [(row["text"], row["scores"].tolist()) for row in hr.load("hf:team/pets", split="train")]
    files = sorted(map(str, (tmp_path / "tfds/downloads/huggingface/team--pets").glob("*train*.parquet")))
    theirs = datasets.Dataset.from_parquet(files, cache_dir=str(tmp_path / "cache"))
    assert ours == [(row["text"] or "", row["scores"]) for row in theirs.select_columns(["text", "scores"])]


def test_configs_of_the_hub(server):
    tables = {"en": {"train": [hub_table(0, 2)]}, "de": {"train": [hub_table(2, 1)]}}
    publish(server, "words", tables)
    publish(server, "team/words", tables)
    with pytest.raises(ValueError, match=r"team/words has several configs: write hf:team/words/CONFIG with de, en"):
        hr.load("hf:team/words")
    assert len(hr.load("hf:team/words/de", split="train")) == 1
    assert len(hr.load("hf:team/words/en", split="train")) == 2
    with pytest.raises(ValueError, match=r"no config 'fr': .*de"):
        hr.load("hf:team/words/fr")
    with pytest.raises(ValueError, match="names no dataset of the hub"):
        hr.load("hf:")


def test_nothing_is_downloaded_if_that_is_not_wanted(server, tmp_path):
    publish(server, "team/two", {name: {"train": [hub_table(0, 2)]} for name in ("one", "other")})
    serve_openml(server, 40945, ARFF)
    for name in ("hf:team/two/one", "openml:40945"):
        with pytest.raises(FileNotFoundError, match=f"`headrace dataset build {name}` does"):
            hr.load(name, download=False)
        assert len(hr.load(name, split="train")) in (2, 3)
    asked = len(server.requests)
    next((tmp_path / "tfds").rglob("data.arff")).unlink()
    for name in ("hf:team/two/other", "openml:40945"):  # whose listings are here
        with pytest.raises(FileNotFoundError, match="was not to be downloaded"):
            hr.load(name, download=False)
    assert len(hr.load("hf:team/two/one", split="train", download=False)) == 2
    assert len(server.requests) == asked


@pytest.mark.parametrize("name", ["hf:team/pets", "openml:40945"])
def test_the_commands(pets, name, tmp_path):
    serve_openml(pets, 40945, ARFF)

    def command(*words):
        return CliRunner().invoke(app, ["dataset", *words])

    assert "was not to be downloaded" in str(command("info", name).exception)
    assert not pets.requests
    assert re.search(r"\d rows in .*downloads/", command("download", name).output)
    assert re.search(r"train: \d rows", command("build", name).output)
    assert command("info", name).output == command("build", name).output
    assert "not built but downloaded" in str(command("build", name, "--limit", "3").exception)
    assert "B  downloads" in command("du").output
    assert "B removed" in command("rm", name).output
    assert left(tmp_path / "tfds") == []
    assert isinstance(command("rm", name).exception, FileNotFoundError)


def test_incomplete_splits_of_the_hub_are_named(server):
    publish(server, "team/large", {"default": {"partial-train": [hub_table(0, 2)]}})
    with pytest.warns(hr.PipelineWarning, match="split 'partial-train' is incomplete: .*first 5 GB"):
        hr.load("hf:team/large")


def test_faults_of_the_hub(pets, monkeypatch, tmp_path):
    shard = next(path for path in pets.files if path.endswith("train/0001.parquet"))
    tag, data = pets.files[shard]
    pets.files[shard] = tag, data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(hr.StorageError, match="checksum mismatch"):
        hr.load("hf:team/pets")
    assert not any(name.endswith(".json") or "0001" in name for name in left(tmp_path / "tfds"))
    pets.files[shard] = tag, data
    faults = iter(["reset", "503", "truncated"])
    pets.fault = lambda request: next(faults, None)
    assert len(hr.load("hf:team/pets", split="train")) == 6
    with pytest.raises(hr.StorageError, match=r"parquet.json cannot be downloaded: .*no such file.*HF_TOKEN"):
        hr.load("hf:team/nothing")
    assert not any("nothing" in str(path) for path in (tmp_path / "tfds").rglob("*.parquet"))
    with pytest.raises(FileNotFoundError, match=r"hf:team/other is not in .*was not to be downloaded"):
        hr.load("hf:team/other", download=False)
    with pytest.raises(ValueError, match="has no versions to pin"):
        hr.catalogue.lock_dataset("hf:team/pets")


def test_a_token_is_sent_to_the_hub_alone(pets, monkeypatch):
    with running() as elsewhere:
        heard = []
        answer = pets.own

        def own(handler):
            heard.append(handler.headers.get("Authorization"))
            if handler.headers.get("Authorization") != "Bearer secret-of-mine":
                return Answer(401)
            if not handler.path.endswith(".parquet"):
                return answer(handler)
            return Answer(302, [("Location", elsewhere.put(handler.path[1:], pets.files[handler.path][1]))])

        pets.own = own
        with pytest.raises(hr.StorageError, match=r"401.*set HF_TOKEN if the dataset is private"):
            hr.load("hf:team/pets")
        monkeypatch.setenv("HF_TOKEN", "secret-of-mine")
        told = elsewhere.own
        sent_on = []
        elsewhere.own = lambda handler: sent_on.append(handler.headers.get("Authorization")) or told(handler)
        assert len(hr.load("hf:team/pets", split="test")) == 2
        assert sent_on == [None] * 3
        assert "secret" not in repr(hr.catalogue.SourceFile("http://x/y", headers={"Authorization": "secret"}))


ARFF = """% a comment
@RELATION 'titanic of a kind'

@ATTRIBUTE pclass integer
@ATTRIBUTE 'name of guest' STRING
@ATTRIBUTE sex {female, 'not given', male}
@ATTRIBUTE "age" REAL
@attribute survived {0,1}
@DATA
1,'Allen, Miss. "E\\'s" Walton',female,29,1
% another comment
3, Kelly, ?, ?, 0
2,"Bo, \\"quoted\\" ",'not given',0.5,?
"""


def serve_openml(server, number, text, **changes):
    url = server.put(f"data/v1/download/{number}/set.arff", text.encode())
    about = {
        "id": str(number), "name": "titanic", "version": "2", "url": url, "licence": "Public",
        "default_target_attribute": "survived", "description": "Passengers.",
        "md5_checksum": hashlib.md5(text.encode()).hexdigest(), **changes,
    }  # fmt: skip
    server.put(f"api/v1/json/data/{number}", json.dumps({"data_set_description": about}).encode())


def test_a_dataset_of_openml(server, monkeypatch):
    serve_openml(server, 40945, ARFF)
    ds, info = hr.load("openml:40945", split="train", with_info=True)
    assert [row["name of guest"] for row in ds] == ['Allen, Miss. "E\'s" Walton', "Kelly", 'Bo, "quoted" ']
    assert [int(row["sex"]) for row in ds] == [0, -1, 1]
    assert info.features["sex"].names == ["female", "not given", "male"]
    np.testing.assert_array_equal([row["age"] for row in ds], [29, np.nan, 0.5])
    assert (info.full_name, info.license, len(ds)) == ("openml_40945/2.0.0", "Public", 3)
    inputs, label = hr.load("openml:40945", split="train[:1]", as_supervised=True)[0]
    assert (sorted(inputs), int(label)) == (["age", "name of guest", "pclass", "sex"], 1)
    asked = len(server.requests)
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    assert len(hr.load("openml:40945", split="train", download=False)) == 3
    assert len(server.requests) == asked


def test_columns_that_openml_leaves_out_and_sparse_rows(server):
    text = "@relation s\n@attribute id integer\n@attribute a numeric\n@attribute b {x,'y z'}\n@data\n"
    serve_openml(server, 7, text + "{0 1, 1 2.5}\n{0 2,2 'y z'}\n{ }\n", row_id_attribute="id")
    ds = hr.load("openml:7", split="train")
    assert [(float(row["a"]), int(row["b"])) for row in ds] == [(2.5, 0), (0, 1), (0, 0)]
    with pytest.raises(ValueError, match="does not say what is input and what is label"):
        hr.load("openml:7", split="train", as_supervised=True)


def test_faults_of_openml(server, tmp_path):
    serve_openml(server, 1, ARFF, md5_checksum="0" * 32)
    with pytest.raises(hr.StorageError, match="checksum mismatch: its MD5 is"):
        hr.load("openml:1")
    serve_openml(server, 2, ARFF.replace(" Kelly,", "'Kelly' Anna,"))
    with pytest.raises(hr.StorageError, match=r"data.arff, line 12: a comma was expected before"):
        hr.load("openml:2")
    server.put("api/v1/json/data/3", b'{"error": {"code": "111", "message": "Unknown dataset"}}')
    with pytest.raises(hr.StorageError, match="does not describe a dataset"):
        hr.load("openml:3")
    assert left(tmp_path / "tfds/downloads/openml/1") == left(tmp_path / "tfds/downloads/openml/3") == []
    with pytest.raises(ValueError, match="write its number, as in openml:40945"):
        hr.load("openml:titanic")
    with pytest.raises(FileNotFoundError, match="was not to be downloaded"):
        hr.load("openml:5", download=False)


def test_arff_gives_what_scikit_learns_parser_gives(tmp_path):
    arff = pytest.importorskip("sklearn.externals._arff")
    (tmp_path / "set.arff").write_text(ARFF)
    ours = read_arff(tmp_path / "set.arff")
    theirs = arff.load(ARFF)
    assert [each.name for each in ours.attributes] == [name for name, _ in theirs["attributes"]]
    rows = [list(row) for row in zip(*ours.columns, strict=True)]
    said = [[f"{value:g}" if isinstance(value, float) else value for value in row] for row in theirs["data"]]
    assert rows == [[None if value is None else str(value) for value in row] for row in said]
