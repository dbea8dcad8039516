"""Nonsense in the files of a dataset's directory is one StorageError that names the file."""

import json

import pytest

import headrace as hr
from headrace.tfds.info import shard_name
from tests.fuzz import datasets

D = hr.Dataset
INFO, FEATURES = "rows/1.0.0/dataset_info.json", "rows/1.0.0/features.json"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_LOCK", str(tmp_path / "headrace.lock"))
    D.range(3).map(lambda x: {"x": x, "y": x}).write_tfds(tmp_path, "rows", supervised_keys=("x", "y"))
    return tmp_path


def changed(path, change):
    page = json.loads(path.read_text())
    change(page)
    path.write_text(json.dumps(page))


INFO_CHANGES = {
    "template": lambda page: page["splits"][0].update(filepathTemplate="{DATASET.__class__}"),
    "a long template": lambda page: page["splits"][0].update(filepathTemplate="{SPLIT:>4000000000}"),
    "a template that leads elsewhere": lambda page: page["splits"][0].update(filepathTemplate="../../{SPLIT}"),
    "a name that leads elsewhere": lambda page: page.update(name="../../x"),
    "infinite lengths": lambda page: page["splits"][0].update(shardLengths=[float("inf")]),
    "negative lengths": lambda page: page["splits"][0].update(shardLengths=[-3]),
    "huge lengths": lambda page: page["splits"][0].update(shardLengths=["9" * 40]),
    "lengths of text": lambda page: page["splits"][0].update(shardLengths="333"),
    "splits": lambda page: page.update(splits=3),
    "a split": lambda page: page.update(splits=["train"]),
    "the name": lambda page: page.update(name=["rows"]),
    "the version": lambda page: page.update(version=1.0),
    "urls": lambda page: page.update(location={"urls": [1]}),
    "a location": lambda page: page.update(location="here"),
    "keys": lambda page: page.update(supervisedKeys={"tuple": 3}),
    "notes": lambda page: page.update(releaseNotes=[]),
    "size": lambda page: page.update(downloadSize=1e400),
}


@pytest.mark.parametrize("kind", INFO_CHANGES)
def test_the_info(kind, folder):
    changed(folder / INFO, INFO_CHANGES[kind])
    with pytest.raises(hr.StorageError, match=r"dataset_info\.json"):
        hr.tfds.load("rows", split="train", data_dir=folder)


def test_an_info_that_is_null_is_damaged_and_not_missing(folder):
    (folder / INFO).write_text("null")
    with pytest.raises(hr.StorageError, match=r"dataset_info\.json is damaged: it has no name"):
        hr.tfds.load("rows", split="train", data_dir=folder)


FEATURE_CHANGES = {
    "no class": lambda inner: inner["x"].pop("pythonClassName"),
    "an unknown class": lambda inner: inner["x"].update(pythonClassName="os.system"),
    "a shape": lambda inner: inner["x"].update(tensor={"shape": {"dimensions": ["1e9"]}, "dtype": "int64"}),
    "an infinite shape": lambda inner: inner["x"].update(tensor={"shape": [float("inf")], "dtype": "int64"}),
    "a huge shape": lambda inner: inner["x"].update(tensor={"shape": [2**80], "dtype": "int64"}),
    "a dtype": lambda inner: inner["x"].update(tensor={"shape": {}, "dtype": "float9"}),
    "a dtype of many digits": lambda inner: inner["x"].update(tensor={"shape": {}, "dtype": "9" * 5000}),
    "a dtype with a repeat": lambda inner: inner["x"].update(tensor={"shape": {}, "dtype": "01i4"}),
    "a list of dtypes": lambda inner: inner["x"].update(tensor={"shape": {}, "dtype": "i4,f4"}),
    "many classes": lambda inner: inner.update(
        x={"pythonClassName": "tensorflow_datasets.x.ClassLabel", "classLabel": {"numClasses": 10**15}}
    ),
}


@pytest.mark.parametrize("kind", FEATURE_CHANGES)
def test_the_features(kind, folder):
    changed(folder / FEATURES, lambda page: FEATURE_CHANGES[kind](page["featuresDict"]["features"]))
    with pytest.raises(hr.StorageError, match=r"features\.json"):
        hr.tfds.load("rows", split="train", data_dir=folder)


DEEP = b'{"a":' * 100_000


@pytest.mark.parametrize("name", [INFO, FEATURES, "catalogue.json", "headrace.lock", "rows/.config/metadata.json"])
@pytest.mark.parametrize(
    "data", [DEEP, b"[" * 100_000, b"\xff\xfe", b"[1]", b'"x"'], ids=["deep", "lists", "bytes", "a list", "text"]
)
def test_any_page(name, data, folder):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    if "config" in name:
        (folder / "rows" / "1.0.0").rename(folder / "rows" / "a")
        for config in "ab":
            (folder / "rows" / config / "1.0.0").mkdir(parents=True, exist_ok=True)
    with pytest.raises(hr.StorageError, match=name.rpartition("/")[2]):
        hr.load("rows", split="train", data_dir=folder, download=False)


@pytest.mark.parametrize(
    "entry", [3, {}, {"version": "1.0.0"}, {"version": "1.0.0", "files": {"a": {}}}, {"version": 1, "files": {}}]
)
def test_the_lock(entry, folder):
    (folder / "headrace.lock").write_text(json.dumps({"datasets": {"rows": entry}}))
    with pytest.raises(hr.StorageError, match=r"headrace\.lock is damaged"):
        hr.load("rows", split="train", data_dir=folder, download=False)


@pytest.mark.parametrize("versions", [3, ["one"], [1], {"": ["1.0.0"]}])
def test_the_index(versions, folder):
    (folder / "catalogue.json").write_text(json.dumps({"datasets": {"rows": {"": versions}}}))
    with pytest.raises(hr.StorageError, match=r"catalogue\.json"):
        hr.catalogue.list_datasets(data_dir=folder)


def test_known_fields_of_a_template():
    made = shard_name("{DATASET}/{SPLIT}.{FILEFORMAT}-{SHARD_INDEX}-{NUM_SHARDS}", "d", "train", "tfrecord", 3, 10)
    assert made == "d/train.tfrecord-00003-00010"


@pytest.mark.parametrize(
    "template",
    [
        "{0}",
        "{}",
        "{DATASET!r}",
        "{DATASET:>9}",
        "{X}",
        "{{DATASET}}",
        "{DATASET",
        "DATASET}",
        "/a",
        "a/../b",
        "a\\b",
        "",
    ],
)
def test_other_templates_are_refused(template):
    with pytest.raises(hr.StorageError, match="filepathTemplate"):
        shard_name(template, "d", "train", "tfrecord", 0, 1)


@pytest.mark.parametrize(
    "text", ['{"x":' * 50_000, '{"x": ' + "[" * 50_000 + "]" * 50_000 + "}"], ids=["objects", "lists"]
)
def test_json_that_is_nested_too_deep_is_the_elements_error(text):
    with pytest.raises(hr.ParseError, match="deep"):
        hr.io.decode_json(text)
    ds = D.from_tensor_slices([text, '{"x": 1}']).map(
        lambda line: hr.io.decode_json(line, {"x": "int64"}), mode="eager"
    )
    assert list(ds.ignore_errors()) == [{"x": 1}]


@pytest.mark.parametrize("value", ["1e999", "9" * 400, '"x"', "NaN", "{}"])
def test_numbers_that_are_none(value):
    with pytest.raises(hr.ParseError):
        hr.io.decode_json(f'{{"x": {value}}}', {"x": int})


def test_directories_with_something_wrong_in_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_LOCK", str(tmp_path / "headrace.lock"))
    assert datasets.run(60, 5, tmp_path) > 20
