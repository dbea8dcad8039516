"""What people read when something is wrong: what it is, and what to write instead."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.cli.script import load_script
from headrace.ops.progress import dataset_name

D = hr.Dataset


def test_images_of_different_sizes_name_resize():
    sizes = [np.zeros((3, 4, 3), np.uint8), np.zeros((5, 4, 3), np.uint8)]
    ds = D.from_generator(lambda: iter(sizes), output_signature=hr.TensorSpec([None, None, 3], np.uint8))
    for batches in (ds.batch(2), D.zip((ds, D.range(2))).batch(2)):
        with pytest.raises(hr.ElementError, match=r"hr\.image\.resize\(image, \(224, 224\)\).*image_size="):
            list(batches)


@pytest.mark.parametrize(
    ("use", "kind", "said"),
    [
        (lambda _: hr.Options(cpu_budgt=2), TypeError, r"hr\.Options has no cpu_budgt: did you mean cpu_budget\?"),
        (lambda _: hr.load(None), TypeError, "such as 'mnist', not None"),
        (lambda _: list(hr.TextLineDataset("s3:/bucket/x")), OSError, "a URL has two slashes: s3://bucket/x"),
        (lambda _: list(hr.TextLineDataset("htp://host/x")), ValueError, r"system for htp://; did you mean http://\?"),
        (lambda path: list(hr.TextLineDataset(path)), OSError, r"list_files\('\S+/\*'\) finds the files in it"),
        (lambda _: load_script("train.csv:ds"), hr.HeadraceError, "no module 'train.csv'; write SCRIPT.py:NAME or MOD"),
    ],
)
def test_what_is_misspelt_is_answered_with_what_may_be_meant(tmp_path, use, kind, said):
    with pytest.raises(kind, match=said):
        use(tmp_path)


def test_a_file_that_is_no_parquet_file_is_named_once(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"ParquetDataset: \S+a\.parquet: cannot be read") as caught:
        hr.ParquetDataset(tmp_path / "a.parquet")
    assert str(caught.value).count("a.parquet") == 1


def test_rows_of_different_lengths_still_name_padding():
    with pytest.raises(hr.ElementError, match="padded_batch"):
        list(D.range(2).map(lambda x: np.zeros(x + 1), mode="eager").batch(2))


def test_extras_that_are_named_exist():
    """In README and docs, and in the errors that say what to install."""
    root = Path(__file__).parents[1]
    extras = set(tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py")]
    named = {extra for page in pages for extra in re.findall(r"headrace\[(\w+)\]", page.read_text())} - {"extra"}
    assert {"torch", "s3", "ray"} <= named
    assert named <= extras


def test_a_vocabulary_shows_its_size():
    words = hr.text.Vocabulary([f"w{i}" for i in range(1500)])
    assert repr(words) == "Vocabulary(1,500 tokens, num_oov_buckets=1, default_value=-1)"


def test_explain_shows_where_a_cache_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert 'cache("cc")' in str(D.range(3).cache("cc").explain())
    assert "cache()" in str(D.range(3).cache().explain())
    elsewhere = Path(os.path.relpath(tmp_path.parent / "kept"))
    assert "kept" in str(D.range(3).cache(elsewhere).explain())


def test_a_progress_bar_is_named_after_its_dataset(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    assert dataset_name(hr.TextLineDataset(tmp_path / "a.txt").map(len).batch(2)._node) == "TextLineDataset"
    assert dataset_name(D.range(3).map(abs, name="training").batch(2)._node) == "training"


def test_a_device_that_is_not_there():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("it is there")
    with pytest.raises(ValueError, match=r'device="cuda"\).*has no CUDA here, because .* else "cpu"'):
        D.range(4).batch(2).to_torch(device="cuda")
    with pytest.raises(ValueError, match=r"pin_memory=True\).*page-locked for a GPU.*torch.cuda.is_available"):
        hr.Dataset.range(3).to_torch(pin_memory=True)


KERAS = """
import sys, importlib.abc
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tensorflow":
            raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "tensorflow" else found(name, *rest)
import headrace as hr
try:
    hr.Dataset.range(4).batch(2).to_keras()
except ModuleNotFoundError as error:
    print(error)
"""


def test_keras_without_its_backend_says_which_are_there(tmp_path):
    pytest.importorskip("keras")
    environment = {**os.environ, "KERAS_HOME": str(tmp_path)}
    environment.pop("KERAS_BACKEND", None)
    done = subprocess.run(
        [sys.executable, "-c", KERAS], capture_output=True, text=True, env=environment, timeout=300, check=True
    )
    assert "to_keras: Keras wants the backend tensorflow, which is not installed" in done.stdout
    assert 'os.environ["KERAS_BACKEND"] = ' in done.stdout


UNBATCHED = """
import numpy as np, headrace as hr
try:
    hr.Dataset.range(4).map(lambda x: (np.ones(3, np.float32), x)).to_keras()
except ValueError as error:
    print(error)
"""


def test_keras_wants_batches():
    pytest.importorskip("keras")
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    done = subprocess.run(
        [sys.executable, "-c", UNBATCHED], capture_output=True, text=True, env=environment, timeout=300, check=True
    )
    assert "write ds.batch(32).to_keras()" in done.stdout
