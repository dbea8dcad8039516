"""Datasets by name: installed ones, catalogues, versions, the lock file."""

import json

import numpy as np
import pytest

import headrace as hr
from headrace.catalogue.evolution import changes_between, demanded_kind, next_version, row_changes
from headrace.tfds.feature import as_feature
from headrace.tfds.files import Folder
from headrace.tfds.versions import Version

F = hr.tfds.features


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.delenv("HEADRACE_LOCK", raising=False)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    monkeypatch.chdir(tmp_path)


def make(folder, name, version, count=10, **columns):
    def row(x):
        return {"x": x, **{k: np.full((), v) for k, v in columns.items()}}

    return hr.Dataset.range(count).map(row).write_tfds(folder, name, version)


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine"])
def test_what_comes_with_scikit_learn(name):
    ds, info = hr.load(f"{name}:1.*.*", split="train[:50%]", as_supervised=True, with_info=True)
    inputs, target = ds[0]
    assert len(ds) == info.splits["train[:50%]"].num_examples > 5
    assert np.asarray(inputs).size > 1
    assert np.isfinite(np.asarray(target)).all()
    assert len(list(ds.shuffle(seed=1).batch(4))) == -(-len(ds) // 4)


def test_digits_say_what_they_are():
    info = hr.load("digits", with_info=True)[1]
    assert (
        repr(info.features)
        == "FeaturesDict({'image': Image(shape=(8, 8, 1), dtype=uint8), 'label': ClassLabel(num_classes=10)})"
    )
    parts = hr.load("iris", split=hr.tfds.even_splits("train", 4))
    assert [len(part) for part in parts] == [38, 38, 37, 37]
    assert hr.load("iris", split="train[:2]+train[-1:]", batch_size=-1)["label"].tolist() == [0, 0, 2]


def test_catalogues_are_looked_through_in_order(tmp_path):
    make(tmp_path / "a", "numbers", "1.0.0")
    make(tmp_path / "a", "numbers", "1.10.0", 11)
    make(tmp_path / "b", "numbers", "1.2.0", 12)
    hr.catalogue.add(tmp_path / "a")
    try:
        assert len(hr.load("numbers", split="train")) == 11
        hr.catalogue.add(tmp_path / "b")
        assert len(hr.load("numbers", split="train")) == 12
        assert len(hr.load("numbers:1.0.0", split="train")) == 10
        assert hr.catalogue.list_datasets()["numbers"] == ["1.0.0", "1.2.0", "1.10.0"]
        with pytest.raises(ValueError, match=r"no version 3\.\*\.\* of numbers"):
            hr.load("numbers:3.*.*")
        with pytest.raises(FileNotFoundError, match=r"no dataset 'nombers'.*did you mean 'numbers'"):
            hr.load("nombers")
    finally:
        hr.catalogue.remove(tmp_path / "a")
        hr.catalogue.remove(tmp_path / "b")


def test_a_stale_index_hides_no_version(tmp_path, monkeypatch):
    import fsspec

    make(tmp_path / "team", "numbers", "1.0.0")
    hr.catalogue.write_index(tmp_path / "team")
    assert json.loads((tmp_path / "team/catalogue.json").read_text()) == {"datasets": {"numbers": {"": ["1.0.0"]}}}
    make(tmp_path / "team", "numbers", "2.0.0", 20)
    fsspec.filesystem("memory").put(str(tmp_path / "team"), "/team", recursive=True)
    monkeypatch.setenv("HEADRACE_CATALOGUES", "memory://team")
    with pytest.warns(hr.PipelineWarning, match=r"catalogue\.json is stale.*headrace dataset index"):
        assert len(hr.load("numbers", split="train")) == 20
    assert len(hr.load("numbers:2.0.0", split="train")) == 20
    assert len(hr.load("numbers", split="train", data_dir=tmp_path / "team")) == 20
    assert hr.catalogue.list_datasets(data_dir=tmp_path / "team") == {"numbers": ["1.0.0", "2.0.0"]}
    (tmp_path / "team/catalogue.json").write_text("[]")
    with pytest.raises(hr.StorageError, match=r"no index of datasets"):
        hr.load("numbers", data_dir=tmp_path / "team")


def test_the_index_is_believed_where_a_store_cannot_be_listed(tmp_path, monkeypatch):
    import fsspec

    make(tmp_path / "team", "numbers", "1.0.0")
    hr.catalogue.write_index(tmp_path / "team")
    fsspec.filesystem("memory").put(str(tmp_path / "team"), "/unlisted", recursive=True)
    names = Folder.names

    def unlisted(self):
        if self.local is None and self.name == "numbers":
            raise PermissionError("403")
        return names(self)

    monkeypatch.setattr(Folder, "names", unlisted)
    assert len(hr.load("numbers", split="train", data_dir="memory://unlisted")) == 10


def test_a_lock_pins_version_and_files(tmp_path):
    make(tmp_path / "data", "numbers", "1.0.0")
    assert hr.catalogue.lock_dataset("numbers", data_dir=tmp_path / "data") == "numbers:1.0.0"
    make(tmp_path / "data", "numbers", "1.1.0", 20)
    assert len(hr.load("numbers", split="train", data_dir=tmp_path / "data")) == 10
    assert len(hr.load("numbers:1.*.*", split="train", data_dir=tmp_path / "data")) == 10
    with pytest.raises(ValueError, match=r"no version 1\.1\.0 of numbers in headrace\.lock: there are 1\.0\.0"):
        hr.load("numbers:1.1.0", data_dir=tmp_path / "data")
    page = tmp_path / "data/numbers/1.0.0/dataset_info.json"
    page.write_text(page.read_text().replace('"name": "train"', '"name": "trajn"'))
    with pytest.raises(hr.StorageError, match=r"dataset_info\.json has the SHA-256"):
        hr.load("numbers", data_dir=tmp_path / "data")
    with pytest.raises(ValueError, match=r"scikit-learn"):
        hr.catalogue.lock_dataset("iris")
    (tmp_path / "headrace.lock").write_text("{")
    with pytest.raises(hr.StorageError, match=r"headrace\.lock is damaged"):
        hr.load("numbers", data_dir=tmp_path / "data")


BASE = {"x": np.int64, "label": F.ClassLabel(names=["a", "b"]), "in": {"y": F.Text()}}


@pytest.mark.parametrize(
    ("after", "kind", "version"),
    [
        (BASE, "patch", "1.2.4"),
        ({**BASE, "z": np.float32}, "minor", "1.3.0"),
        ({**BASE, "label": F.ClassLabel(names=["a", "b", "c"])}, "minor", "1.3.0"),
        ({**BASE, "label": F.ClassLabel(names=["b", "a"])}, "major", "2.0.0"),
        ({**BASE, "x": np.int32}, "major", "2.0.0"),
        ({**BASE, "in": {}}, "major", "2.0.0"),
        ({**BASE, "in": {"y": F.Text(), "w": F.Sequence(np.int64)}}, "minor", "1.3.0"),
    ],
)
def test_what_a_change_of_features_demands(after, kind, version):
    found = changes_between(as_feature(BASE), as_feature(after), ["train"], ["train"])
    assert demanded_kind(found) == kind
    assert str(next_version(Version(1, 2, 3), kind)) == version


def test_splits_and_rows_that_change(tmp_path):
    first = hr.tfds.builder_from_directory(make(tmp_path, "numbers", "1.0.0"))
    same = hr.tfds.builder_from_directory(make(tmp_path, "numbers", "1.1.0", more=1))
    longer = hr.tfds.builder_from_directory(make(tmp_path, "numbers", "2.0.0", 11))
    other = hr.Dataset.range(10).map(lambda x: {"x": np.where(x == 7, 0, x)}).write_tfds(tmp_path, "numbers", "3.0.0")
    assert list(row_changes(first, same)) == []
    assert [str(c) for c in row_changes(first, longer)] == ["major: split 'train' had 10 rows, now 11"]
    changed = row_changes(first, hr.tfds.builder_from_directory(other))
    assert [str(c) for c in changed] == ["major: split 'train': row 7 is another"]
    assert demanded_kind(changes_between(as_feature(BASE), as_feature(BASE), ["train"], ["train", "test"])) == "minor"
    assert demanded_kind(changes_between(as_feature(BASE), as_feature(BASE), ["train"], [])) == "major"


def test_a_build_refuses_a_version_that_says_too_little(tmp_path):
    def build(version, features):
        @hr.dataset("grown", version=version, features=features, splits=["train"])
        def grown(split):
            yield dict.fromkeys(features, 1)

        return grown.build(tmp_path)

    build("1.0.0", {"x": np.int64})
    with pytest.raises(
        hr.catalogue.VersionError, match=r"feature 'y' is new. That is a minor change, which demands 1\.1\.0"
    ):
        build("1.0.1", {"x": np.int64, "y": np.int64})
    build("1.1.0", {"x": np.int64, "y": np.int64})
    with pytest.raises(hr.catalogue.VersionError, match=r"major change, which demands 2\.0\.0"):
        build("1.2.0", {"x": np.int32, "y": np.int64})
