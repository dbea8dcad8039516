"""README and docs pass pyright, and type checkers see what people import."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OTHERS_ERRORS = ("checkpoints",)  # trainers' own types: names that torch does not export, Keras's `verbose=0`
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").glob("*.md") if p.stem not in OTHERS_ERRORS)]
CONFIG = {
    "typeCheckingMode": "basic",
    "reportUndefinedVariable": "none",  # an example may begin where another ended
    "reportMissingImports": "none",
    "reportMissingModuleSource": "none",
    "reportUnusedExpression": "none",
}

USES = """
from typing import TYPE_CHECKING, assert_type

import headrace as hr
import torch.utils.data

ds = hr.Dataset.range(3)
assert_type(ds, hr.Dataset)
assert_type(ds.split(0.8, seed=1), tuple[hr.Dataset, ...])
feature = hr.io.FixedLenFeature([2, 3], "float32")
also = hr.io.FixedLenFeature((), "int64")
loader: torch.utils.data.IterableDataset = ds.to_torch()
batches = torch.utils.data.DataLoader(ds.to_torch(), batch_size=None)
spec = hr.TensorSpec([None], "int64")
parsed = hr.io.parse_example
lines = hr.TextLineDataset("a.txt")
names = hr.text.Vocabulary(["a"])
"""
WRONG = "import headrace as hr\nhr.Dataset.range(3).bach(2)\nhr.no_such_name\n"


def python_of(page: Path) -> str:
    """The code of a page; of an example with prompts, what stands behind them."""
    made = []
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        lines = block.splitlines()
        if any(line.startswith(">>> ") for line in lines):
            lines = [line[4:] for line in lines if line.startswith((">>> ", "... ", "...")) and line[:3] != "…"]
        made.append("\n".join(lines))
    return "\n\n".join(made) + "\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What pyright says of each file, in one run, since it starts slowly."""
    if shutil.which("node") is None and not _has_pyright():
        pytest.skip("pyright is not installed")
    folder = tmp_path_factory.mktemp("pyright")
    for page in PAGES:
        (folder / f"{page.stem.lower().replace('-', '_')}.py").write_text(python_of(page))
    (folder / "uses.py").write_text(USES)
    (folder / "wrong.py").write_text(WRONG)
    (folder / "pyrightconfig.json").write_text(json.dumps(CONFIG))
    command = [sys.executable, "-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot run here: {(done.stdout + done.stderr)[-200:]}")
    said: dict[str, list[str]] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            line = each["range"]["start"]["line"] + 1
            said.setdefault(Path(each["file"]).stem, []).append(f"line {line}: {each['message']}")
    return said


def _has_pyright() -> bool:
    import importlib.util

    return importlib.util.find_spec("pyright") is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_have_no_type_errors(found, page):
    assert found.get(page.stem.lower().replace("-", "_"), []) == []


def test_what_people_import_has_types(found):
    assert found.get("uses", []) == []


def test_a_name_that_is_not_there_is_an_error(found):
    said = "\n".join(found.get("wrong", []))
    assert '"bach"' in said and '"no_such_name"' in said


UNDECLARED = ("missing type annotation", "Ambiguous base class override")
NOT_IMPORTED = ("headrace.cli.", "headrace.datasets.", "headrace.adapters.accelerate.", "headrace.feature_column.flax.")
"""Commands, scripts, and classes whose bases belong to other packages."""


@pytest.mark.slow
def test_every_attribute_declares_its_type(tmp_path):
    if not _has_pyright():
        pytest.skip("pyright is not installed")
    command = [sys.executable, "-m", "pyright", "--verifytypes", "headrace", "--ignoreexternal", "--outputjson"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable],
        capture_output=True, text=True, timeout=900, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot run here: {(done.stdout + done.stderr)[-200:]}")
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    assert len(symbols) > 5000
    undeclared = {
        symbol["name"]
        for symbol in symbols
        for said in symbol["diagnostics"]
        if any(word in said["message"] for word in UNDECLARED) and not symbol["name"].startswith(NOT_IMPORTED)
    }
    assert undeclared == set(), "other type checkers may infer another type: write it"
