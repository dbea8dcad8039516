"""The code of docs/catalogue.md runs, on stand-ins for what it downloads; tests/catalogue/test_hubs.py has the hubs."""

import re
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from tests.public.stand_ins import with_sources, write_files

PAGE = Path(__file__).parents[2] / "docs/catalogue.md"
PUBLIC, _, TFDS, MAKING, NAMES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    for name in ("HEADRACE_LOCK", "HEADRACE_MIRRORS", "HEADRACE_CATALOGUES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


def prepare(name, config, tmp_path, data_dir):
    with_sources(name, config, write_files(name, config, tmp_path / "files")).build(data_dir, processes=1)


def test_public_datasets_and_those_of_tfds(tmp_path):
    prepare("mnist", None, tmp_path, tmp_path / "tfds")
    prepare("fashion_mnist", None, tmp_path, tmp_path / "tfds")
    prepare("glue", "sst2", tmp_path, tmp_path / "team")
    names = {"hr": hr}
    exec(PUBLIC, names)
    assert names["info"].full_name.startswith("mnist/3.")
    assert set(names["test"]) == {"image", "label"}
    whole = next((tmp_path / "team/glue/sst2").iterdir())
    code = TFDS.replace("gs://team/tfds", str(tmp_path / "team")).replace("/data/toy/1.0.0", str(whole))
    exec(code.replace("glue/cola", "glue/sst2"), names)
    assert names["info"].full_name.startswith("glue/sst2/")
    assert len(names["ds"]) > 0


def test_a_dataset_of_ones_own(tmp_path):
    (tmp_path / "names.txt").write_text("Ann\n")
    code = MAKING.replace("gs://team/names.txt", str(tmp_path / "names.txt")).replace(', sha256="…"', "")
    reviews = {"a.csv": [("good", 5), ("bad", 1)], "b.csv": [("so-so", 3)], "c.csv": [("fine", 4)]}
    names = {"hr": hr, "np": np, "read": reviews.__getitem__}
    exec(code.replace('build("/data")', f'build("{tmp_path}/data", processes=1)'), names)
    exec(NAMES.replace("gs://team/datasets", str(tmp_path / "data")), names)
    rows = hr.load("reviews", split="train", as_supervised=True)
    assert sorted((text, int(stars)) for text, stars in rows) == [(b"bad", 1), (b"good", 5), (b"so-so", 3)]
