"""The code of the pages under docs/ runs: every page names the test that runs it."""

import re
from pathlib import Path

import numpy as np
import pytest

import headrace as hr

ROOT = Path(__file__).parents[1]
RUN_BY = {
    "catalogue": "tests/catalogue/test_page.py",
    "checkpoints": "tests/adapters/test_checkpoints_page.py",
    "databases": "tests/databases/test_page.py",
    "extending": "tests/test_extending.py",
    "index-space": "tests/test_docs_pages.py",
    "language-models": "tests/test_language_models_guide.py",
    "observe": "tests/observe/test_page.py",
    "porting": "tests/test_names.py",
    "service": "tests/cluster/test_page.py",
    "stores": "tests/stores/test_page.py",
    "text": "tests/text/test_docs.py",
    **dict.fromkeys(
        ("concepts", "device", "faq", "images", "index", "performance", "shards", "tables"), "tests/test_docs.py"
    ),
}


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(), re.DOTALL)


def test_every_page_with_code_is_run():
    with_code = {path.stem for path in (ROOT / "docs").glob("*.md") if blocks(path.stem)}
    assert with_code == set(RUN_BY)
    for page, module in RUN_BY.items():
        assert page in (ROOT / module).read_text()


def test_the_page_on_index_space_runs(tmp_path):
    pytest.importorskip("torch")
    files = hr.Dataset.range(64).map(lambda i: {"x": i}).write_tfrecord(tmp_path / "rows")
    features = {"x": hr.io.FixedLenFeature([], np.int64)}
    names = {
        "hr": hr,
        "ds": hr.Dataset.range(30),
        "files": files,
        "parse": lambda record: hr.io.parse_single_example(record, features),
    }
    with pytest.warns(UserWarning, match="rank"):  # this is one process, which the page says belongs to several
        for code in blocks("index-space"):
            exec(compile(code, "docs/index-space.md", "exec"), names)
    assert names["batch"]["x"].shape == (32,)
