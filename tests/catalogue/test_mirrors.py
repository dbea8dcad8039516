"""Mirrors of prepared datasets, on a server of Google Cloud Storage and one of HTTP: read in place, or copied."""

import numpy as np
import pytest

import headrace as hr
from headrace.remote import transport
from tests.stores.conftest import emulator, gs, http  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setattr(transport, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    for name in ("HEADRACE_OFFLINE", "HEADRACE_LOCK", "HEADRACE_MIRRORS", "HEADRACE_CATALOGUES", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["gs", "http"])
def store(request):
    return request.getfixturevalue(request.param)


def rows(version):
    labels = np.arange(20) % 3
    return hr.Dataset.from_tensor_slices({"x": np.arange(20) * version, "label": labels})


@pytest.fixture
def mirror(store, tmp_path):
    """A store with versions of `points`, which no builder here makes, of `boxes/small`, and of a public dataset."""
    folder = tmp_path / "prepared"
    features = {"x": np.int64, "label": hr.tfds.features.ClassLabel(names=["a", "b", "c"])}
    for version in (1, 2):
        rows(version).write_tfds(
            folder, "points", version=f"{version}.0.0", features=features, supervised_keys=("x", "label"), shards=2
        )
    rows(5).write_tfds(folder, "boxes", config="small", features=features)
    rows(3).write_tfds(folder, "titanic", version="4.0.0", features=features)
    hr.catalogue.write_index(folder)
    for path in folder.rglob("*"):
        if path.is_file() and ".headrace" not in path.parts:
            store.put(f"datasets/{path.relative_to(folder)}", path.read_bytes())
    return store.patient(catalogue_mirrors=[store.url("nothing"), store.url("datasets")])


def numbers(ds):
    return sorted(int(row["x"]) for row in ds)


def test_prepared_datasets_are_read_in_place(mirror, tmp_path):
    ds, info = hr.load("points:1.*.*", split="train", download=False, options=mirror, with_info=True)
    assert numbers(ds) == list(range(20))
    assert (len(ds), info.full_name, info.features["label"].names) == (20, "points/1.0.0", ["a", "b", "c"])
    newest = hr.load("points", split="train[3:4]", download=False, options=mirror, as_supervised=True)
    assert newest[0] == (6, 0)
    assert numbers(hr.load("boxes", split="train", download=False, options=mirror)) == list(range(0, 100, 5))
    assert numbers(hr.load("titanic", split="train", download=False, options=mirror)) == list(range(0, 60, 3))
    assert not (tmp_path / "tfds").exists()
    with pytest.raises(FileNotFoundError, match="there is no dataset 'circles'"):
        hr.load("circles", options=mirror)


def test_prepared_datasets_are_copied(mirror, store, tmp_path, monkeypatch):
    ds = hr.load("points:2.0.0", split="train", options=mirror)
    assert numbers(ds) == list(range(0, 40, 2))
    assert numbers(hr.load("boxes/small", split="train", options=mirror)) == list(range(0, 100, 5))
    asked = len(store.proxy.requests)
    assert [repr(row) for row in hr.load("points", split="train")] == [repr(row) for row in ds]
    assert numbers(hr.load("boxes", split="train")) == list(range(0, 100, 5))
    assert len(store.proxy.requests) == asked
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    assert numbers(hr.load("points", split="train")) == list(range(0, 40, 2))
    with pytest.raises(ValueError, match=r"no version 1\.0\.0"):
        hr.load("points:1.0.0", split="train", options=mirror)
    assert len(store.proxy.requests) == asked


def test_a_mirror_that_is_down_is_passed_over(mirror, store, caplog):
    mirrors = ["http://127.0.0.1:1/datasets", store.url("datasets")]
    options = hr.Options(catalogue_mirrors=mirrors, storage_options=mirror.storage_options)
    assert numbers(hr.load("points:2.0.0", split="train", download=False, options=options)) == list(range(0, 40, 2))
    assert "mirror http://127.0.0.1:1/datasets: " in caplog.text


def test_options_refuse_a_single_path():
    with pytest.raises(TypeError, match="catalogue_mirrors is a list of folders and URLs, not 'gs://team/data'"):
        hr.Options(catalogue_mirrors="gs://team/data")
