"""Public datasets, built of small stand-ins that a server with faults gives: the right rows, or a clear error."""

import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app
from headrace.datasets import declare
from headrace.datasets.public import public_configs, public_names
from headrace.remote import transport
from tests.public.stand_ins import ALL, EACH_FORMAT, MAKERS, with_sources, write_files
from tests.stores.faults import Answer, running


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setattr(transport, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    for name in ("HEADRACE_OFFLINE", "HEADRACE_LOCK", "HEADRACE_MIRRORS", "HEADRACE_CATALOGUES", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server():
    with running() as made:
        yield made


def served(server, name, config):
    """A dataset whose files a server has, with their sizes and checksums."""
    keys = public_configs(name)[config].sources
    data = {key: each for key, each in MAKERS[name](config).items() if key in keys}
    return with_sources(name, config, {key: server.put(f"{name}/{key}", each) for key, each in data.items()}, data=data)


@pytest.fixture
def publish(server, monkeypatch):
    """Have a public name mean stand-ins that the server has."""

    def one(name):
        made = {config: served(server, name, config) for config in public_configs(name)}
        monkeypatch.setitem(declare.DECLARED, name, made)
        return made

    return one


def left(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


def digest(built):
    return {split: [repr(row) for row in built.as_dataset(split)] for split in built.info.splits}


@pytest.mark.parametrize(("name", "config"), EACH_FORMAT)
def test_every_builder_with_faults(server, tmp_path, name, config):
    dataset = served(server, name, config)
    right = digest(with_sources(name, config, write_files(name, config, tmp_path / "files")).build(tmp_path / "right"))
    assert list(right) == list(dataset.row_counts)
    assert all(right.values())
    first = len(server.requests)
    faults = iter(["503", "reset", "truncated"])
    server.fault = lambda request: next(faults, None)
    assert digest(dataset.build(tmp_path / "faults", processes=1)) == right
    assert server.faults == 3 <= len(server.requests) - first
    whole = server.files
    for fault, said in (
        (lambda path, data: Answer(404), "no such file"),
        (lambda path, data: Answer(200, [("Content-Type", "text/html")], b"<html>Sign in"), "web page"),
        (lambda path, data: Answer(200, [], data[: len(data) // 2]), "bytes, not"),
        (lambda path, data: Answer(200, [], data[:-1] + bytes([data[-1] ^ 1])), "checksum mismatch"),
    ):
        server.own = lambda handler, fault=fault: fault(handler.path, whole[handler.path][1])
        with pytest.raises(hr.StorageError, match=rf"cannot be downloaded: .*{said}.*Put it at .*bad.downloads"):
            dataset.build(tmp_path / "bad", processes=1)
        assert [name for name in left(tmp_path / "bad") if not name.endswith(".part")] == []
        assert not (tmp_path / "bad" / name).exists()


@pytest.mark.parametrize(("name", "config"), [each for each in EACH_FORMAT if each[0] != "tiny_shakespeare"])
def test_a_file_that_is_cut_off_or_is_something_else_is_an_error(tmp_path, name, config):
    for number, spoil in enumerate((lambda data: data[: len(data) // 2], lambda data: b"\x7fELF something else" * 9)):
        files = write_files(name, config, tmp_path / f"files{number}")
        for path in files.values():
            path.write_bytes(spoil(path.read_bytes()))
        dataset = with_sources(name, config, files)
        folder = tmp_path / f"data{number}"
        try:
            dataset.build(folder, processes=1)
        except (hr.StorageError, hr.catalogue.BuildError):
            assert (
                not (folder / name / (config or dataset.version)).joinpath(dataset.version if config else "").exists()
            )
        else:  # a table may end after any row
            assert number == 0
            assert next(iter(files.values())).suffix in (".csv", "")


KILLS = """
import os, signal, sys
from pathlib import Path
from headrace.catalogue.builder import GeneratorDataset
from headrace.tfds import staging
from tests.public.stand_ins import with_sources, write_files

FORMATS = [("mnist", None), ("cifar10", None), ("svhn_cropped", None), ("tf_flowers", None), ("eurosat", "rgb"),
           ("titanic", None), ("movielens", "1m-ratings"), ("glue", "sst2")]
staging.CHUNK_ROWS, staging.BATCH_ROWS = 2, 1
folder = Path(sys.argv[1])
examples = GeneratorDataset.examples
left = [0]

def dying(self, part):
    for row in examples(self, part):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield row

GeneratorDataset.examples = dying

def build(dataset, data_dir, rows):
    child = os.fork()
    if child == 0:
        left[0] = rows
        dataset.build(data_dir, processes=1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for number, (name, config) in enumerate(FORMATS):
    dataset = with_sources(name, config, write_files(name, config, folder / f"files{number}"))
    home = "/".join(filter(None, (name, config)))
    whole, killed = folder / "whole", folder / "killed"
    assert build(dataset, whole, 0) == 0
    assert build(dataset, killed, 2) == -9, (name, config)
    assert not (killed / home / dataset.version).exists()
    assert build(dataset, killed, 0) == 0
    for path in (whole / home / dataset.version).iterdir():
        assert path.read_bytes() == (killed / home / dataset.version / path.name).read_bytes(), path
    assert [path.name for path in (killed / home).iterdir()] == [dataset.version]
print("done")
"""


def test_builders_of_each_format_killed_in_mid_build(tmp_path):
    import tests

    root = tests.__path__[0].rsplit("/", 1)[0]
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(tmp_path)], capture_output=True, text=True, check=False, cwd=root
    )
    assert done.stdout == "done\n", done.stderr


def test_the_lines_of_tutorials(publish, server):
    publish("mnist")
    ds = hr.load(name="mnist", split="train")
    assert len(ds) == 13
    asked = len(server.requests)
    for row in ds.take(1):
        assert (row["image"].shape, row["image"].dtype) == ((28, 28, 1), np.uint8)
    ds, info = hr.load("mnist:3.*.*", split="train[:80%]", as_supervised=True, with_info=True)
    assert (len(ds), info.full_name, info.splits["train"].num_examples) == (10, "mnist/3.0.1", 13)
    image, label = next(iter(ds.shuffle(13).batch(4).prefetch(hr.AUTOTUNE)))
    assert (image.shape, label.shape) == ((4, 28, 28, 1), (4,))
    whole = hr.load("mnist", split="test", batch_size=-1)
    assert whole["image"].shape == (7, 28, 28, 1)
    assert {name: len(part) for name, part in hr.load("mnist").items()} == {"train": 13, "test": 7}
    assert len(server.requests) == asked  # the second time nothing is downloaded
    assert len(hr.load("mnist:1.*.*", split="train")) == 13
    assert hr.catalogue.list_datasets()["mnist"] == ["1.0.0", "3.0.1"]
    publish("cats_vs_dogs")
    ds = hr.load("cats_vs_dogs", split="train", as_supervised=True)
    ds = ds.map(lambda image, label: (hr.image.resize(image, (8, 8)), label)).cache().batch(3)
    shapes = [images.shape for images, _ in ds]
    assert sum(shape[0] for shape in shapes) == len(hr.load("cats_vs_dogs", split="train"))
    assert {shape[1:] for shape in shapes} == {(8, 8, 3)}
    assert [shape[0] for shape in shapes[:-1]] == [3] * (len(shapes) - 1)


def test_a_ported_line_prepares_it_too(publish, server, monkeypatch):
    publish("wine_quality")
    with pytest.raises(FileNotFoundError, match="there is no dataset 'wine_quality'"):
        hr.tfds.load("wine_quality", split="train", download=False)
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match="there is no dataset 'wine_quality'"):
        hr.tfds.load("wine_quality", split="train")
    assert not server.requests
    monkeypatch.delenv("HEADRACE_OFFLINE")
    ds, info = hr.tfds.load("wine_quality/red:1.*.*", split="train", with_info=True)
    assert (len(ds), info.full_name) == (1, "wine_quality/red/1.0.0")
    asked = len(server.requests)
    assert len(hr.tfds.load("wine_quality/red", split="train")) == 1
    assert len(server.requests) == asked
    with pytest.raises(FileNotFoundError, match="there is no dataset 'no_such_thing'"):
        hr.tfds.load("no_such_thing")


def test_configs_versions_and_names(publish):
    made = publish("wine_quality")
    assert list(made) == ["white", "red"]
    assert len(hr.load("wine_quality/red", split="train")) == 1
    assert len(hr.load("wine_quality", split="train")) == 2  # the default one, though it was not the first
    with pytest.raises(ValueError, match=r"no config 'rose': there are red, white"):
        hr.load("wine_quality/rose")
    with pytest.raises(ValueError, match=r"no version 9\.\*\.\* of mnist: there are 1\.0\.0.*3\.0\.1"):
        hr.load("mnist:9.*.*")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'mnist'"):
        hr.load("mnits")
    publish("iris")
    assert hr.load("iris", with_info=True)[1].full_name == "iris/1.0.0"  # scikit-learn's, which needs no download
    assert hr.load("iris:2.*.*", with_info=True)[1].full_name == "iris/2.1.0"
    assert hr.load("iris", with_info=True)[1].full_name == "iris/2.1.0"


def test_nothing_is_downloaded_if_that_is_not_wanted(monkeypatch, tmp_path):
    with pytest.raises(
        FileNotFoundError,
        match=r"mnist 3\.0\.1 is not in .*11\.6 MB to download, about 22\.0 MB on disk.*dataset build mnist",
    ):
        hr.load("mnist", download=False)
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    with pytest.raises(hr.StorageError, match=r"HEADRACE_OFFLINE is set.*cvdf-datasets/mnist/train-images"):
        hr.load("mnist")
    assert left(tmp_path) == []


def test_two_processes_prepare_it_once(publish, server, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    publish("titanic")
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: len(hr.load("titanic", split="train")), range(3)))
    assert found == [3, 3, 3]
    assert len(server.requests) == 1


def test_search():
    assert hr.catalogue.search("flowers") == ["iris", "oxford_flowers102", "tf_flowers"]
    assert hr.catalogue.search("Film reviews sentences") == ["glue/sst2"]
    assert hr.catalogue.search("no such thing") == []


def test_every_declaration_is_complete():
    assert sorted(MAKERS) == public_names()
    for name, config in ALL:
        dataset = public_configs(name)[config]
        for each in (dataset.description, dataset.homepage, dataset.citation, dataset.row_counts, dataset.sources):
            assert each, (name, config)
        for source in dataset.source_files().values():
            assert source.size
            assert len(source.sha256) == 64
        keys = dataset.supervised_keys
        flat = [*(keys[0] if isinstance(keys[0], dict) else keys[:1]), keys[1]] if keys else []
        assert set(flat) <= set(dataset.feature)
        assert dataset.info.splits.total_num_examples == sum(dataset.row_counts.values())


def command(*words):
    done = CliRunner().invoke(app, ["dataset", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_the_commands(publish, server, tmp_path):
    publish("wine_quality")
    publish("cifar10")
    assert "mnist  3.0.1  (public, 11.6 MB to download)" in command("list")
    assert command("list", "--search", "flowers three species").split()[0] == "iris"
    said = command("info", "fashion_mnist")
    for part in ("not here yet: 30.9 MB to download", "licence: MIT", "train: 60,000 rows", "ClassLabel"):
        assert part in said
    assert "winequality-red.csv" in command("download", "wine_quality/red")
    asked = len(server.requests)
    assert "train: 1 rows in 1 files" in command("build", "wine_quality/red")
    assert len(server.requests) == asked
    command("build", "cifar10")
    assert "train: 25 rows in 1 files" in command("info", "cifar10")
    usage = command("du")
    for part in ("wine_quality/red/1.0.0", "cifar10/3.0.2", "downloads", "in all"):
        assert part in usage
    command("rm", "wine_quality/red", "--downloads")
    assert len(hr.load("wine_quality/red", split="train")) == 1
    command("rm", "wine_quality/red")
    command("rm", "cifar10")
    assert left(tmp_path / "tfds") == []
    assert [path.name for path in (tmp_path / "tfds").iterdir()] == ["downloads"]
    done = CliRunner().invoke(app, ["dataset", "rm", "cifar10"])
    assert isinstance(done.exception, FileNotFoundError)


def prepared(name, config, folder, tmp_path):
    return with_sources(name, config, write_files(name, config, tmp_path / "files")).build(folder, processes=1)


def test_mirrors_of_prepared_datasets(server, publish, monkeypatch, tmp_path):
    publish("penguins")
    built = prepared("penguins", "simple", tmp_path / "elsewhere", tmp_path)
    files = sorted(p for p in (tmp_path / "elsewhere").rglob("*") if p.is_file() and p.name[0] != ".")
    for path in files:
        if "downloads" not in path.parts:
            server.put(f"tfds/{path.relative_to(tmp_path / 'elsewhere')}", path.read_bytes())
    monkeypatch.setenv("HEADRACE_MIRRORS", f"{server.url}/nothing;{server.url}/tfds")
    ds, info = hr.load("penguins/simple", split="train", with_info=True)
    assert [repr(row) for row in ds] == [repr(row) for row in built.as_dataset("train")]
    assert info.features["species"].names == ["Adelie", "Chinstrap", "Gentoo"]
    assert not (tmp_path / "tfds/downloads").exists()
    assert [p.name for p in (tmp_path / "tfds/penguins/simple").iterdir()] == ["1.0.0"]
    shard = next(path for path in server.files if "tfrecord" in path)
    tag, data = server.files[shard]
    server.files[shard] = tag, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    with pytest.raises(hr.StorageError, match=r"tfrecord-00000-of-00001 is corrupt: .*checksum"):
        hr.load("penguins/simple", data_dir=tmp_path / "other")
    assert not (tmp_path / "other/penguins/simple/1.0.0").exists()
    server.files[shard] = tag, data
    assert len(hr.load("penguins/simple", split="train", data_dir=tmp_path / "other")) == 3
    assert len(hr.load("penguins", split="train")) == 2  # which no mirror has


def test_a_mirror_in_a_store(monkeypatch, tmp_path):
    import fsspec

    built = prepared("titanic", None, tmp_path / "elsewhere", tmp_path)
    fsspec.filesystem("memory").put(str(tmp_path / "elsewhere/titanic"), "/mirror/titanic", recursive=True)
    monkeypatch.setenv("HEADRACE_MIRRORS", "memory://mirror")
    ds = hr.load("titanic", split="train")
    assert [repr(row) for row in ds] == [repr(row) for row in built.as_dataset("train")]
    in_place = hr.load("titanic", split="train", data_dir="memory://mirror")
    assert [repr(row) for row in in_place] == [repr(row) for row in ds]


def test_the_pages_of_documentation_are_up_to_date():
    from pathlib import Path

    from headrace.datasets.pages import dataset_pages

    folder = Path(__file__).parents[2] / "docs/datasets"
    pages = dataset_pages()
    there = {path.name: path.read_text() for path in folder.glob("*.md")}
    assert there == pages, "run python -m headrace.datasets.pages docs/datasets"
    shown = {path.name for path in (folder / "samples").iterdir()}
    linked = {each for text in pages.values() for each in re.findall(r"\(samples/(.*?)\)", text)}
    assert linked == shown, "run python tools/dataset_samples.py"
    assert len(shown) > 12
    for name in shown:
        assert hr.image.decode_png((folder / "samples" / name).read_bytes(), 3).shape == (112, 768, 3)
