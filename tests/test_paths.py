"""Path arguments that are local only refuse URLs, and make no folder of that name."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app
from headrace.core.paths import local_only

URL = "s3://me:sesame@bucket/x?sig=sesame"


def left(folder):
    return [path.name for path in folder.iterdir()]


def numbers():
    return hr.Dataset.range(3)


def words():
    return hr.Dataset.from_tensor_slices(["a", "b"])


def named():
    return numbers().map(lambda x: {"x": x})


def build(url):
    @hr.dataset(name="numbers", version="1.0.0", features={"x": int})
    def rows():
        yield {"x": 1}

    return rows.build(url)


LOCAL_ONLY = {
    "save": lambda url: numbers().save(url),
    "load": lambda url: hr.Dataset.load(url),
    "load(wait)": lambda url: hr.Dataset.load(url, wait=True),
    "cache": lambda url: numbers().cache(url),
    "snapshot": lambda url: numbers().snapshot(url),
    "Quarantine": lambda url: hr.Quarantine(url),
    "remote_cache": lambda url: hr.Options(remote_cache=url),
    "statistics": lambda url: numbers().statistics(state=url),
    "adapt": lambda url: hr.text.Vocabulary.adapt(words(), state=url),
    "Vocabulary.save": lambda url: hr.text.Vocabulary(["a"]).save(url),
    "Tokenizer": lambda url: hr.text.Tokenizer(url),
    "write_tfds": lambda url: named().write_tfds(url, "numbers"),
    "build": build,
    "report": lambda url: numbers().iterator().report(url),
    "write_index": lambda url: hr.catalogue.write_index(url),
    "tls_root_cert": lambda url: hr.cluster.addresses([], tls_root_cert=url),
}


@pytest.mark.parametrize("made", LOCAL_ONLY)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_url_is_refused_where_only_this_machine_will_do(tmp_path, monkeypatch, made, kind):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="s3://") as caught:
        LOCAL_ONLY[made](kind(URL))
    assert left(tmp_path) == [] and "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [("cache", "ls", URL), ("dataset", "card", "iris", "-o", URL), ("dataset", "build", URL),
     ("dataset", "export", "iris", URL, "--to", "croissant")],
)  # fmt: skip
def test_commands_refuse_urls_too(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code and "s3://" in f"{found.output} {found.exception}" and left(tmp_path) == []


@pytest.mark.parametrize(
    "write",
    [lambda path: named().write_tfrecord(path), lambda path: named().write_parquet(path),
     lambda path: named().write_webdataset(path), lambda path: hr.io.TFRecordWriter(path)],
)  # fmt: skip
def test_writers_that_take_urls_refuse_what_pathlib_makes_of_them(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="as a string"):
        write(Path("s3://bucket/x"))
    assert left(tmp_path) == []


def test_a_file_url_is_a_path_of_this_machine(tmp_path):
    numbers().save(f"file://{tmp_path}/kept")
    assert len(hr.Dataset.load(f"file://{tmp_path}/kept")) == 3 and left(tmp_path) == ["kept"]


def test_names_with_colons_are_paths(tmp_path):
    for name in ("a:b", "12:/x", "C:/x"):
        assert local_only(Path(name), "path") == Path(name)
    numbers().save(tmp_path / "s3:" / "x")
    assert len(hr.Dataset.load(tmp_path / "s3:" / "x")) == 3
